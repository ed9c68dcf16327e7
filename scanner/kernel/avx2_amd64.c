//go:build cgo

// AVX2: bits are counted four at a time by a table look-up (Muła), int8 rows are
// widened to sixteen bits and multiplied in pairs.
#include "sets_amd64.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,popcnt")))

TARGET INLINE __m256i load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

// Set bits of every byte.
TARGET INLINE __m256i byte_counts(__m256i v)
{
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
                                           0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15);
    __m256i a = _mm256_shuffle_epi8(table, _mm256_and_si256(v, low));
    __m256i b = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v, 4), low));
    return _mm256_add_epi8(a, b);
}

// The distance in four parts, one a lane. words is even; a byte counts at most
// 8 bits of each of six vectors, so it does not overflow.
TARGET INLINE __m256i lane_counts(const uint8_t *row, const uint8_t *query, size_t words)
{
    __m256i bytes = _mm256_setzero_si256();
    size_t w = 0;
    for (; w + 4 <= words; w += 4)
        bytes = _mm256_add_epi8(bytes, byte_counts(_mm256_xor_si256(load(row + 8 * w), load(query + 8 * w))));
    if (w < words) {
        __m128i half = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(row + 8 * w)),
                                     _mm_loadu_si128((const __m128i *)(query + 8 * w)));
        bytes = _mm256_add_epi8(bytes, byte_counts(_mm256_zextsi128_si256(half)));
    }
    return _mm256_sad_epu8(bytes, _mm256_setzero_si256());
}

TARGET INLINE uint16_t distance(const uint8_t *row, const uint8_t *query, size_t words)
{
    uint64_t lanes[4];
    _mm256_storeu_si256((__m256i *)lanes, lane_counts(row, query, words));
    return (uint16_t)(lanes[0] + lanes[1] + lanes[2] + lanes[3]);
}

// Bit r says whether row r of four is below the limit. The lanes of the rows are
// transposed while they are added.
TARGET INLINE unsigned four_below(const uint8_t *rows, const uint8_t *query, size_t words, uint64_t limit)
{
    __m256i a = lane_counts(rows, query, words), b = lane_counts(rows + 8 * words, query, words);
    __m256i c = lane_counts(rows + 16 * words, query, words), d = lane_counts(rows + 24 * words, query, words);
    __m256i ab = _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    __m256i cd = _mm256_add_epi64(_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
    __m256i sums = _mm256_add_epi64(_mm256_permute2x128_si256(ab, cd, 0x20), _mm256_permute2x128_si256(ab, cd, 0x31));
    __m256i less = _mm256_cmpgt_epi64(_mm256_set1_epi64x((long long)limit), sums);
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(less));
}

TARGET INLINE void compare(const uint8_t *rows, size_t count, const uint8_t *queries, size_t query_count,
                           size_t words, const uint64_t *limits, row_bits *below)
{
    size_t bytes = 8 * words, r = 0;
    for (; r + 4 <= count; r += 4) {
        const uint8_t *block = rows + r * bytes;
        for (size_t q = 0; q < query_count; q++) {
            prefetch_share(block, 4 * bytes, q, query_count);
            below[q][r / 64] |= (uint64_t)four_below(block, queries + q * bytes, words, limits[q]) << r % 64;
        }
    }
    for (; r < count; r++)
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

TARGET static void norms(const int8_t *values, size_t dims, size_t stride, const uint32_t *rows, size_t count,
                         int32_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const int8_t *row = row_at(values, dims, stride, rows, count, i);
        out[i] = dot(row, row, dims);
    }
}

const instruction_set kernel_avx2 = {choose, read, dots, norms};
