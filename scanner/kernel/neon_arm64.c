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

INLINE void distances(const uint8_t *rows, size_t count, const uint8_t *queries, size_t query_count, size_t words,
                      uint16_t (*table)[CHUNK])
{
    for (size_t r = 0; r < count; r++) {
        const uint8_t *row = rows + r * words * 8;
        prefetch_ahead(row, words * 8);
        for (size_t q = 0; q < query_count; q++)
            table[q][r] = distance(row, queries + q * words * 8, words);
    }
}

#define DEFINE(W)                                                                                             \
    static void distances_##W(const uint8_t *rows, size_t count, const uint8_t *queries, size_t query_count,  \
                              size_t words, uint16_t (*table)[CHUNK])                                         \
    {                                                                                                         \
        (void)words;                                                                                          \
        distances(rows, count, queries, query_count, W, table);                                               \
    }
FOR_EVERY_WIDTH(DEFINE)

static distances_fn *choose(size_t words)
{
    switch (words) {
#define CASE(W) \
    case W: return distances_##W;
        FOR_EVERY_WIDTH(CASE)
    }
    return NULL;
}

static int any_below(const uint16_t *distances, uint32_t limit) { return any_below_limit(distances, limit); }

static uint64_t below(const uint16_t *distances, uint32_t limit)
{
    uint64_t bits = 0;
    for (int i = 0; i < 64; i++)
        bits |= (uint64_t)(distances[i] < limit) << i;
    return bits;
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

static void norms(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count, int32_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const int8_t *row = row_at(values, dims, stride, rows, count, i);
        out[i] = dot(row, row, dims);
    }
}

static const instruction_set neon = {choose, any_below, below, read, dots, norms};

const instruction_set *kernel_set(int path) { return path == PATH_NEON ? &neon : NULL; }
