//go:build cgo

// AVX2: bits are counted four at a time by a table look-up (Muła), int8 rows are
// widened to sixteen bits and multiplied in pairs.
#include "sets_amd64.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,popcnt")))

TARGET INLINE __m256i load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

// Set bits of every byte whose high half is zero.
TARGET INLINE __m256i nibble_counts(__m256i v)
{
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
                                           0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    return _mm256_shuffle_epi8(table, v);
}

TARGET INLINE __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }

TARGET INLINE __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

// The words from w on, four or the last two; words is even.
TARGET INLINE __m256i load_words(const uint8_t *row, size_t w, size_t words)
{
    if (w + 4 <= words)
        return load(row + 8 * w);
    return _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)(row + 8 * w)));
}

// The distance in 32 parts, one a byte: each counts at most 8 bits of each of six
// vectors.
TARGET INLINE __m256i byte_counts(const uint8_t *row, const uint8_t *query, size_t words)
{
    __m256i bytes = _mm256_setzero_si256();
    for (size_t w = 0; w < words; w += 4) {
        __m256i differ = _mm256_xor_si256(load_words(row, w, words), load_words(query, w, words));
        bytes = _mm256_add_epi8(bytes, _mm256_add_epi8(nibble_counts(low_nibbles(differ)), nibble_counts(high_nibbles(differ))));
    }
    return bytes;
}

// A code of up to 24 words in halves of bytes.
typedef struct {
    __m256i low[6], high[6];
} nibbles;

TARGET INLINE void split(nibbles *n, const uint8_t *row, size_t words)
{
    for (size_t w = 0; w < words; w += 4) {
        __m256i v = load_words(row, w, words);
        n->low[w / 4] = low_nibbles(v);
        n->high[w / 4] = high_nibbles(v);
    }
}

// What byte_counts returns, of codes that were split before.
TARGET INLINE __m256i split_counts(const nibbles *row, const nibbles *query, size_t words)
{
    __m256i bytes = _mm256_setzero_si256();
#pragma GCC unroll 6
    for (size_t i = 0; i < (words + 3) / 4; i++)
        bytes = _mm256_add_epi8(bytes, _mm256_add_epi8(nibble_counts(_mm256_xor_si256(row->low[i], query->low[i])),
                                                       nibble_counts(_mm256_xor_si256(row->high[i], query->high[i]))));
    return bytes;
}

TARGET INLINE uint16_t distance(const uint8_t *row, const uint8_t *query, size_t words)
{
    uint64_t lanes[4];
    _mm256_storeu_si256((__m256i *)lanes, _mm256_sad_epu8(byte_counts(row, query, words), _mm256_setzero_si256()));
    return (uint16_t)(lanes[0] + lanes[1] + lanes[2] + lanes[3]);
}

// Bit r says whether row r of four is below the limit, given the byte_counts of
// the rows. Quarters of rows are transposed while they are added, so that a lane
// holds one row; a byte is at most 4 * 48 then.
TARGET INLINE unsigned four_below(const __m256i counts[4], uint64_t limit)
{
    __m256i ab = _mm256_add_epi8(_mm256_unpacklo_epi64(counts[0], counts[1]), _mm256_unpackhi_epi64(counts[0], counts[1]));
    __m256i cd = _mm256_add_epi8(_mm256_unpacklo_epi64(counts[2], counts[3]), _mm256_unpackhi_epi64(counts[2], counts[3]));
    __m256i rows = _mm256_add_epi8(_mm256_permute2x128_si256(ab, cd, 0x20), _mm256_permute2x128_si256(ab, cd, 0x31));
    __m256i sums = _mm256_sad_epu8(rows, _mm256_setzero_si256());
    __m256i less = _mm256_cmpgt_epi64(_mm256_set1_epi64x((long long)limit), sums);
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(less));
}

// Four rows at a time with one query; memory is what this waits for.
TARGET INLINE void compare_one(const uint8_t *rows, size_t count, const uint8_t *query, size_t words, uint64_t limit,
                               uint64_t *below)
{
    for (size_t r = 0; r < count; r += 4) {
        const uint8_t *block = rows + r * 8 * words;
        __m256i counts[4];
        prefetch_ahead(block, 32 * words);
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++)
            counts[i] = byte_counts(block + i * 8 * words, query, words);
        below[r / 64] |= (uint64_t)four_below(counts, limit) << r % 64;
    }
}

// Four rows at a time with several queries; counting is what this waits for, so a
// row is split once for all of them and stays in registers.
TARGET INLINE void compare_several(const uint8_t *rows, size_t count, const uint8_t *queries, size_t query_count,
                                   size_t words, const uint64_t *limits, row_bits *below)
{
    nibbles split_queries[8];
    for (size_t q = 0; q < query_count; q++)
        split(&split_queries[q], queries + q * 8 * words, words);
    for (size_t r = 0; r < count; r += 4) {
        __m256i counts[8][4];
        for (size_t i = 0; i < 4; i++) {
            const uint8_t *row = rows + (r + i) * 8 * words;
            nibbles n;
            prefetch_ahead(row, 8 * words);
            split(&n, row, words);
            for (size_t q = 0; q < query_count; q++)
                counts[q][i] = split_counts(&n, &split_queries[q], words);
        }
        for (size_t q = 0; q < query_count; q++)
            below[q][r / 64] |= (uint64_t)four_below(counts[q], limits[q]) << r % 64;
    }
}

TARGET INLINE void compare(const uint8_t *rows, size_t count, const uint8_t *queries, size_t query_count,
                           size_t words, const uint64_t *limits, row_bits *below)
{
    size_t bytes = 8 * words, fours = count / 4 * 4;
    if (query_count == 1)
        compare_one(rows, fours, queries, words, limits[0], below[0]);
    else
        compare_several(rows, fours, queries, query_count, words, limits, below);
    for (size_t r = fours; r < count; r++)
        for (size_t q = 0; q < query_count; q++)
            below[q][r / 64] |= (uint64_t)(distance(rows + r * bytes, queries + q * bytes, words) < limits[q]) << r % 64;
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

TARGET static uint64_t read(const uint8_t *bytes, size_t count) { return read_all(bytes, count); }

// Sixteen components at a time; a pair of products is at most 2 * 128 * 128.
TARGET INLINE int32_t dot(const int8_t *a, const int8_t *b, size_t dims)
{
    __m256i sums = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 16 <= dims; i += 16) {
        __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(a + i)));
        __m256i y = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(b + i)));
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(x, y));
    }
    int32_t lanes[8], sum = 0;
    _mm256_storeu_si256((__m256i *)lanes, sums);
    for (int j = 0; j < 8; j++)
        sum += lanes[j];
    for (; i < dims; i++)
        sum += a[i] * b[i];
    return sum;
}

TARGET static void dots(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                        const int8_t *query, int32_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = dot(row_at(values, dims, stride, rows, count, i), query, dims);
}

enum {
    STEP = 16,    // components that are multiplied at once
    PANEL = 1024, // components of eight widened queries that fit the first cache
};

// Widens a panel of the queries: step by step, and in each the queries in turn.
// Zeros follow the last component.
TARGET INLINE void widen(const int8_t *queries, size_t query_count, size_t dims, size_t panel, int16_t *wide)
{
    for (size_t i = 0; i < panel; i += STEP)
        for (size_t q = 0; q < query_count; q++)
            for (size_t j = 0; j < STEP; j++)
                *wide++ = i + j < panel ? queries[q * dims + i + j] : 0;
}

// Adds to the sums of the queries what 16 components of a row contribute. Left
// alone, compilers add products of several steps to one another first; they run
// out of registers, and everything takes half as long again.
TARGET INLINE void step(const size_t query_count, __m256i *sums, __m128i components, const int16_t *wide)
{
    __m256i x = _mm256_cvtepi8_epi16(components);
#pragma GCC unroll 8
    for (size_t q = 0; q < query_count; q++) {
        sums[q] = _mm256_add_epi32(sums[q], _mm256_madd_epi16(x, load(wide + q * STEP)));
        __asm__("" : "+x"(sums[q]));
    }
}

TARGET INLINE int32_t lane_sum(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

// Adds to out[q * count] what a panel of one row contributes to the dot product
// with query q, for as many queries as are known in advance.
TARGET INLINE void row_dots(const size_t query_count, const int8_t *row, size_t panel, const int16_t *wide, size_t count,
                            int32_t *out)
{
    __m256i sums[8];
    for (size_t q = 0; q < query_count; q++)
        sums[q] = _mm256_setzero_si256();
    size_t i = 0;
#pragma GCC unroll 4
    for (; i + STEP <= panel; i += STEP)
        step(query_count, sums, _mm_loadu_si128((const __m128i *)(row + i)), wide + i * query_count);
    if (i < panel) {
        int8_t last[STEP] = {0};
        __builtin_memcpy(last, row + i, panel - i);
        step(query_count, sums, _mm_loadu_si128((const __m128i *)last), wide + i * query_count);
    }
    for (size_t q = 0; q < query_count; q++)
        out[q * count] += lane_sum(sums[q]);
}

TARGET static void dots_together(const int8_t *values, size_t dims, size_t stride, size_t count, const int8_t *queries,
                                 size_t query_count, int32_t *out)
{
    int16_t wide[8 * PANEL] __attribute__((aligned(32)));
    __builtin_memset(out, 0, query_count * count * sizeof *out);
    for (size_t from = 0; from < dims; from += PANEL) {
        size_t panel = dims - from < PANEL ? dims - from : PANEL;
        widen(queries + from, query_count, dims, panel, wide);
        for (size_t i = 0; i < count; i++) {
            const int8_t *row = values + i * stride + from;
            prefetch_ahead(row, panel);
            FOR_QUERIES(query_count, row_dots, row, panel, wide, count, out + i)
        }
    }
}

TARGET static void norms(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                         int32_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const int8_t *row = row_at(values, dims, stride, rows, count, i);
        out[i] = dot(row, row, dims);
    }
}

const instruction_set kernel_avx2 = {choose, read, dots, dots_together, norms};
