//go:build cgo && (amd64 || arm64)

#include "filter.h"

// Returns count <= 64 bits of a bitmap from bit first on; reads no word behind
// that of the last bit.
static uint64_t bits_at(const uint64_t *bitmap, size_t first, size_t count)
{
    size_t word = first / 64, shift = first % 64;
    uint64_t bits = bitmap[word] >> shift;
    if (shift + count > 64)
        bits |= bitmap[word + 1] << (64 - shift);
    return count < 64 ? bits & ((UINT64_C(1) << count) - 1) : bits;
}

// The same where NULL stands for a bitmap of ones.
static uint64_t live_at(const uint64_t *live, size_t first, size_t count)
{
    if (live)
        return bits_at(live, first, count);
    return count < 64 ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
}

static int any_live(const uint64_t *live, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i += 64)
        if (live_at(live, first + i, count - i < 64 ? count - i : 64))
            return 1;
    return 0;
}

static int any_full(const uint32_t *found, size_t query_count, size_t capacity)
{
    for (size_t q = 0; q < query_count; q++)
        if (found[q] + CHUNK > capacity)
            return 1;
    return 0;
}

// The Hamming distance, for the few rows that are below the limit.
static uint32_t distance(const uint8_t *row, const uint8_t *query, size_t words)
{
    uint32_t sum = 0;
    for (size_t w = 0; w < words; w++) {
        uint64_t a, b;
        __builtin_memcpy(&a, row + 8 * w, 8);
        __builtin_memcpy(&b, query + 8 * w, 8);
        sum += (uint32_t)__builtin_popcountll(a ^ b);
    }
    return sum;
}

// Writes the hits of one query in one chunk and returns their number.
static uint32_t collect(const uint64_t *below, const uint8_t *rows, size_t first, size_t count, const uint64_t *live,
                        const uint8_t *query, size_t words, hit *hits)
{
    uint32_t n = 0;
    for (size_t i = 0; i < count; i += 64) {
        uint64_t passed = below[i / 64];
        if (passed)
            passed &= live_at(live, first + i, count - i < 64 ? count - i : 64);
        for (; passed; passed &= passed - 1) {
            size_t r = i + (size_t)__builtin_ctzll(passed);
            hits[n++] = (hit){(uint32_t)(first + r), distance(rows + r * words * 8, query, words)};
        }
    }
    return n;
}

size_t kernel_filter(int path, size_t words, const uint8_t *rows, size_t first, size_t count, const uint64_t *live,
                     const uint8_t *queries, size_t query_count, const uint32_t *limits, hit *hits, size_t capacity,
                     uint32_t *found)
{
    enum { QUERIES = 8 };
    uint64_t bounds[QUERIES];
    for (size_t q = 0; q < query_count; q++)
        bounds[q] = limits[q];
    below_fn *compare = kernel_set(path)->below(words);
    size_t done = 0;
    while (done < count && !any_full(found, query_count, capacity)) {
        size_t n = count - done < CHUNK ? count - done : CHUNK;
        if (!live || any_live(live, first + done, n)) {
            row_bits below[QUERIES] = {{0}};
            const uint8_t *chunk = rows + done * words * 8;
            compare(chunk, n, queries, query_count, words, bounds, below);
            for (size_t q = 0; q < query_count; q++)
                found[q] += collect(below[q], chunk, first + done, n, live, queries + q * words * 8, words,
                                    hits + q * capacity + found[q]);
        }
        done += n;
    }
    return done;
}

uint64_t kernel_read(int path, const uint8_t *bytes, size_t count)
{
    return kernel_set(path)->read(bytes, count);
}

void kernel_dots(int path, const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                 const int8_t *query, int32_t *dots)
{
    kernel_set(path)->dots(values, dims, stride, rows, count, query, dots);
}

void kernel_dots_together(int path, const int8_t *values, size_t dims, size_t stride, size_t count,
                          const int8_t *queries, size_t query_count, int32_t *dots)
{
    kernel_set(path)->dots_together(values, dims, stride, count, queries, query_count, dots);
}

void kernel_norms(int path, const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                  int32_t *norms)
{
    kernel_set(path)->norms(values, dims, stride, rows, count, norms);
}
