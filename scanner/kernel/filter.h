// Hamming distances between packed codes: what all instruction sets share.
#ifndef RECALLD_KERNEL_FILTER_H
#define RECALLD_KERNEL_FILTER_H

#include <stddef.h>
#include <stdint.h>

// Numbers of the instruction sets, as type Path of the Go side has them.
enum { PATH_POPCNT = 1, PATH_AVX2 = 2, PATH_AVX512 = 3, PATH_NEON = 4 };

enum {
    // Rows that are compared before any hit is written.
    CHUNK = 512,
    // How far ahead of the row being read memory is asked for, in bytes: first into
    // the second cache, which can wait for many lines at once, then into the first.
    FAR_AHEAD = 16384,
    NEAR_AHEAD = 2048,
};

// The widths that have code of their own, in words of 64 bits.
#define FOR_EVERY_WIDTH(X) X(4) X(6) X(8) X(12) X(16) X(24)

#define INLINE static inline __attribute__((always_inline))

// Bits of the rows of a chunk.
typedef uint64_t row_bits[CHUNK / 64];

// Sets bit r%64 of below[q][r/64] for every one of count <= CHUNK rows r and every
// query q whose Hamming distance is below limits[q]; the bits come cleared. Rows
// and queries are words * 8 bytes each, tightly packed, of any alignment.
typedef void below_fn(const uint8_t *rows, size_t count, const uint8_t *queries, size_t query_count, size_t words,
                      const uint64_t *limits, row_bits *below);

// Reads every byte and returns the XOR of all words, so that no read is left out.
typedef uint64_t read_fn(const uint8_t *bytes, size_t count);

// Writes dots[i], the dot product of query and the row rows[i], or row i where
// rows is NULL. A row is dims bytes, stride bytes behind the row before it.
typedef void dots_fn(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                     const int8_t *query, int32_t *dots);

// Writes dots[q * count + r], the dot product of query q and row r, for every one
// of 1 to 8 queries, dims bytes each and tightly packed, and every one of count
// rows, each stride bytes behind the one before it.
typedef void dots_together_fn(const int8_t *values, size_t dims, size_t stride, size_t count, const int8_t *queries,
                              size_t query_count, int32_t *dots);

// Writes norms[i], the sum of the squares of the components of a row.
typedef void norms_fn(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                      int32_t *norms);

// Everything that one instruction set has.
typedef struct {
    // Returns the function for rows of so many words, never NULL.
    below_fn *(*below)(size_t words);
    read_fn *read;
    dots_fn *dots;
    dots_together_fn *dots_together;
    norms_fn *norms;
} instruction_set;

// Returns the instruction set of a path, NULL where this processor, this system
// or this build lacks it.
const instruction_set *kernel_set(int path);

// A row that passed the filter.
typedef struct {
    uint32_t row;
    uint32_t distance;
} hit;

// Compares up to count rows with every query and writes, for each query q, a hit
// for every live row whose distance is below limits[q]: in ascending order of
// rows, to hits[q * capacity + found[q]] and on, adding to found[q]. Stops early,
// between chunks, when a query has no room for a whole chunk. Returns the number
// of rows compared; found is the caller's to clear.
//
// rows points to the row with the ordinal first. live is a bitmap over ordinals,
// bit i of word i/64 for row i, NULL when all rows are live; its words up to that
// of the last row must be readable. Nothing given is kept.
size_t kernel_filter(int path, size_t words, const uint8_t *rows, size_t first, size_t count, const uint64_t *live,
                     const uint8_t *queries, size_t query_count, const uint32_t *limits, hit *hits, size_t capacity,
                     uint32_t *found);

// The functions of type read_fn, dots_fn, dots_together_fn and norms_fn of a path.
uint64_t kernel_read(int path, const uint8_t *bytes, size_t count);
void kernel_dots(int path, const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                 const int8_t *query, int32_t *dots);
void kernel_dots_together(int path, const int8_t *values, size_t dims, size_t stride, size_t count,
                          const int8_t *queries, size_t query_count, int32_t *dots);
void kernel_norms(int path, const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                  int32_t *norms);

// Asks for the line that lies ahead of p. Addresses behind the last row are
// harmless: a prefetch never faults.
INLINE void prefetch_line(uintptr_t p)
{
    __builtin_prefetch((const void *)(p + FAR_AHEAD), 0, 2);
    __builtin_prefetch((const void *)(p + NEAR_AHEAD), 0, 3);
}

// Asks for what lies ahead of a block.
INLINE void prefetch_ahead(const void *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        prefetch_line((uintptr_t)block + i);
}

// The share of query q in asking for what lies ahead. All at once would fill the
// buffers that fetch lines while the queries compute, and leave them idle later.
INLINE void prefetch_share(const uint8_t *block, size_t bytes, size_t q, size_t query_count)
{
    if (query_count == 1) {
        prefetch_ahead(block, bytes);
        return;
    }
    size_t share = (bytes / 64 + query_count - 1) / query_count * 64;
    for (size_t i = q * share; i < (q + 1) * share && i < bytes; i += 64)
        prefetch_line((uintptr_t)block + i);
}

// The body of a below_fn that takes one row after the other by a function
// distance(row, query, words) of the same instruction set.
#define BELOW_ROW_BY_ROW(distance, words)                                                                     \
    for (size_t r = 0; r < count; r++) {                                                                      \
        const uint8_t *row = rows + r * (words) * 8;                                                          \
        prefetch_ahead(row, (words) * 8);                                                                     \
        for (size_t q = 0; q < query_count; q++)                                                              \
            below[q][r / 64] |= (uint64_t)(distance(row, queries + q * (words) * 8, words) < limits[q])       \
                                << r % 64;                                                                    \
    }

// Takes FUNCTION(n, ...) in line once for each number n of queries, 1 to 8, so that
// the compiler knows the number and keeps a sum for each of them in a register.
#define FOR_QUERIES(query_count, FUNCTION, ...)                                                               \
    switch (query_count) {                                                                                    \
    case 1: FUNCTION(1, __VA_ARGS__); break;                                                                  \
    case 2: FUNCTION(2, __VA_ARGS__); break;                                                                  \
    case 3: FUNCTION(3, __VA_ARGS__); break;                                                                  \
    case 4: FUNCTION(4, __VA_ARGS__); break;                                                                  \
    case 5: FUNCTION(5, __VA_ARGS__); break;                                                                  \
    case 6: FUNCTION(6, __VA_ARGS__); break;                                                                  \
    case 7: FUNCTION(7, __VA_ARGS__); break;                                                                  \
    case 8: FUNCTION(8, __VA_ARGS__); break;                                                                  \
    }

// The body of a read_fn, to be compiled for each instruction set.
INLINE uint64_t read_all(const uint8_t *bytes, size_t count)
{
    uint64_t sums[32] = {0};
    size_t i = 0;
    for (; i + sizeof sums <= count; i += sizeof sums) {
        uint64_t words[32];
        prefetch_ahead(bytes + i, sizeof sums);
        __builtin_memcpy(words, bytes + i, sizeof words);
        for (int j = 0; j < 32; j++)
            sums[j] ^= words[j];
    }
    uint64_t sum = 0;
    for (int j = 0; j < 32; j++)
        sum ^= sums[j];
    for (; i + 8 <= count; i += 8) {
        uint64_t word;
        __builtin_memcpy(&word, bytes + i, 8);
        sum ^= word;
    }
    for (; i < count; i++)
        sum ^= bytes[i];
    return sum;
}

// The row of a dots_fn or norms_fn to be worked on at step i; asks for the one
// that comes a few steps later.
INLINE const int8_t *row_at(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count, size_t i)
{
    enum { STEPS = 8 };
    if (!rows) {
        const int8_t *row = values + i * stride;
        prefetch_ahead(row, stride);
        return row;
    }
    if (i + STEPS < count)
        for (size_t j = 0; j < dims; j += 64)
            __builtin_prefetch(values + (size_t)rows[i + STEPS] * stride + j);
    return values + (size_t)rows[i] * stride;
}

#endif
