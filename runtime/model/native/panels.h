// Weights as panels: the sixteen rows of a matrix in which the codes of four neighbouring columns of all rows
// lie together, so that one instruction multiplies 64 codes with four activations.
//
// A panel is a sequence of units, each of `Type::columns` columns; `pack_unit` writes them from the blocks of a
// file. Codes and scales are the file's.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace {

constexpr int ROWS = 16;         // of a panel
constexpr int SPAN = 128;        // columns that share a scale in products of prompts
constexpr int CODES = 4 * ROWS;  // bytes of the codes of four columns at 8 bits

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
template <int Bits, int Group, int Zero, bool HasMinima, bool IsK, bool IsRounded = false>
struct UnitType {
    static constexpr int bits = Bits, group = Group, zero = Zero, columns = IsK ? 256 : Group;
    static constexpr bool has_minima = HasMinima, is_k = IsK, is_rounded = IsRounded, has_bytes = Bits == 8;
    static constexpr int low_bytes = (has_bytes ? 16 : 8) * Group;
    static constexpr int high_bytes = has_bytes || Bits == 4 ? 0 : (Bits - 4) * ROWS * Group / 8;
    static constexpr int scale_bytes = IsRounded ? 4 : IsK ? 1 : 2;
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
// Not of a file: weights of any type rounded to 8 bits, with float32 scales; for prompts.
using Rounded = UnitType<8, SPAN, 128, false, false, true>;

template <class Type>
size_t panel_bytes(size_t columns) {
    return (columns + Type::columns - 1) / Type::columns * Type::bytes;
}

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
