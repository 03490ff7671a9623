// targets.hpp: which instruction sets SIMD files are compiled for. Included before anything of Highway's.
#pragma once

// SSE4, AVX2 and AVX-512 on x86, beside what every machine has; more would double the code for a few per
// cent.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR)
#include <hwy/detect_targets.h>

// Highway before 1.0.5 does not know these.
#ifndef HWY_AVX3_ZEN4
#define HWY_AVX3_ZEN4 0
#endif
#ifndef HWY_AVX3_SPR
#define HWY_AVX3_SPR 0
#endif
