//go:build cgo

// NEON, which every 64-bit ARM processor has.
#include "filter.h"

#include <arm_neon.h>

// words is even; a byte counts at most 8 bits of each of twelve vectors.
INLINE uint16_t distance(const uint8_t *row, const uint8_t *query, size_t words)
{
    uint8x16_t bytes = vdupq_n_u8(0);
    for (size_t i = 0; i < 8 * words; i += 16)
        bytes = vaddq_u8(bytes, vcntq_u8(veorq_u8(vld1q_u8(row + i), vld1q_u8(query + i))));
    return vaddlvq_u8(bytes);
}

#define DEFINE(W)                                                                                             \
    static void below_##W(const uint8_t *rows, size_t count, const uint8_t *queries, size_t query_count,      \
                          size_t words, const uint64_t *limits, row_bits *below)                              \
    {                                                                                                         \
        (void)words;                                                                                          \
        BELOW_ROW_BY_ROW(distance, W)                                                                         \
    }
FOR_EVERY_WIDTH(DEFINE)

// Any number of words.
INLINE unsigned distance_words(const uint8_t *row, const uint8_t *query, size_t words)
{
    unsigned sum = 0;
    for (size_t w = 0; w < words; w++)
        sum += vaddv_u8(vcnt_u8(veor_u8(vld1_u8(row + 8 * w), vld1_u8(query + 8 * w))));
    return sum;
}

static void below_words(const uint8_t *rows, size_t count, const uint8_t *queries, size_t query_count, size_t words,
                        const uint64_t *limits, row_bits *below)
{
    BELOW_ROW_BY_ROW(distance_words, words)
}

static below_fn *choose(size_t words)
{
    switch (words) {
#define CASE(W) \
    case W: return below_##W;
        FOR_EVERY_WIDTH(CASE)
    }
    return below_words;
}

static uint64_t read(const uint8_t *bytes, size_t count) { return read_all(bytes, count); }

// Sixteen components at a time; a product is at most 128 * 128.
INLINE int32_t dot(const int8_t *a, const int8_t *b, size_t dims)
{
    int32x4_t sums = vdupq_n_s32(0);
    size_t i = 0;
    for (; i + 16 <= dims; i += 16) {
        int8x16_t x = vld1q_s8(a + i), y = vld1q_s8(b + i);
        sums = vpadalq_s16(sums, vmull_s8(vget_low_s8(x), vget_low_s8(y)));
        sums = vpadalq_s16(sums, vmull_high_s8(x, y));
    }
    int32_t sum = vaddvq_s32(sums);
    for (; i < dims; i++)
        sum += a[i] * b[i];
    return sum;
}

static void dots(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                 const int8_t *query, int32_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = dot(row_at(values, dims, stride, rows, count, i), query, dims);
}

// One row and as many queries as are known in advance.
INLINE void row_dots(const size_t query_count, const int8_t *row, const int8_t *queries, size_t dims, size_t count, int32_t *out)
{
    int32x4_t sums[8];
    for (size_t q = 0; q < query_count; q++)
        sums[q] = vdupq_n_s32(0);
    size_t i = 0;
    for (; i + 16 <= dims; i += 16) {
        int8x16_t x = vld1q_s8(row + i);
#pragma GCC unroll 8
        for (size_t q = 0; q < query_count; q++) {
            int8x16_t y = vld1q_s8(queries + q * dims + i);
            sums[q] = vpadalq_s16(sums[q], vmull_s8(vget_low_s8(x), vget_low_s8(y)));
            sums[q] = vpadalq_s16(sums[q], vmull_high_s8(x, y));
        }
    }
    for (size_t q = 0; q < query_count; q++) {
        int32_t sum = vaddvq_s32(sums[q]);
        for (size_t j = i; j < dims; j++)
            sum += row[j] * queries[q * dims + j];
        out[q * count] = sum;
    }
}

static void dots_together(const int8_t *values, size_t dims, size_t stride, size_t count, const int8_t *queries,
                          size_t query_count, int32_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const int8_t *row = row_at(values, dims, stride, NULL, count, i);
        FOR_QUERIES(query_count, row_dots, row, queries, dims, count, out + i)
    }
}

static void norms(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count, int32_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const int8_t *row = row_at(values, dims, stride, rows, count, i);
        out[i] = dot(row, row, dims);
    }
}

static const instruction_set neon = {choose, read, dots, dots_together, norms};

const instruction_set *kernel_set(int path) { return path == PATH_NEON ? &neon : NULL; }
