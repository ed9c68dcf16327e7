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

TARGET INLINE void distances(const uint8_t *rows, size_t count, const uint8_t *queries, size_t query_count,
                             size_t words, uint16_t (*table)[CHUNK])
{
    for (size_t r = 0; r < count; r++) {
        const uint8_t *row = rows + r * words * 8;
        prefetch_ahead(row, words * 8);
        for (size_t q = 0; q < query_count; q++)
            table[q][r] = (uint16_t)distance(row, queries + q * words * 8, words);
    }
}

#define DEFINE(W)                                                                                             \
    TARGET static void distances_##W(const uint8_t *rows, size_t count, const uint8_t *queries,               \
                                     size_t query_count, size_t words, uint16_t (*table)[CHUNK])              \
    {                                                                                                         \
        (void)words;                                                                                          \
        distances(rows, count, queries, query_count, W, table);                                               \
    }
FOR_EVERY_WIDTH(DEFINE)

TARGET static void distances_words(const uint8_t *rows, size_t count, const uint8_t *queries, size_t query_count,
                                   size_t words, uint16_t (*table)[CHUNK])
{
    distances(rows, count, queries, query_count, words, table);
}

distances_fn *kernel_popcnt_distances(size_t words)
{
    switch (words) {
#define CASE(W) \
    case W: return distances_##W;
        FOR_EVERY_WIDTH(CASE)
    }
    return distances_words;
}

static int any_below(const uint16_t *distances, uint32_t limit) { return any_below_limit(distances, limit); }

static uint64_t below(const uint16_t *distances, uint32_t limit) { return below_sixteen_at_a_time(distances, limit); }

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

static void norms(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count, int32_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const int8_t *row = row_at(values, dims, stride, rows, count, i);
        out[i] = dot(row, row, dims);
    }
}

const instruction_set kernel_popcnt = {kernel_popcnt_distances, any_below, below, read, dots, norms};
