// The instruction sets of x86, and what they take from one another.
#ifndef RECALLD_KERNEL_SETS_AMD64_H
#define RECALLD_KERNEL_SETS_AMD64_H

#include "filter.h"

extern const instruction_set kernel_popcnt, kernel_avx2, kernel_avx512;

// Comparisons by popcnt. The wider sets use it for widths that they have no code
// for: every processor that has them has popcnt.
below_fn *kernel_popcnt_below(size_t words);

#endif
