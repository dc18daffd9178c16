// The products of one instruction set: INSTRUCTIONS names it, SET says which it is, and WIDTH rows of a panel are
// computed at once. `matmul.cpp` includes this file once for each set.

namespace {
namespace INSTRUCTIONS {

typedef float Floats __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Ints __attribute__((vector_size(4 * WIDTH)));
typedef uint8_t Codes __attribute__((vector_size(4 * WIDTH)));
typedef uint16_t Shorts __attribute__((vector_size(4 * WIDTH)));
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
    auto product = [&](Codes each, __m256i by) {
        return (Ints)_mm256_madd_epi16(_mm256_maddubs_epi16((__m256i)each, by), ones);
    };
    if (Bits < 8) return sum + product(codes, all_x);
    // Of unsigned codes 16 bits would overflow: those below 128 are negative here, and `start` has no zeros.
    const __m256i signed_codes = _mm256_xor_si256((__m256i)codes, _mm256_set1_epi8(-128));
    return sum + product((Codes)_mm256_abs_epi8(signed_codes), _mm256_sign_epi8(all_x, signed_codes));
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
    if (Type::is_rounded) {
        group.scale = load<Floats>(panel + 4 * lane);
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
    if (!Type::zero || (SET == 1 && Type::bits == 8)) return 0;
    if (Type::is_rounded) return -Type::zero * sums[0];
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

constexpr int AHEAD = 4096;  // bytes that a panel is brought to the cache in advance

// Where the products with a panel go: `out` is of the first row of activations, and `width` rows of the matrix are
// left from this panel on.
struct Place {
    float* out;
    size_t stride, width;
};

// Writes the products of up to `Count` rows of activations, from `row` on and before `end`, with WIDTH rows of
// `Panels` panels, which follow each other.
template <class Type, int Count, int Panels>
inline __attribute__((always_inline)) void part(const uint8_t* first_panel, int lane, const Activations& x, size_t row,
                                                size_t end, const Place& to) {
    const int8_t* codes[Count];
    const float *scales[Count], *offsets[Count];
    const int32_t* sums[Count];
    const uint8_t* panel[Panels];
    Floats result[Panels][Count];
    for (int p = 0; p < Panels; p++) panel[p] = first_panel + p * panel_bytes<Type>(x.columns);
    for (int i = 0; i < Count; i++) {
        const size_t at = std::min(row + i, end - 1);  // rows that are not there are computed as the last one
        codes[i] = &x.codes[at * x.stride];
        scales[i] = &x.scales[at * (x.stride / GROUP)];
        offsets[i] = &x.offsets[at * (x.stride / GROUP)];
        sums[i] = &x.sums[at * (x.stride / 16)];
        for (int p = 0; p < Panels; p++) result[p][i] = Floats{};
        for (int p = 0; p < Panels; p++) __builtin_prefetch(to.out + at * to.stride + p * ROWS + lane, 1);
    }
    for (size_t begin = 0; begin < x.columns; begin += Type::columns) {
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
                // Few rows come as fast as memory delivers, in order; several are computed while it is waited for.
                if (Count >= 4 && !Type::is_rounded)
                    for (int i = 0; i < Type::group_bytes; i += 64) __builtin_prefetch(panel[p] + AHEAD + i);
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
    float* out = to.out + row * to.stride + lane;
    const size_t left = to.width > size_t(lane) ? to.width - lane : 0;
#pragma GCC unroll 8
    for (int i = 0; i < Count; i++, out += to.stride) {
        if (row + i >= end) break;
#pragma GCC unroll 2
        for (int p = 0; p < Panels; p++) {
            const Floats found = result[p][i];
            if (left >= size_t(p * ROWS + WIDTH)) std::memcpy(out + p * ROWS, &found, sizeof found);
            else if (left > size_t(p * ROWS)) std::memcpy(out + p * ROWS, &found, 4 * (left - p * ROWS));
        }
    }
}

template <class Type, int Count, int Panels = 1>
void rows_of_panel(const uint8_t* panel, const Activations& x, size_t row, size_t end, const Place& to) {
    for (int lane = 0; lane < ROWS; lane += WIDTH) part<Type, Count, Panels>(panel, lane, x, row, end, to);
}

// Multiplies rows of activations from `row` on and before `end` with a panel as it is.
template <class Type>
void multiply_rows(const uint8_t* panel, const Activations& x, size_t row, size_t end, const Place& to) {
    constexpr size_t some = SET ? 4 : 1, most = SET == 3 ? 8 : some;  // computed together
    for (; row + some < end; row += most) rows_of_panel<Type, most>(panel, x, row, end, to);
    if (row + 1 < end) rows_of_panel<Type, some>(panel, x, row, end, to);
    else if (row < end) rows_of_panel<Type, 1>(panel, x, row, end, to);
}

// The same with `Panels` rounded ones: each activation is read once for all of them. Meanwhile it has `bytes` from
// `next` on brought to the cache.
template <int Panels>
void multiply_rounded(const uint8_t* panels, const Activations& x, size_t row, size_t end, const Place& to,
                      const uint8_t* next, size_t bytes) {
    constexpr size_t together = SET == 3 ? 6 : SET ? 4 : 1;
    const size_t each = bytes * together / (end - row) + 1;
    for (; row < end; row += together, next += each) {
        for (size_t i = 0; i < each; i += 64) __builtin_prefetch(next + i);
        rows_of_panel<Rounded, together, Panels>(panels, x, row, end, to);
    }
}

inline __attribute__((always_inline)) Floats absolute(Floats x) { return (Floats)((Ints)x & 0x7fffffff); }
inline __attribute__((always_inline)) Floats greater(Floats x, Floats y) { return x > y ? x : y; }
inline __attribute__((always_inline)) Ints nearest(Floats x) { return (Ints)(x + 12582912.0f) - 0x4b400000; }
inline __attribute__((always_inline)) Shorts twice(Ints x) { return (Shorts)((x & 0xffff) | x << 16); }

// Rounds WIDTH rows of a panel to 8 bits, with a scale for each SPAN columns.
template <class Type>
void round_panel(const uint8_t* panel, size_t columns, int lane, uint8_t* to) {
    Floats d = Floats{}, m = Floats{};
    for (size_t column = 0; column < columns; column += SPAN, to += Rounded::bytes) {
        Group groups[SPAN / Type::group];
        Floats most = Floats{};
        const int count = int(std::min<size_t>(SPAN, columns - column)) / Type::group;
        for (int g = 0; g < count; g++) {
            if (Type::is_k && (column + size_t(g * Type::group)) % Type::columns == 0) {
                d = halves(panel + 2 * lane);
                if (Type::has_minima) m = halves(panel + 2 * (ROWS + lane));
                panel += Type::head;
            }
            const Group& group = groups[g] = read_group<Type>(panel, lane, d, m);
            // What is farthest from 0 in the group, if it has all codes.
            const Floats last = group.scale * float(Type::zero ? Type::zero : (1 << Type::bits) - 1);
            most = greater(most, absolute(Type::has_minima ? last - group.minimum : last));
            if (Type::has_minima) most = greater(most, absolute(group.minimum));
        }
        const Floats scale = most / 127.0f, inverse = most > 0 ? 127.0f * 256 / most : Floats{};
        std::memcpy(to + 4 * lane, &scale, sizeof scale);
        uint8_t* codes = to + ROWS * Rounded::scale_bytes + 4 * lane;
        for (int g = 0; g < count; g++) {
            // A rounded code is the high byte of its code times `factor` plus `offset`.
            const Ints factor = nearest(groups[g].scale * inverse);
            Ints offset = 256 * Rounded::zero + 128 - Type::zero * factor;
            if (Type::has_minima) offset -= nearest(groups[g].minimum * inverse);
            const Shorts factors = twice(factor), offsets = twice(offset);
#pragma GCC unroll 8
            for (int four = 0; four < Type::group / 4; four += 2) {
                Codes both[2];
                take_apart<Type>(groups[g], four, both[0], both[1]);
                for (int half = 0; half < 2; half++, codes += CODES) {
                    const Shorts even = ((Shorts)both[half] & 0xff) * factors + offsets;
                    const Shorts odd = ((Shorts)both[half] >> 8) * factors + offsets;
                    const Shorts rounded = (even >> 8) | (odd & 0xff00);
                    std::memcpy(codes, &rounded, sizeof rounded);
                }
            }
        }
    }
}

// Multiplies all rows of activations with panels `first` to `last`. `out` is of the first of them, `stride` from row
// to row of activations.
void multiply(const Matrix& matrix, size_t first, size_t last, const Activations& x, float* out, size_t stride) {
    constexpr size_t together = SET == 3 ? 2 : 1;
    static thread_local std::vector<Line> lines;
    with_type(matrix.type, [&](auto t) {
        using Type = decltype(t);
        const size_t bytes = panel_bytes<Type>(x.columns), rounded_bytes = panel_bytes<Rounded>(x.columns);
        for (size_t number = first; number < last; number += together) {
            const size_t panels = std::min(together, last - number);
            const uint8_t* panel = matrix.panels + number * bytes;
            const Place to{out + (number - first) * ROWS, stride, matrix.rows - number * ROWS};
            uint8_t* rounded = nullptr;
            for (const Run& run : x.runs) {
                if (!run.is_prompt) {
                    for (size_t p = 0; p < panels; p++)
                        multiply_rows<Type>(panel + p * bytes, x, run.begin, run.end,
                                            {to.out + p * ROWS, stride, to.width - p * ROWS});
                    continue;
                }
                if (!rounded) {
                    lines.resize(together * rounded_bytes / sizeof(Line));
                    rounded = lines.data()->bytes;
                    for (size_t p = 0; p < panels; p++)
                        for (int lane = 0; lane < ROWS; lane += WIDTH)
                            round_panel<Type>(panel + p * bytes, x.columns, lane, rounded + p * rounded_bytes);
                }
                const uint8_t* next = panel + panels * bytes;
                if (panels == together) multiply_rounded<together>(rounded, x, run.begin, run.end, to, next, panels * bytes);
                else multiply_rounded<1>(rounded, x, run.begin, run.end, to, next, panels * bytes);
            }
        }
    });
}

// Makes gates activations: SiLU, or GELU by tanh, times values. `count` is a multiple of 16.
void gate(float* gates, const float* values, size_t count, bool is_silu) {
    for (size_t i = 0; i < count; i += WIDTH) {
        const Floats x = load<Floats>(gates + i);
        // Both are x / (1 + exp(-z)).
        Floats z = is_silu ? x : 1.5957691216f * (x + 0.044715f * x * x * x);
        z = greater(-greater(-z, all(-87)), all(-87));
        // exp(-z) is 2^n times exp of the rest, which is small.
        const Floats shifted = z * -1.442695041f + 12582912, n = shifted - 12582912;
        const Floats rest = -z - n * 0.6931471806f, two = (Floats)(((Ints)shifted + 127) << 23);
        Floats power = all(1.0f / 120);
        for (float each : {1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f, 1.0f}) power = power * rest + each;
        const Floats product = x / (1 + power * two) * load<Floats>(values + i);
        std::memcpy(gates + i, &product, sizeof product);
    }
}

inline __attribute__((always_inline)) int32_t sum_of(Ints x) {
#if SET == 3
    return _mm512_reduce_add_epi32((__m512i)x);
#else
    int32_t sum = 0;
    for (int i = 0; i < WIDTH; i++) sum += x[i];
    return sum;
#endif
}

// Returns the farthest from 0 of `count` activations, a multiple of 16.
inline __attribute__((always_inline)) float farthest(const float* values, size_t count) {
    Ints most = Ints{};  // positive numbers are in the order of their bits
    for (size_t i = 0; i < count; i += WIDTH) {
        const Ints bits = load<Ints>(values + i) & 0x7fffffff;
        most = most > bits ? most : bits;
    }
#if SET == 3
    int32_t found = _mm512_reduce_max_epi32((__m512i)most);
#else
    int32_t found = 0;
    for (int i = 0; i < WIDTH; i++) found = std::max(found, most[i]);
#endif
    float value;
    std::memcpy(&value, &found, 4);
    return value;
}

// Rounds `count` activations, a multiple of 16; returns the sum of their codes.
inline __attribute__((always_inline)) int32_t round_values(const float* values, size_t count, float inverse, int8_t* codes) {
    Ints sum = Ints{};
    for (size_t i = 0; i < count; i += WIDTH) {
        const Ints found = nearest(load<Floats>(values + i) * all(inverse));
        const Bytes bytes = __builtin_convertvector(found, Bytes);
        std::memcpy(codes + i, &bytes, sizeof bytes);
        sum += found;
    }
    return sum_of(sum);
}

// Rounds columns `first` to `last` of one row of activations, whose values these are.
void quantise(const float* values, size_t row, size_t first, size_t last, Activations& into) {
    const bool is_prompt = into.is_prompt(row);
    const size_t group = is_prompt ? SPAN : GROUP;
    for (size_t begin = first; begin < last; begin += group, values += group) {
        const size_t count = std::min(group, last - begin), at = row * into.stride + begin;
        const float most = count == SPAN ? farthest(values, SPAN) : farthest(values, count);
        const float scale = most / 127, inverse = most > 0 ? 127 / most : 0;
        int8_t* codes = &into.codes[at];
        int32_t* sums = &into.sums[at / 16];
        into.scales[at / GROUP] = scale;
        if (is_prompt) {
            *sums = count == SPAN ? round_values(values, SPAN, inverse, codes) : round_values(values, count, inverse, codes);
            std::memset(codes + count, 0, SPAN - count);  // the last span of a row is multiplied as a whole
        } else {
            int32_t total = 0;
            for (size_t i = 0; i < count; i += 16) total += sums[i / 16] = round_values(values + i, 16, inverse, codes + i);
            into.offsets[at / GROUP] = scale * float(total);
        }
    }
}

}  // namespace INSTRUCTIONS
}  // namespace
