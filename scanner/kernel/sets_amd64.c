//go:build cgo

#include "sets_amd64.h"

// What __builtin_cpu_supports says includes that the system saves the registers.
const instruction_set *kernel_set(int path)
{
    int popcnt = __builtin_cpu_supports("popcnt");
    switch (path) {
    case PATH_POPCNT:
        return popcnt ? &kernel_popcnt : NULL;
    case PATH_AVX2:
        return popcnt && __builtin_cpu_supports("avx2") ? &kernel_avx2 : NULL;
    case PATH_AVX512:
        return popcnt && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vpopcntdq") &&
                       __builtin_cpu_supports("avx512vnni")
                   ? &kernel_avx512
                   : NULL;
    }
    return NULL;
}
