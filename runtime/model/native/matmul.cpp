// Products of float32 activations with weights in the precision of a GGUF file, as operations of an OpenVINO
// graph on the CPU.
//
// Sixteen rows of a matrix are one panel, in which the codes of four neighbouring columns of all rows lie
// together: one instruction multiplies 64 codes with four activations. A panel is a sequence of units, each of
// `Type::columns` columns (see the structs below); `pack` writes them from the blocks of a file. Activations
// are rounded to 8 bits with a scale for each 32 of them. A row of activations is computed alike whatever
// rows are computed with it.
//
// This file includes itself once for each instruction set; the one that this processor has is chosen when the
// library is loaded.
#ifndef INSTRUCTIONS

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/op/op.hpp>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

namespace {

constexpr int ROWS = 16;   // of a panel
constexpr int GROUP = 32;  // activations that share a scale
constexpr int CODES = 4 * ROWS;  // bytes of the codes of four columns at 8 bits
constexpr size_t FEW = 16;       // the most rows of activations for which the codes of a panel are not taken apart first
constexpr size_t TILE = 512;     // rows of activations that stay in a core's cache

using Half = uint16_t;

inline float to_float(Half half) {
    const uint32_t sign = uint32_t(half & 0x8000) << 16, rest = half & 0x7fff;
    uint32_t bits = rest << 13;
    float value;
    std::memcpy(&value, &bits, 4);
    value *= 0x1p112f;  // also right for subnormal numbers
    std::memcpy(&bits, &value, 4);
    if (rest >= 0x7c00) bits |= 0x7f800000;
    bits |= sign;
    std::memcpy(&value, &bits, 4);
    return value;
}

// The units, by llama.cpp's name. `bits`: of a code. `group`: columns that share a scale. `zero`: what is
// taken off a code. `has_minima`: each group has an offset besides. Scales of K types are integers times
// those of the unit.
template <int Bits, int Group, int Zero, bool HasMinima, bool IsK, bool IsApart = false>
struct UnitType {
    static constexpr int bits = Bits, group = Group, zero = Zero, columns = IsK ? 256 : Group;
    static constexpr bool has_minima = HasMinima, is_k = IsK, is_apart = IsApart, has_bytes = IsApart || Bits == 8;
    static constexpr int low_bytes = (has_bytes ? 16 : 8) * Group;
    static constexpr int high_bytes = has_bytes || Bits == 4 ? 0 : (Bits - 4) * ROWS * Group / 8;
    static constexpr int scale_bytes = IsApart ? 4 : IsK ? 1 : 2;
    static constexpr int head = IsK ? ROWS * 2 * (1 + HasMinima) : 0;
    static constexpr int group_bytes = ROWS * scale_bytes * (1 + HasMinima) + high_bytes + low_bytes;
    static constexpr int bytes = head + columns / Group * group_bytes;
};
using Q4_0 = UnitType<4, 32, 8, false, false>;
using Q4_1 = UnitType<4, 32, 0, true, false>;
using Q5_0 = UnitType<5, 32, 16, false, false>;
using Q5_1 = UnitType<5, 32, 0, true, false>;
using Q8_0 = UnitType<8, 32, 128, false, false>;
using Q4_K = UnitType<4, 32, 0, true, true>;
using Q5_K = UnitType<5, 32, 0, true, true>;
using Q6_K = UnitType<6, 16, 32, false, true>;
// Not of a file: the same numbers with a byte for each code, and with float32 scales.
template <class Type>
using Apart = UnitType<Type::bits, Type::group, Type::zero, Type::has_minima, false, true>;

template <class Function>
void with_type(int64_t type, Function function) {
    switch (type) {
        case 2: return function(Q4_0());
        case 3: return function(Q4_1());
        case 6: return function(Q5_0());
        case 7: return function(Q5_1());
        case 8: return function(Q8_0());
        case 12: return function(Q4_K());
        case 13: return function(Q5_K());
        case 14: return function(Q6_K());
        default: throw std::invalid_argument("agentrt: no panels of this type");
    }
}

// Rows of activations in 8 bits.
struct Activations {
    size_t columns = 0;
    std::vector<int8_t> codes;   // [rows, columns]
    std::vector<float> scales;   // [rows, columns / GROUP]
    std::vector<int32_t> sums;   // [rows, columns / 16] of codes
    std::vector<float> offsets;  // [rows, columns / GROUP] sum of codes times scale

    void resize(size_t rows, size_t width) {
        columns = width;
        codes.resize(rows * width);
        scales.resize(rows * width / GROUP);
        sums.resize(rows * width / 16);
        offsets.resize(rows * width / GROUP);
    }
};

// One matrix of an operation.
struct Matrix {
    const uint8_t* panels;
    int64_t type;  // llama.cpp's number
    size_t rows;
    float* out;  // [rows of activations, rows]
};

}  // namespace

#if defined(NATIVE)  // by -march=native: the instruction set of this processor alone
#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define INSTRUCTIONS avx512_vnni
#define SET 3
#define WIDTH 16
#elif defined(__AVXVNNI__)
#define INSTRUCTIONS avx_vnni
#define SET 2
#define WIDTH 8
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define INSTRUCTIONS avx2
#define SET 1
#define WIDTH 8
#else
#define INSTRUCTIONS portable
#define SET 0
#define WIDTH 8
#endif
#include __FILE__
#else
#define INSTRUCTIONS portable
#define SET 0
#define WIDTH 8
#include __FILE__
#undef INSTRUCTIONS
#undef WIDTH
#undef SET
#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#define INSTRUCTIONS avx2
#define SET 1
#define WIDTH 8
#include __FILE__
#undef INSTRUCTIONS
#undef WIDTH
#undef SET
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avxvnni")
#define INSTRUCTIONS avx_vnni
#define SET 2
#define WIDTH 8
#include __FILE__
#undef INSTRUCTIONS
#undef WIDTH
#undef SET
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")
#define INSTRUCTIONS avx512_vnni
#define SET 3
#define WIDTH 16
#include __FILE__
#undef INSTRUCTIONS
#undef WIDTH
#undef SET
#pragma GCC pop_options
#endif
#endif

namespace {

struct Kernels {
    const char* name;
    void (*quantise)(const float* values, size_t row, Activations& into);
    void (*gate)(float* gates, const float* values, size_t count, bool is_silu);
    void (*multiply)(const Matrix& matrix, size_t first, size_t last, const Activations& x, size_t rows);
};

#define KERNELS(set) {#set, set::quantise, set::gate, set::multiply}
#define KERNELS_OF(set) KERNELS(set)
const Kernels ALL[] = {  // the fastest first
#if defined(NATIVE)
    KERNELS_OF(INSTRUCTIONS),
#else
#if defined(__x86_64__)
    KERNELS(avx512_vnni), KERNELS(avx_vnni), KERNELS(avx2),
#endif
    KERNELS(portable),
#endif
};

bool has(const std::string& name) {
#if defined(NATIVE)
    return true;
#elif defined(__x86_64__)
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (name == "avx2") return has_avx2;
    if (name == "avx_vnni") {
        unsigned a = 7, b = 0, c = 1, d = 0;
        __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        return has_avx2 && (a >> 4 & 1);
    }
    if (name == "avx512_vnni")
        return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
    return name == "portable";
}

// Returns the kernels of this name; without one, the fastest that this processor has. Null if there are none.
const Kernels* find_kernels(const char* name) {
    for (const Kernels& each : ALL)
        if (has(each.name) && (!name || std::string(name) == each.name)) return &each;
    return nullptr;
}

const Kernels* chosen = find_kernels(nullptr);

size_t panel_bytes(int64_t type, size_t columns) {
    size_t bytes = 0;
    with_type(type, [&](auto t) { bytes = columns / t.columns * t.bytes; });
    return bytes;
}

// Multiplies rows of activations with all matrices.
void multiply(const float* x, size_t rows, size_t columns, const std::vector<Matrix>& matrices) {
    static thread_local Activations of_thread;
    Activations& activations = of_thread;  // other threads read this one's
    activations.resize(rows, columns);
    if (rows < 8) {
        for (size_t row = 0; row < rows; row++) chosen->quantise(x, row, activations);
    } else {
        tbb::parallel_for(size_t(0), rows, [&](size_t row) { chosen->quantise(x, row, activations); });
    }
    size_t panels = 0;
    for (const Matrix& each : matrices) panels += (each.rows + ROWS - 1) / ROWS;
    const size_t parts = 4 * size_t(tbb::this_task_arena::max_concurrency());
    const size_t grain = std::max<size_t>(1, (panels + parts - 1) / parts);
    tbb::parallel_for(
        tbb::blocked_range<size_t>(0, panels, grain),
        [&](const tbb::blocked_range<size_t>& range) {
            size_t begin = 0;
            for (const Matrix& each : matrices) {
                const size_t end = begin + (each.rows + ROWS - 1) / ROWS;
                const size_t first = std::max(range.begin(), begin), last = std::min(range.end(), end);
                if (first < last) chosen->multiply(each, first - begin, last - begin, activations, rows);
                begin = end;
            }
        },
        tbb::simple_partitioner());
}

// Multiplies rows of activations with gates and values, the activated gates by the values, and with `down`.
void feed_forward(const float* x, size_t rows, size_t columns, Matrix gates, Matrix values, Matrix down, bool is_silu) {
    static thread_local std::vector<float> of_thread[2];
    std::vector<float>*inner = of_thread, *beside = of_thread + 1;  // other threads read these
    const size_t width = gates.rows;
    for (size_t begin = 0; begin < rows; begin += TILE) {
        const size_t count = std::min(TILE, rows - begin);
        inner->resize(count * width);
        beside->resize(count * width);
        gates.out = inner->data();
        values.out = beside->data();
        multiply(x + begin * columns, count, columns, {gates, values});
        const size_t size = count * width, step = 4096;
        tbb::parallel_for(size_t(0), (size + step - 1) / step, [&](size_t part) {
            const size_t first = part * step;
            chosen->gate(gates.out + first, values.out + first, std::min(step, size - first), is_silu);
        });
        Matrix result = down;
        result.out = down.out + begin * down.rows;
        multiply(gates.out, count, width, {result});
    }
}

// The code, scale and offset of each weight of a row, one block of a file at a time.
struct Block {
    uint8_t codes[256];
    uint8_t scale[16], minimum[16];  // K types: integers
    Half d, m;
};

void unpack(int64_t type, const uint8_t* block, Block& to) {
    auto nibbles = [&](const uint8_t* from, int count, uint8_t* codes) {  // low halves, then high halves
        for (int i = 0; i < count; i++) codes[i] = from[i] & 15, codes[i + count] = from[i] >> 4;
    };
    std::memcpy(&to.d, block, 2);
    switch (type) {
        case 2:
            nibbles(block + 2, 16, to.codes);
            break;
        case 3:
            std::memcpy(&to.m, block + 2, 2);
            nibbles(block + 4, 16, to.codes);
            break;
        case 6:
        case 7: {
            const int at = type == 6 ? 2 : 4;
            if (type == 7) std::memcpy(&to.m, block + 2, 2);
            uint32_t high;
            std::memcpy(&high, block + at, 4);
            nibbles(block + at + 4, 16, to.codes);
            for (int i = 0; i < 32; i++) to.codes[i] |= (high >> i & 1) << 4;
            break;
        }
        case 8:
            for (int i = 0; i < 32; i++) to.codes[i] = uint8_t(block[2 + i] ^ 0x80);
            break;
        case 12:
        case 13: {
            std::memcpy(&to.m, block + 2, 2);
            const uint8_t* s = block + 4;
            for (int g = 0; g < 8; g++) {
                to.scale[g] = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
                to.minimum[g] = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | (s[g] >> 6) << 4;
            }
            const uint8_t* low = block + 16 + (type == 13 ? 32 : 0);
            for (int g = 0; g < 8; g += 2) nibbles(low + 16 * g, 32, to.codes + 32 * g);
            if (type == 13)
                for (int i = 0; i < 256; i++) to.codes[i] |= (block[16 + i % 32] >> (i / 32) & 1) << 4;
            break;
        }
        case 14:
            std::memcpy(&to.d, block + 208, 2);
            for (int i = 0; i < 16; i++) to.scale[i] = block[192 + i];
            for (int half = 0; half < 2; half++)
                for (int i = 0; i < 128; i++) {
                    const uint8_t low = block[64 * half + i % 64], high = block[128 + 32 * half + i % 32];
                    to.codes[128 * half + i] = uint8_t((i < 64 ? low & 15 : low >> 4) | (high >> 2 * (i / 32) & 3) << 4);
                }
            break;
    }
}

template <class Type>
void pack_unit(const Block* blocks, uint8_t* to) {  // one block of each row
    std::memset(to, 0, Type::bytes);
    for (int row = 0; row < ROWS; row++) {
        const Block& from = blocks[row];
        uint8_t* at = to;
        auto put_half = [&](Half half) {
            std::memcpy(at + 2 * row, &half, 2);
            at += 2 * ROWS;
        };
        auto put_byte = [&](uint8_t byte) {
            at[row] = byte;
            at += ROWS;
        };
        if (Type::is_k) {
            put_half(from.d);
            if (Type::has_minima) put_half(from.m);
        }
        for (int group = 0; group < Type::columns / Type::group; group++) {
            if (Type::is_k) {
                put_byte(from.scale[group]);
                if (Type::has_minima) put_byte(from.minimum[group]);
            } else {
                put_half(from.d);
                if (Type::has_minima) put_half(from.m);
            }
            uint8_t* high = at;
            uint8_t* low = high + Type::high_bytes;
            for (int i = 0; i < Type::group; i++) {
                const uint8_t code = from.codes[group * Type::group + i];
                const int four = i / 4, lane = 4 * row + i % 4;
                if (Type::bits == 8) {
                    low[four * CODES + lane] = code;
                    continue;
                }
                low[four / 2 * CODES + lane] |= (code & 15) << 4 * (four % 2);
                if (Type::bits == 5) high[lane] |= (code >> 4) << four;
                if (Type::bits == 6) high[lane] |= (code >> 4) << 2 * four;
            }
            at = low + Type::low_bytes;
        }
    }
}

constexpr size_t block_bytes(int64_t type) {
    return type == 2 ? 18 : type == 3 ? 20 : type == 6 ? 22 : type == 7 ? 24 : type == 8 ? 34
         : type == 12 ? 144 : type == 13 ? 176 : 210;
}

template <class Type>
float weight(const uint8_t* unit, int row, int column) {
    const int group = column / Type::group, four = column % Type::group / 4, lane = 4 * row + column % 4;
    const uint8_t* head = unit + Type::head + group * Type::group_bytes;
    const uint8_t* high = head + ROWS * Type::scale_bytes * (1 + Type::has_minima);
    const uint8_t* low = high + Type::high_bytes;
    int code = Type::bits == 8 ? low[four * CODES + lane] : low[four / 2 * CODES + lane] >> 4 * (four % 2) & 15;
    if (Type::bits == 5) code |= (high[lane] >> four & 1) << 4;
    if (Type::bits == 6) code |= (high[lane] >> 2 * four & 3) << 4;
    Half d, m = 0;
    const uint8_t* halves = Type::is_k ? unit : head;
    std::memcpy(&d, halves + 2 * row, 2);
    if (Type::has_minima) std::memcpy(&m, halves + 2 * (ROWS + row), 2);
    float scale = to_float(d), minimum = Type::is_k ? -to_float(m) : to_float(m);
    if (Type::is_k) {
        scale *= Type::has_minima ? float(head[row]) : float(int8_t(head[row]));
        if (Type::has_minima) minimum *= float(head[ROWS + row]);
    }
    return scale * float(code - Type::zero) + (Type::has_minima ? minimum : 0.0f);
}

}  // namespace

extern "C" {

// The bytes of the panels of a matrix, and their content. Rows beyond the last are zeros.
size_t agentrt_panel_bytes(int64_t type, size_t rows, size_t columns) {
    return (rows + ROWS - 1) / ROWS * panel_bytes(type, columns);
}

void agentrt_pack(int64_t type, const uint8_t* blocks, size_t rows, size_t columns, uint8_t* panels) {
    with_type(type, [&](auto t) {
        using Type = decltype(t);
        const size_t units = columns / Type::columns, size = block_bytes(type);
        tbb::parallel_for(size_t(0), (rows + ROWS - 1) / ROWS, [&](size_t panel) {
            std::vector<Block> found(ROWS);
            for (size_t unit = 0; unit < units; unit++) {
                for (size_t row = 0; row < ROWS; row++) {
                    const size_t at = panel * ROWS + row;
                    if (at < rows) unpack(type, blocks + (at * units + unit) * size, found[row]);
                    else found[row] = Block();
                }
                pack_unit<Type>(found.data(), panels + (panel * units + unit) * Type::bytes);
            }
        });
    });
}

// Of a product by itself, for tests and for measuring a machine. `instructions` may be null for the best.
int agentrt_multiply(const char* instructions, const float* x, size_t rows, size_t columns, int64_t type,
                     const uint8_t* panels, size_t width, float* out) {
    const Kernels *before = chosen, *named = find_kernels(instructions);
    if (!named) return 1;
    chosen = named;
    multiply(x, rows, columns, {{panels, type, width, out}});
    chosen = before;
    return 0;
}

const char* agentrt_instructions() { return chosen->name; }

}

namespace agentrt {

// x [..., columns] float32, panels of each matrix -> for each matrix its product [..., rows] float32
class QuantisedMatMul : public ov::op::Op {
public:
    OPENVINO_OP("QuantisedMatMul", "agentrt");
    QuantisedMatMul() = default;
    QuantisedMatMul(const ov::OutputVector& inputs, std::vector<int64_t> types, std::vector<int64_t> rows)
        : Op(inputs), m_types(std::move(types)), m_rows(std::move(rows)) {
        constructor_validate_and_infer_types();
    }
    void validate_and_infer_types() override {
        ov::PartialShape shape = get_input_partial_shape(0);
        for (size_t i = 0; i < m_rows.size(); i++) {
            shape[shape.rank().get_length() - 1] = m_rows[i];
            set_output_type(i, ov::element::f32, shape);
        }
    }
    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        return std::make_shared<QuantisedMatMul>(inputs, m_types, m_rows);
    }
    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visitor.on_attribute("types", m_types);  // llama.cpp's number of each matrix's type
        visitor.on_attribute("rows", m_rows);
        return true;
    }
    bool has_evaluate() const override { return true; }
    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        ov::Shape shape = inputs[0].get_shape();
        const size_t columns = shape.back(), rows = ov::shape_size(shape) / columns;
        std::vector<Matrix> matrices;
        for (size_t i = 0; i < m_types.size(); i++) {
            shape.back() = size_t(m_rows[i]);
            outputs[i].set_shape(shape);
            const auto panels = static_cast<const uint8_t*>(inputs[i + 1].data());
            matrices.push_back({panels, m_types[i], shape.back(), outputs[i].data<float>()});
        }
        // Isolated: this thread must not begin another operation, with the same memory, while it waits in this one.
        if (rows)
            tbb::this_task_arena::isolate([&] { multiply(inputs[0].data<float>(), rows, columns, matrices); });
        return true;
    }

private:
    std::vector<int64_t> m_types, m_rows;
};

// x [..., columns] float32, panels of gates, values and down -> [..., rows of down] float32
class QuantisedFeedForward : public ov::op::Op {
public:
    OPENVINO_OP("QuantisedFeedForward", "agentrt");
    QuantisedFeedForward() = default;
    QuantisedFeedForward(const ov::OutputVector& inputs, std::vector<int64_t> types, std::vector<int64_t> rows,
                         std::string activation)
        : Op(inputs), m_types(std::move(types)), m_rows(std::move(rows)), m_activation(std::move(activation)) {
        constructor_validate_and_infer_types();
    }
    void validate_and_infer_types() override {
        ov::PartialShape shape = get_input_partial_shape(0);
        if (m_rows.size() == 3) shape[shape.rank().get_length() - 1] = m_rows[2];
        set_output_type(0, ov::element::f32, shape);
    }
    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        return std::make_shared<QuantisedFeedForward>(inputs, m_types, m_rows, m_activation);
    }
    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visitor.on_attribute("types", m_types);
        visitor.on_attribute("rows", m_rows);
        visitor.on_attribute("activation", m_activation);  // silu, or gelu by tanh
        return true;
    }
    bool has_evaluate() const override { return true; }
    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        ov::Shape shape = inputs[0].get_shape();
        const size_t columns = shape.back(), rows = ov::shape_size(shape) / columns;
        shape.back() = size_t(m_rows[2]);
        outputs[0].set_shape(shape);
        Matrix matrices[3];
        for (size_t i = 0; i < 3; i++)
            matrices[i] = {static_cast<const uint8_t*>(inputs[i + 1].data()), m_types[i], size_t(m_rows[i]), nullptr};
        matrices[2].out = outputs[0].data<float>();
        tbb::this_task_arena::isolate([&] {
            feed_forward(inputs[0].data<float>(), rows, columns, matrices[0], matrices[1], matrices[2],
                         m_activation == "silu");
        });
        return true;
    }

private:
    std::vector<int64_t> m_types, m_rows;
    std::string m_activation;
};

// panels of a matrix, ids [...] int32 -> its rows of these ids [..., columns] float32
class QuantisedGather : public ov::op::Op {
public:
    OPENVINO_OP("QuantisedGather", "agentrt");
    QuantisedGather() = default;
    QuantisedGather(const ov::OutputVector& inputs, int64_t type, int64_t columns)
        : Op(inputs), m_type(type), m_columns(columns) {
        constructor_validate_and_infer_types();
    }
    void validate_and_infer_types() override {
        ov::PartialShape shape = get_input_partial_shape(1);
        shape.push_back(m_columns);
        set_output_type(0, ov::element::f32, shape);
    }
    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        return std::make_shared<QuantisedGather>(inputs, m_type, m_columns);
    }
    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visitor.on_attribute("type", m_type);
        visitor.on_attribute("columns", m_columns);
        return true;
    }
    bool has_evaluate() const override { return true; }
    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        ov::Shape shape = inputs[1].get_shape();
        const size_t count = ov::shape_size(shape), columns = size_t(m_columns);
        shape.push_back(columns);
        outputs[0].set_shape(shape);
        const uint8_t* panels = static_cast<const uint8_t*>(inputs[0].data());
        const int32_t* ids = inputs[1].data<int32_t>();
        float* out = outputs[0].data<float>();
        with_type(m_type, [&](auto t) {
            using Type = decltype(t);
            const size_t bytes = columns / Type::columns * Type::bytes;
            tbb::parallel_for(size_t(0), count, [&](size_t i) {
                const uint8_t* panel = panels + size_t(ids[i]) / ROWS * bytes;
                for (size_t column = 0; column < columns; column++)
                    out[i * columns + column] =
                        weight<Type>(panel + column / Type::columns * Type::bytes, ids[i] % ROWS, column % Type::columns);
            });
        });
        return true;
    }

private:
    int64_t m_type = 0, m_columns = 0;
};

}  // namespace agentrt

OPENVINO_CREATE_EXTENSIONS(std::vector<ov::Extension::Ptr>({
    std::make_shared<ov::OpExtension<agentrt::QuantisedMatMul>>(),
    std::make_shared<ov::OpExtension<agentrt::QuantisedFeedForward>>(),
    std::make_shared<ov::OpExtension<agentrt::QuantisedGather>>(),
}));

#else  // one instruction set; WIDTH rows of a panel are computed at once

namespace {
namespace INSTRUCTIONS {

typedef float Floats __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Ints __attribute__((vector_size(4 * WIDTH)));
typedef uint8_t Codes __attribute__((vector_size(4 * WIDTH)));
typedef int8_t Bytes __attribute__((vector_size(WIDTH)));
typedef uint8_t UnsignedBytes __attribute__((vector_size(WIDTH)));

template <class Vector>
inline __attribute__((always_inline)) Vector load(const void* from) {
    Vector value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

inline __attribute__((always_inline)) Floats all(float value) { return value - Floats{}; }

inline __attribute__((always_inline)) Floats halves(const uint8_t* from) {
#if SET == 3
    return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from));
#elif SET
    return (Floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from));
#else
    Floats value;
    for (int i = 0; i < WIDTH; i++) {
        Half half;
        std::memcpy(&half, from + 2 * i, 2);
        value[i] = to_float(half);
    }
    return value;
#endif
}

template <class Type>
inline __attribute__((always_inline)) Floats bytes(const uint8_t* from) {
#if SET == 3
    const __m128i all = _mm_loadu_si128((const __m128i*)from);
    return (Floats)_mm512_cvtepi32_ps(Type::has_minima ? _mm512_cvtepu8_epi32(all) : _mm512_cvtepi8_epi32(all));
#elif SET
    const __m128i all = _mm_loadl_epi64((const __m128i*)from);
    return (Floats)_mm256_cvtepi32_ps(Type::has_minima ? _mm256_cvtepu8_epi32(all) : _mm256_cvtepi8_epi32(all));
#else
    if (Type::has_minima) return __builtin_convertvector(load<UnsignedBytes>(from), Floats);
    return __builtin_convertvector(load<Bytes>(from), Floats);
#endif
}

// Adds to each lane the product of its four codes with four activations.
template <int Bits>
inline __attribute__((always_inline)) Ints dot(Ints sum, Codes codes, const int8_t* four) {
    int32_t x;
    std::memcpy(&x, four, 4);
#if SET == 3
    return (Ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)codes, _mm512_set1_epi32(x));
#elif SET == 2
    return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)codes, _mm256_set1_epi32(x));
#elif SET == 1
    const __m256i ones = _mm256_set1_epi16(1), all_x = _mm256_set1_epi32(x);
    auto product = [&](Codes each) {
        return (Ints)_mm256_madd_epi16(_mm256_maddubs_epi16((__m256i)each, all_x), ones);
    };
    if (Bits < 8) return sum + product(codes);
    return sum + product(codes & 15) + (product((codes >> 4) & 15) << 4);  // else 16 bits would overflow
#else
    for (int lane = 0; lane < WIDTH; lane++)
        for (int i = 0; i < 4; i++) sum[lane] += int(codes[4 * lane + i]) * four[i];
    return sum;
#endif
}

// Scales, offsets and codes of one group of columns.
struct Group {
    Floats scale, minimum;
    const uint8_t *low, *high;
};

// Reads a group, and moves `panel` behind it. `d` and `m` are the scales of the unit of a K type.
template <class Type>
inline __attribute__((always_inline)) Group read_group(const uint8_t*& panel, int lane, Floats d, Floats m) {
    Group group;
    if (Type::is_apart) {
        group.scale = load<Floats>(panel + 4 * lane);
        if (Type::has_minima) group.minimum = load<Floats>(panel + 4 * (ROWS + lane));
    } else if (Type::is_k) {
        group.scale = d * bytes<Type>(panel + lane);
        if (Type::has_minima) group.minimum = m * bytes<Type>(panel + ROWS + lane);
    } else {
        group.scale = halves(panel + 2 * lane);
        if (Type::has_minima) group.minimum = -halves(panel + 2 * (ROWS + lane));
    }
    group.high = panel + ROWS * Type::scale_bytes * (1 + Type::has_minima) + 4 * lane;
    group.low = group.high + Type::high_bytes;
    panel += Type::group_bytes;
    return group;
}

// Takes apart the codes of columns 4 `four` to 4 `four` + 8 of a group.
template <class Type>
inline __attribute__((always_inline)) void take_apart(const Group& group, int four, Codes& first, Codes& second) {
    if (Type::has_bytes) {
        first = load<Codes>(group.low + four * CODES);
        second = load<Codes>(group.low + (four + 1) * CODES);
        return;
    }
    const Codes both = load<Codes>(group.low + four / 2 * CODES);
    first = both & 15;
    second = (both >> 4) & 15;
    if (Type::bits == 5) {
        const Codes high = load<Codes>(group.high);
        first |= (four < 4 ? high << (4 - four) : high >> (four - 4)) & 16;
        second |= (four < 3 ? high << (3 - four) : high >> (four - 3)) & 16;
    }
    if (Type::bits == 6) {
        const Codes high = load<Codes>(group.high);
        first |= (four < 2 ? high << 4 : high) & 48;
        second |= (four < 2 ? high << 2 : high >> 2) & 48;
    }
}

// What the sum of a group's products begins with: zeros of its codes times the sum of the activations.
template <class Type>
inline __attribute__((always_inline)) int32_t start(const int32_t* sums) {
    if (!Type::zero) return 0;
    int32_t sum = 0;
    for (int i = 0; i < Type::group / 16; i++) sum += sums[i];
    return -Type::zero * sum;
}

// Adds a group's products with a row of activations to the row's result.
template <class Type>
inline __attribute__((always_inline)) void add_group(Floats& result, Ints sum, const Group& group, float scale, float offset) {
    result += __builtin_convertvector(sum, Floats) * (group.scale * all(scale));
    if (Type::has_minima) result -= group.minimum * all(offset);
}

// Writes the products of up to `Count` rows of activations, from `row` on and before `end`, with WIDTH rows of
// `Panels` panels, which follow each other in the matrix from panel `number` on.
template <class Type, int Count, int Panels>
inline __attribute__((always_inline)) void part(const Matrix& matrix, const uint8_t* first_panel, size_t number, int lane,
                                                const Activations& x, size_t row, size_t end) {
    const size_t columns = x.columns;
    const int8_t* codes[Count];
    const float *scales[Count], *offsets[Count];
    const int32_t* sums[Count];
    const uint8_t* panel[Panels];
    Floats result[Panels][Count];
    for (int p = 0; p < Panels; p++) panel[p] = first_panel + p * (columns / Type::columns * Type::bytes);
    for (int i = 0; i < Count; i++) {
        const size_t at = std::min(row + i, end - 1);  // rows that are not there are computed as the last one
        codes[i] = &x.codes[at * columns];
        scales[i] = &x.scales[at * (columns / GROUP)];
        offsets[i] = &x.offsets[at * (columns / GROUP)];
        sums[i] = &x.sums[at * (columns / 16)];
        for (int p = 0; p < Panels; p++) result[p][i] = Floats{};
    }
    for (size_t begin = 0; begin < columns; begin += Type::columns) {
        Floats d[Panels], m[Panels];
        for (int p = 0; p < Panels; p++) {
            d[p] = m[p] = Floats{};
            if (Type::is_k) d[p] = halves(panel[p] + 2 * lane);
            if (Type::is_k && Type::has_minima) m[p] = halves(panel[p] + 2 * (ROWS + lane));
            panel[p] += Type::head;
        }
        for (int number_of_group = 0; number_of_group < Type::columns / Type::group; number_of_group++) {
            const size_t column = begin + size_t(number_of_group * Type::group);
            Group group[Panels];
            Ints sum[Panels][Count];
            for (int p = 0; p < Panels; p++) {
                group[p] = read_group<Type>(panel[p], lane, d[p], m[p]);
                for (int i = 0; i < Count; i++) sum[p][i] = start<Type>(sums[i] + column / 16) - Ints{};
            }
#pragma GCC unroll 8
            for (int four = 0; four < Type::group / 4; four += 2) {
                Codes both[2][Panels];
                for (int p = 0; p < Panels; p++) take_apart<Type>(group[p], four, both[0][p], both[1][p]);
                for (int half = 0; half < 2; half++)
                    for (int i = 0; i < Count; i++)
                        for (int p = 0; p < Panels; p++)
                            sum[p][i] = dot<Type::bits>(sum[p][i], both[half][p], codes[i] + column + 4 * (four + half));
            }
            for (int i = 0; i < Count; i++)
                for (int p = 0; p < Panels; p++)
                    add_group<Type>(result[p][i], sum[p][i], group[p], scales[i][column / GROUP], offsets[i][column / GROUP]);
        }
    }
    for (int p = 0; p < Panels; p++) {
        const size_t first = (number + p) * ROWS + size_t(lane);
        const size_t count = first < matrix.rows ? std::min<size_t>(WIDTH, matrix.rows - first) : 0;
        for (int i = 0; i < Count && row + i < end; i++)
            std::memcpy(matrix.out + (row + i) * matrix.rows + first, &result[p][i], 4 * count);
    }
}

template <class Type, int Count, int Panels = 1>
void rows_of_panel(const Matrix& matrix, const uint8_t* panel, size_t number, const Activations& x, size_t row,
                   size_t end) {
    for (int lane = 0; lane < ROWS; lane += WIDTH) part<Type, Count, Panels>(matrix, panel, number, lane, x, row, end);
}

// Multiplies rows of activations from `row` on and before `end` with a panel, panel `number` of its matrix.
template <class Type>
void some_rows(const Matrix& matrix, const uint8_t* panel, size_t number, const Activations& x, size_t row, size_t end) {
    constexpr size_t some = SET ? 4 : 1, most = SET == 3 ? 8 : some;  // computed together
    for (; row + some < end; row += most) rows_of_panel<Type, most>(matrix, panel, number, x, row, end);
    if (row + 1 < end) rows_of_panel<Type, some>(matrix, panel, number, x, row, end);
    else if (row < end) rows_of_panel<Type, 1>(matrix, panel, number, x, row, end);
}

// The same for many rows and `Panels` panels: each activation is read once for all of them.
template <class Type, int Panels>
void many_rows(const Matrix& matrix, const uint8_t* panels, size_t number, const Activations& x, size_t row, size_t end) {
    constexpr size_t together = 6;
    for (; row < end; row += together) rows_of_panel<Type, together, Panels>(matrix, panels, number, x, row, end);
}

// Takes apart WIDTH rows of a panel.
template <class Type>
void take_panel_apart(const uint8_t* panel, size_t columns, int lane, uint8_t* to) {
    using To = Apart<Type>;
    Floats d = Floats{}, m = Floats{};
    for (size_t column = 0; column < columns; column += To::group, to += To::bytes) {
        if (Type::is_k && column % Type::columns == 0) {
            d = halves(panel + 2 * lane);
            if (Type::has_minima) m = halves(panel + 2 * (ROWS + lane));
            panel += Type::head;
        }
        const Group group = read_group<Type>(panel, lane, d, m);
        std::memcpy(to + 4 * lane, &group.scale, sizeof group.scale);
        if (Type::has_minima) std::memcpy(to + 4 * (ROWS + lane), &group.minimum, sizeof group.minimum);
        uint8_t* codes = to + ROWS * To::scale_bytes * (1 + To::has_minima) + 4 * lane;
        for (int four = 0; four < Type::group / 4; four += 2, codes += 2 * CODES) {
            Codes both[2];
            take_apart<Type>(group, four, both[0], both[1]);
            std::memcpy(codes, &both[0], sizeof both[0]);
            std::memcpy(codes + CODES, &both[1], sizeof both[1]);
        }
    }
}

// Multiplies all rows of activations with panels `first` to `last`.
void multiply(const Matrix& matrix, size_t first, size_t last, const Activations& x, size_t rows) {
    static thread_local std::vector<uint8_t> apart;
    with_type(matrix.type, [&](auto t) {
        using Type = decltype(t);
        using To = Apart<Type>;
        const size_t bytes = x.columns / Type::columns * Type::bytes, bytes_apart = x.columns / To::columns * To::bytes;
        for (size_t tile = 0; tile < rows; tile += TILE) {
            const size_t end = std::min(rows, tile + TILE), together = end - tile > FEW && SET == 3 ? 2 : 1;
            for (size_t number = first; number < last; number += together) {
                const size_t panels = std::min(together, last - number);
                const uint8_t* panel = matrix.panels + number * bytes;
                if (end - tile <= FEW) {
                    some_rows<Type>(matrix, panel, number, x, tile, end);
                    continue;
                }
                apart.resize(panels * bytes_apart);
                for (size_t p = 0; p < panels; p++)
                    for (int lane = 0; lane < ROWS; lane += WIDTH)
                        take_panel_apart<Type>(panel + p * bytes, x.columns, lane, apart.data() + p * bytes_apart);
                if constexpr (SET != 3) some_rows<To>(matrix, apart.data(), number, x, tile, end);
                else if (panels == 2) many_rows<To, 2>(matrix, apart.data(), number, x, tile, end);
                else many_rows<To, 1>(matrix, apart.data(), number, x, tile, end);
            }
        }
    });
}

// Makes gates activations: SiLU, or GELU by tanh, times values.
void gate(float* gates, const float* values, size_t count, bool is_silu) {
    for (size_t i = 0; i < count; i++) {
        const float x = gates[i];
        // Both are x / (1 + exp(-z)).
        float z = is_silu ? x : 1.5957691216f * (x + 0.044715f * x * x * x);
        z = z > 87 ? 87 : z < -87 ? -87 : z;
        // exp(-z) is 2^n times exp of the rest, which is small.
        const float n = -1.442695041f * z + 12582912 - 12582912;
        const float rest = (-z - n * 0.693359375f) + n * 2.12194440e-4f;
        float power = 1.9875691500e-4f;
        for (float each : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
            power = power * rest + each;
        power = power * rest * rest + rest + 1;
        const int32_t bits = (int32_t(n) + 127) << 23;
        float two;
        std::memcpy(&two, &bits, 4);
        gates[i] = x / (1 + power * two) * values[i];
    }
}

// Rounds one row of activations to 8 bits.
void quantise(const float* values, size_t row, Activations& into) {
    const size_t columns = into.columns;
    values += row * columns;
    int8_t* codes = &into.codes[row * columns];
    int32_t* sums = &into.sums[row * columns / 16];
    for (size_t begin = 0; begin < columns; begin += GROUP) {
        int32_t most_bits = 0;  // of a positive number, which are in the order of the numbers
        for (size_t i = begin; i < begin + GROUP; i++) {
            int32_t bits;
            std::memcpy(&bits, values + i, 4);
            most_bits = std::max(most_bits, bits & 0x7fffffff);
        }
        float most;
        std::memcpy(&most, &most_bits, 4);
        const float scale = most / 127, inverse = most > 0 ? 127 / most : 0;
        int32_t total = 0;
        for (size_t part = begin; part < begin + GROUP; part += 16) {
            int32_t sum = 0, found[16];
            for (int i = 0; i < 16; i++) {
                const float shifted = values[part + i] * inverse + 12582912;  // leaves the nearest integer lowest
                std::memcpy(&found[i], &shifted, 4);
                found[i] -= 0x4b400000;
                sum += found[i];
            }
            for (int i = 0; i < 16; i++) codes[part + i] = int8_t(found[i]);
            sums[part / 16] = sum;
            total += sum;
        }
        into.scales[(row * columns + begin) / GROUP] = scale;
        into.offsets[(row * columns + begin) / GROUP] = scale * float(total);
    }
}

}  // namespace INSTRUCTIONS
}  // namespace

#endif
