// Runs every kernel that this machine has over rows, bitmaps, queries and values
// that are exactly as long as they must be, so that a sanitizer sees any read or
// write behind them, and compares the results of all paths with one another.
#include "../filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

static uint64_t draw(void)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = (state ^ state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ z >> 29;
}

static uint8_t *drawn(size_t n)
{
    uint8_t *bytes = malloc(n ? n : 1);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)draw();
    return bytes;
}

enum { CAPACITY = 512 };

typedef struct {
    uint32_t found[8];
    hit *hits;
} result;

static result filter_all(int path, size_t words, const uint8_t *rows, size_t first, size_t count, const uint64_t *live,
                         const uint8_t *queries, size_t query_count)
{
    result r = {{0}, calloc(query_count * CAPACITY, sizeof(hit))};
    uint32_t limits[8];
    for (size_t q = 0; q < query_count; q++)
        limits[q] = (uint32_t)(words * 32 + q);
    kernel_filter(path, words, rows, first, count, live, queries, query_count, limits, r.hits, CAPACITY, r.found);
    return r;
}

static int same(const result *a, const result *b, size_t query_count)
{
    for (size_t q = 0; q < query_count; q++)
        if (a->found[q] != b->found[q] ||
            memcmp(a->hits + q * CAPACITY, b->hits + q * CAPACITY, a->found[q] * sizeof(hit)))
            return 0;
    return 1;
}

static int try_codes(size_t words, size_t first, size_t count, size_t query_count, int with_live)
{
    uint8_t *rows = drawn(count * words * 8), *queries = drawn(query_count * words * 8);
    uint64_t *live = with_live ? (uint64_t *)drawn((first + count + 63) / 64 * 8) : NULL;
    result reference = {{0}, NULL};
    uint64_t sum = 0;
    int wrong = 0;
    for (int path = PATH_NEON; path >= PATH_POPCNT; path--) {
        if (!kernel_set(path))
            continue;
        result r = filter_all(path, words, rows, first, count, live, queries, query_count);
        uint64_t read = kernel_read(path, rows, count * words * 8);
        if (reference.hits)
            wrong += !same(&r, &reference, query_count) || read != sum;
        free(reference.hits);
        reference = r;
        sum = read;
    }
    free(reference.hits);
    free(rows);
    free(queries);
    free(live);
    return wrong;
}

static int try_values(size_t dims, size_t gap, size_t count)
{
    size_t stride = dims + gap;
    size_t query_count = 1 + count % 8, results = (3 + query_count) * count;
    int8_t *values = (int8_t *)drawn((count - 1) * stride + dims), *query = (int8_t *)drawn(dims);
    int8_t *queries = (int8_t *)drawn(query_count * dims);
    uint32_t *rows = malloc(count * sizeof *rows);
    for (size_t i = 0; i < count; i++)
        rows[i] = (uint32_t)(draw() % count);
    int32_t *reference = NULL;
    int wrong = 0;
    for (int path = PATH_NEON; path >= PATH_POPCNT; path--) {
        if (!kernel_set(path))
            continue;
        int32_t *r = malloc(results * sizeof *r);
        kernel_dots(path, values, dims, stride, rows, count, query, r);
        kernel_dots(path, values, dims, stride, NULL, count, query, r + count);
        kernel_norms(path, values, dims, stride, rows, count, r + 2 * count);
        kernel_dots_together(path, values, dims, stride, count, queries, query_count, r + 3 * count);
        if (reference)
            wrong += memcmp(r, reference, results * sizeof *r) != 0;
        free(reference);
        reference = r;
    }
    free(reference);
    free(rows);
    free(values);
    free(query);
    free(queries);
    return wrong;
}

int main(void)
{
    static const size_t words[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 17, 24, 32};
    static const size_t counts[] = {0, 1, 7, 8, 9, 63, 64, 65, 255, 256, 257, 700};
    static const size_t dims[] = {1, 2, 15, 16, 17, 63, 64, 65, 128, 1000, 1024, 1030};
    int wrong = 0, tried = 0;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (size_t q = 1; q <= 8; q += 1 + c % 3, tried++)
                wrong += try_codes(words[w], draw() % 200, counts[c], q, (int)(q % 2));
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (size_t n = 1; n < 40; n += 5, tried++)
            wrong += try_values(dims[d], d % 3 * 4, n);
    printf("%d tries, %d wrong\n", tried, wrong);
    return wrong != 0;
}
