//go:build cgo

// Codes by the instruction popcnt, int8 by plain C: any x86 processor since
// about 2009.
#include "sets_amd64.h"

#define TARGET __attribute__((target("popcnt")))

TARGET INLINE unsigned distance(const uint8_t *row, const uint8_t *query, size_t words)
{
    unsigned sum = 0;
#pragma GCC unroll 24
    for (size_t w = 0; w < words; w++) {
        uint64_t a, b;
        __builtin_memcpy(&a, row + 8 * w, 8);
        __builtin_memcpy(&b, query + 8 * w, 8);
        sum += (unsigned)__builtin_popcountll(a ^ b);
    }
    return sum;
}

#define DEFINE(W)                                                                                             \
    TARGET static void below_##W(const uint8_t *rows, size_t count, const uint8_t *queries,                   \
                                 size_t query_count, size_t words, const uint64_t *limits, row_bits *below)   \
    {                                                                                                         \
        (void)words;                                                                                          \
        BELOW_ROW_BY_ROW(distance, W)                                                                         \
    }
FOR_EVERY_WIDTH(DEFINE)

TARGET static void below_words(const uint8_t *rows, size_t count, const uint8_t *queries, size_t query_count,
                               size_t words, const uint64_t *limits, row_bits *below)
{
    BELOW_ROW_BY_ROW(distance, words)
}

below_fn *kernel_popcnt_below(size_t words)
{
    switch (words) {
#define CASE(W) \
    case W: return below_##W;
        FOR_EVERY_WIDTH(CASE)
    }
    return below_words;
}

static uint64_t read(const uint8_t *bytes, size_t count) { return read_all(bytes, count); }

static int32_t dot(const int8_t *a, const int8_t *b, size_t dims)
{
    int32_t sum = 0;
    for (size_t i = 0; i < dims; i++)
        sum += a[i] * b[i];
    return sum;
}

static void dots(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                 const int8_t *query, int32_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = dot(row_at(values, dims, stride, rows, count, i), query, dims);
}

static void dots_together(const int8_t *values, size_t dims, size_t stride, size_t count, const int8_t *queries,
                          size_t query_count, int32_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const int8_t *row = row_at(values, dims, stride, NULL, count, i);
        for (size_t q = 0; q < query_count; q++)
            out[q * count + i] = dot(row, queries + q * dims, dims);
    }
}

static void norms(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count, int32_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const int8_t *row = row_at(values, dims, stride, rows, count, i);
        out[i] = dot(row, row, dims);
    }
}

const instruction_set kernel_popcnt = {kernel_popcnt_below, read, dots, dots_together, norms};
