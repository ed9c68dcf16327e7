// The instruction sets of x86, and what they take from one another.
#ifndef RECALLD_KERNEL_SETS_AMD64_H
#define RECALLD_KERNEL_SETS_AMD64_H

#include "filter.h"

#include <emmintrin.h>

extern const instruction_set kernel_popcnt, kernel_avx2, kernel_avx512;

// Distances by popcnt; never NULL. The wider sets use it for widths that they
// have no code for: every processor that has them has popcnt.
distances_fn *kernel_popcnt_distances(size_t words);

// The body of a below_fn for processors without AVX-512.
INLINE uint64_t below_sixteen_at_a_time(const uint16_t *distances, uint32_t limit)
{
    __m128i bound = _mm_set1_epi16((short)limit);
    uint64_t bits = 0;
    for (int i = 0; i < 64; i += 16) {
        __m128i low = _mm_cmplt_epi16(_mm_loadu_si128((const __m128i *)(distances + i)), bound);
        __m128i high = _mm_cmplt_epi16(_mm_loadu_si128((const __m128i *)(distances + i + 8)), bound);
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high)) << i;
    }
    return bits;
}

#endif
