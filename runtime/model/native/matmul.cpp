// Products of float32 activations with weights in the precision of a GGUF file, as operations of an OpenVINO
// graph on the CPU. Activations are rounded to 8 bits.
//
// There are two kinds of products. Tokens that are decoded are multiplied with the weights as they are
// (`panels.h`), with a scale for each 32 activations. Tokens of prompts, of which there are many at once, are
// multiplied with weights that are rounded to 8 bits for them, panel by panel: there a scale for each 128
// columns, of weights and of activations, leaves little beside the products themselves. A token is of a prompt
// if its sequence has several in the batch. So each is computed alike whatever is computed with it.
//
// `kernels.h` is included once for each instruction set; the one that this processor has is chosen when the
// library is loaded.
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

#include "panels.h"

namespace {

constexpr size_t GROUP = 32;  // activations of a decoded token that share a scale
constexpr size_t TILE = 512;  // rows of activations that stay in a core's cache

// Consecutive rows of activations.
struct Run {
    size_t begin, end;
    bool is_prompt;
};

// Rows of activations in 8 bits.
struct Activations {
    std::vector<Run> runs;
    size_t columns = 0, stride = 0;  // of a row: whole spans
    std::vector<int8_t> codes;       // [rows, stride]
    std::vector<float> scales;       // [rows, stride / GROUP]; of a prompt the first of each span
    std::vector<int32_t> sums;       // [rows, stride / 16] of codes; of a prompt the first of each span, of all of it
    std::vector<float> offsets;      // [rows, stride / GROUP] sum of codes times scale

    void resize(std::vector<Run> of, size_t width) {
        runs = std::move(of);
        columns = width;
        stride = (width + SPAN - 1) / SPAN * SPAN;
        codes.resize(rows() * stride);
        scales.resize(rows() * stride / GROUP);
        sums.resize(rows() * stride / 16);
        offsets.resize(rows() * stride / GROUP);
    }
    size_t rows() const { return runs.back().end; }
    bool is_prompt(size_t row) const {
        for (const Run& run : runs)
            if (row < run.end) return run.is_prompt;
        return false;
    }
};

// One matrix of an operation.
struct Matrix {
    const uint8_t* panels;
    int64_t type;  // llama.cpp's number
    size_t rows;

    size_t count() const { return (rows + ROWS - 1) / ROWS; }  // of panels
};

// A line of a cache.
struct alignas(64) Line {
    uint8_t bytes[64];
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
#include "kernels.h"
#else
#define INSTRUCTIONS portable
#define SET 0
#define WIDTH 8
#include "kernels.h"
#undef INSTRUCTIONS
#undef WIDTH
#undef SET
#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#define INSTRUCTIONS avx2
#define SET 1
#define WIDTH 8
#include "kernels.h"
#undef INSTRUCTIONS
#undef WIDTH
#undef SET
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avxvnni")
#define INSTRUCTIONS avx_vnni
#define SET 2
#define WIDTH 8
#include "kernels.h"
#undef INSTRUCTIONS
#undef WIDTH
#undef SET
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")
#define INSTRUCTIONS avx512_vnni
#define SET 3
#define WIDTH 16
#include "kernels.h"
#undef INSTRUCTIONS
#undef WIDTH
#undef SET
#pragma GCC pop_options
#endif
#endif

namespace {

struct Kernels {
    const char* name;
    void (*quantise)(const float* values, size_t row, size_t first, size_t last, Activations& into);
    void (*gate)(float* gates, const float* values, size_t count, bool is_silu);
    void (*multiply)(const Matrix& matrix, size_t first, size_t last, const Activations& x, float* out, size_t stride);
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

// Returns the part of `runs` that is in rows `begin` to `end`, counted from `begin`.
std::vector<Run> cut(const std::vector<Run>& runs, size_t begin, size_t end) {
    std::vector<Run> part;
    for (const Run& run : runs)
        if (run.begin < end && run.end > begin)
            part.push_back({std::max(run.begin, begin) - begin, std::min(run.end, end) - begin, run.is_prompt});
    return part;
}

// Rounds rows of activations.
void quantise(const float* x, Activations& into) {
    auto row = [&](size_t row) { chosen->quantise(x + row * into.columns, row, 0, into.columns, into); };
    if (into.rows() < 8) {
        for (size_t i = 0; i < into.rows(); i++) row(i);
    } else {
        tbb::parallel_for(size_t(0), into.rows(), row);
    }
}

// Calls `function` with parts of `count` things, each a multiple of `grain` but the last.
template <class Function>
void in_parts(size_t count, size_t grain, Function function) {
    tbb::parallel_for(
        tbb::blocked_range<size_t>(0, (count + grain - 1) / grain, 1),
        [&](const tbb::blocked_range<size_t>& range) {
            function(range.begin() * grain, std::min(count, range.end() * grain));
        },
        tbb::simple_partitioner());
}

// Multiplies rounded rows of activations with all matrices.
void multiply(const Activations& x, const std::vector<Matrix>& matrices, const std::vector<float*>& outs) {
    size_t panels = 0;
    for (const Matrix& each : matrices) panels += each.count();
    const size_t parts = 4 * size_t(tbb::this_task_arena::max_concurrency());
    in_parts(panels, x.rows() > 8 ? 2 : ((panels + parts - 1) / parts + 1) / 2 * 2, [&](size_t from, size_t to) {
        size_t begin = 0;
        for (size_t i = 0; i < matrices.size(); i++) {
            const size_t end = begin + matrices[i].count(), first = std::max(from, begin), last = std::min(to, end);
            if (first < last)
                chosen->multiply(matrices[i], first - begin, last - begin, x, outs[i] + (first - begin) * ROWS, matrices[i].rows);
            begin = end;
        }
    });
}

// Multiplies rows of activations with all matrices.
void multiply(const float* x, const std::vector<Run>& runs, size_t columns, const std::vector<Matrix>& matrices,
              std::vector<float*> outs) {
    static thread_local Activations of_thread;
    Activations& activations = of_thread;  // other threads read this one's
    for (size_t begin = 0; begin < runs.back().end; begin += TILE) {
        activations.resize(cut(runs, begin, begin + TILE), columns);
        quantise(x + begin * columns, activations);
        multiply(activations, matrices, outs);
        for (size_t i = 0; i < outs.size(); i++) outs[i] += TILE * matrices[i].rows;
    }
}

// Multiplies rows of activations with gates and values, the activated gates by the values, and with `down`.
void feed_forward(const float* x, const std::vector<Run>& runs, size_t columns, const Matrix& gates, const Matrix& values,
                  const Matrix& down, bool is_silu, float* out) {
    static thread_local Activations of_thread[2];
    Activations &outer = of_thread[0], &inner = of_thread[1];  // other threads use this one's
    constexpr size_t together = SPAN / ROWS;
    for (size_t begin = 0; begin < runs.back().end; begin += TILE) {
        outer.resize(cut(runs, begin, begin + TILE), columns);
        inner.resize(outer.runs, gates.rows);
        quantise(x + begin * columns, outer);
        // A span of the inner columns at a time, which no other memory ever holds as float32.
        in_parts(gates.count(), together, [&](size_t first, size_t last) {
            static thread_local std::vector<float> spans;
            const size_t size = outer.rows() * SPAN, column = first * ROWS;
            spans.resize(2 * size);
            float *of_gates = spans.data(), *of_values = of_gates + size;
            chosen->multiply(gates, first, last, outer, of_gates, SPAN);
            chosen->multiply(values, first, last, outer, of_values, SPAN);
            chosen->gate(of_gates, of_values, size, is_silu);
            for (size_t row = 0; row < outer.rows(); row++)
                chosen->quantise(of_gates + row * SPAN, row, column, std::min(column + SPAN, gates.rows), inner);
        });
        multiply(inner, {down}, {out + begin * down.rows});
    }
}

// Returns which rows are of prompts: those of sequences that have several, by where each begins and the last ends.
std::vector<Run> runs_of(const int32_t* begins, size_t sequences) {
    std::vector<Run> runs;
    for (size_t i = 0; i < sequences; i++) {
        const size_t begin = size_t(begins[i]), end = size_t(begins[i + 1]);
        if (begin == end) continue;
        const bool is_prompt = end - begin > 1;
        if (runs.empty() || runs.back().is_prompt != is_prompt) runs.push_back({begin, end, is_prompt});
        else runs.back().end = end;
    }
    return runs;
}

}  // namespace

extern "C" {

// The bytes of the panels of a matrix, and their content. Rows beyond the last are zeros.
size_t agentrt_panel_bytes(int64_t type, size_t rows, size_t columns) {
    size_t bytes = 0;
    with_type(type, [&](auto t) { bytes = (rows + ROWS - 1) / ROWS * panel_bytes<decltype(t)>(columns); });
    return bytes;
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
int agentrt_multiply(const char* instructions, const float* x, size_t rows, size_t columns, bool is_prompt, int64_t type,
                     const uint8_t* panels, size_t width, float* out) {
    const Kernels *before = chosen, *named = find_kernels(instructions);
    if (!named) return 1;
    chosen = named;
    multiply(x, {{0, rows, is_prompt}}, columns, {{panels, type, width}}, {out});
    chosen = before;
    return 0;
}

const char* agentrt_instructions() { return chosen->name; }

}

namespace agentrt {

// What is behind the panels among an operation's inputs, if anything: where each sequence's rows begin, and the last
// ends. Without it all rows are of decoded tokens.
std::vector<Run> runs_of(const ov::TensorVector& inputs, size_t at, size_t rows) {
    if (inputs.size() <= at) return {{0, rows, false}};
    return ::runs_of(inputs[at].data<int32_t>(), inputs[at].get_size() - 1);
}

// x [..., columns] float32, panels of each matrix, begins -> for each matrix its product [..., rows] float32
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
        std::vector<float*> outs;
        for (size_t i = 0; i < m_types.size(); i++) {
            shape.back() = size_t(m_rows[i]);
            outputs[i].set_shape(shape);
            const auto panels = static_cast<const uint8_t*>(inputs[i + 1].data());
            matrices.push_back({panels, m_types[i], shape.back()});
            outs.push_back(outputs[i].data<float>());
        }
        // Isolated: this thread must not begin another operation, with the same memory, while it waits in this one.
        const auto runs = runs_of(inputs, 1 + matrices.size(), rows);
        if (rows)
            tbb::this_task_arena::isolate([&] { multiply(inputs[0].data<float>(), runs, columns, matrices, outs); });
        return true;
    }

private:
    std::vector<int64_t> m_types, m_rows;
};

// x [..., columns] float32, panels of gates, values and down, begins -> [..., rows of down] float32
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
            matrices[i] = {static_cast<const uint8_t*>(inputs[i + 1].data()), m_types[i], size_t(m_rows[i])};
        const auto runs = runs_of(inputs, 4, rows);
        if (rows)
            tbb::this_task_arena::isolate([&] {
                feed_forward(inputs[0].data<float>(), runs, columns, matrices[0], matrices[1], matrices[2],
                             m_activation == "silu", outputs[0].data<float>());
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
