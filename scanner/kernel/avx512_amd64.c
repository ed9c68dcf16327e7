//go:build cgo

// AVX-512 with VPOPCNTDQ, VBMI and VNNI: Ice Lake and Zen 4 on.
#include "sets_amd64.h"

#include <immintrin.h>

#define TARGET \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vpopcntdq,avx512vnni,popcnt")))

// The distance in eight parts: lane j counts the words j, j + 8 and j + 16. A
// lane is at most 3 * 64 and so fits a byte, which eight_below depends on.
TARGET INLINE __m512i lane_counts(const uint8_t *row, const uint8_t *query, size_t words)
{
    __m512i sums = _mm512_setzero_si512();
    size_t w = 0;
#pragma GCC unroll 3
    for (; w + 8 <= words; w += 8) {
        __m512i differ = _mm512_xor_si512(_mm512_loadu_si512(row + 8 * w), _mm512_loadu_si512(query + 8 * w));
        sums = _mm512_add_epi64(sums, _mm512_popcnt_epi64(differ));
    }
    if (w < words) {
        __mmask8 rest = (__mmask8)((1u << (words - w)) - 1);
        __m512i differ = _mm512_xor_si512(_mm512_maskz_loadu_epi64(rest, row + 8 * w),
                                          _mm512_maskz_loadu_epi64(rest, query + 8 * w));
        sums = _mm512_add_epi64(sums, _mm512_popcnt_epi64(differ));
    }
    return sums;
}

// Byte 8r + j of the result comes from byte 8j + r: rows become lanes.
static const uint8_t transposed[64] __attribute__((aligned(64))) = {
    0, 8,  16, 24, 32, 40, 48, 56, 1, 9,  17, 25, 33, 41, 49, 57, 2, 10, 18, 26, 34, 42, 50, 58, 3, 11, 19, 27, 35, 43, 51, 59,
    4, 12, 20, 28, 36, 44, 52, 60, 5, 13, 21, 29, 37, 45, 53, 61, 6, 14, 22, 30, 38, 46, 54, 62, 7, 15, 23, 31, 39, 47, 55, 63};

// Bit r says whether row r of eight is below the limit. Byte r of lane j takes
// lane j of row r; transposed, lane r holds the eight parts of row r, and their sum
// is the distance.
TARGET INLINE __mmask8 eight_below(const uint8_t *rows, const uint8_t *query, size_t words, uint64_t limit)
{
    __m512i packed = lane_counts(rows, query, words);
#pragma GCC unroll 7
    for (size_t r = 1; r < 8; r++) {
        __m512i counts = lane_counts(rows + 8 * words * r, query, words);
        packed = _mm512_or_si512(packed, _mm512_slli_epi64(counts, 8 * (unsigned)r));
    }
    __m512i parts = _mm512_permutexvar_epi8(_mm512_load_si512(transposed), packed);
    __m512i distances = _mm512_sad_epu8(parts, _mm512_setzero_si512());
    return _mm512_cmplt_epu64_mask(distances, _mm512_set1_epi64((long long)limit));
}

TARGET INLINE void compare(const uint8_t *rows, size_t count, const uint8_t *queries, size_t query_count,
                           size_t words, const uint64_t *limits, row_bits *below)
{
    size_t bytes = 8 * words, r = 0;
    for (; r + 8 <= count; r += 8) {
        const uint8_t *block = rows + r * bytes;
        for (size_t q = 0; q < query_count; q++) {
            prefetch_share(block, 8 * bytes, q, query_count);
            ((uint8_t *)below[q])[r / 8] = eight_below(block, queries + q * bytes, words, limits[q]);
        }
    }
    for (; r < count; r++)
        for (size_t q = 0; q < query_count; q++) {
            __m512i counts = lane_counts(rows + r * bytes, queries + q * bytes, words);
            below[q][r / 64] |= (uint64_t)((uint64_t)_mm512_reduce_add_epi64(counts) < limits[q]) << r % 64;
        }
}

#define DEFINE(W)                                                                                             \
    TARGET static void below_##W(const uint8_t *rows, size_t count, const uint8_t *queries,                   \
                                 size_t query_count, size_t words, const uint64_t *limits, row_bits *below)   \
    {                                                                                                         \
        (void)words;                                                                                          \
        compare(rows, count, queries, query_count, W, limits, below);                                         \
    }
FOR_EVERY_WIDTH(DEFINE)

static below_fn *choose(size_t words)
{
    switch (words) {
#define CASE(W) \
    case W: return below_##W;
        FOR_EVERY_WIDTH(CASE)
    }
    return kernel_popcnt_below(words);
}

TARGET static uint64_t read(const uint8_t *bytes, size_t count)
{
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    size_t i = 0;
    for (; i + 256 <= count; i += 256) {
        prefetch_ahead(bytes + i, 256);
        a = _mm512_xor_si512(a, _mm512_loadu_si512(bytes + i));
        b = _mm512_xor_si512(b, _mm512_loadu_si512(bytes + i + 64));
        c = _mm512_xor_si512(c, _mm512_loadu_si512(bytes + i + 128));
        d = _mm512_xor_si512(d, _mm512_loadu_si512(bytes + i + 192));
    }
    uint64_t lanes[8];
    _mm512_storeu_si512(lanes, _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d)));
    uint64_t sum = read_all(bytes + i, count - i);
    for (int j = 0; j < 8; j++)
        sum ^= lanes[j];
    return sum;
}

// The lanes of 64 components that exist from component i on.
TARGET INLINE __mmask64 lanes_from(size_t i, size_t dims)
{
    return dims - i >= 64 ? UINT64_MAX : (UINT64_C(1) << (dims - i)) - 1;
}

// The sum of the components of a vector.
TARGET INLINE int32_t component_sum(const int8_t *a, size_t dims)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sums = _mm512_setzero_si512();
    for (size_t i = 0; i < dims; i += 64)
        sums = _mm512_dpbusd_epi32(sums, ones, _mm512_maskz_loadu_epi8(lanes_from(i, dims), a + i));
    return _mm512_reduce_add_epi32(sums);
}

// The instruction multiplies unsigned with signed bytes, so 128 is added to each
// component of a, by turning its sign bit, and 128 times the sum of b is taken
// off again. A lane behind the last component multiplies with zero.
TARGET INLINE int32_t dot(const int8_t *a, const int8_t *b, size_t dims, int32_t sum_of_b)
{
    const __m512i sign = _mm512_set1_epi8(-128);
    __m512i sums = _mm512_setzero_si512();
    for (size_t i = 0; i < dims; i += 64) {
        __mmask64 lanes = lanes_from(i, dims);
        __m512i x = _mm512_xor_si512(_mm512_maskz_loadu_epi8(lanes, a + i), sign);
        sums = _mm512_dpbusd_epi32(sums, x, _mm512_maskz_loadu_epi8(lanes, b + i));
    }
    return _mm512_reduce_add_epi32(sums) - 128 * sum_of_b;
}

TARGET static void dots(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                        const int8_t *query, int32_t *out)
{
    int32_t sum = component_sum(query, dims);
    for (size_t i = 0; i < count; i++)
        out[i] = dot(row_at(values, dims, stride, rows, count, i), query, dims, sum);
}

// One row and as many queries as are known in advance: dot for each of them.
TARGET INLINE void row_dots(const size_t query_count, const int8_t *row, const int8_t *queries, size_t dims,
                            const int32_t *query_sums, size_t count, int32_t *out)
{
    const __m512i sign = _mm512_set1_epi8(-128);
    __m512i sums[8];
    for (size_t q = 0; q < query_count; q++)
        sums[q] = _mm512_setzero_si512();
    for (size_t i = 0; i < dims; i += 64) {
        __mmask64 lanes = lanes_from(i, dims);
        __m512i x = _mm512_xor_si512(_mm512_maskz_loadu_epi8(lanes, row + i), sign);
#pragma GCC unroll 8
        for (size_t q = 0; q < query_count; q++)
            sums[q] = _mm512_dpbusd_epi32(sums[q], x, _mm512_maskz_loadu_epi8(lanes, queries + q * dims + i));
    }
    for (size_t q = 0; q < query_count; q++)
        out[q * count] = _mm512_reduce_add_epi32(sums[q]) - 128 * query_sums[q];
}

TARGET static void dots_together(const int8_t *values, size_t dims, size_t stride, size_t count, const int8_t *queries,
                                 size_t query_count, int32_t *out)
{
    int32_t sums[8];
    for (size_t q = 0; q < query_count; q++)
        sums[q] = component_sum(queries + q * dims, dims);
    for (size_t i = 0; i < count; i++) {
        const int8_t *row = row_at(values, dims, stride, NULL, count, i);
        FOR_QUERIES(query_count, row_dots, row, queries, dims, sums, count, out + i)
    }
}

TARGET static void norms(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                         int32_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const int8_t *row = row_at(values, dims, stride, rows, count, i);
        out[i] = dot(row, row, dims, component_sum(row, dims));
    }
}

const instruction_set kernel_avx512 = {choose, read, dots, dots_together, norms};
