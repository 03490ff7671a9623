// rounded.cuh: arithmetic that rounds after each operation. The compiler may fuse a plain a * b + c into one
// rounding, differently from one version to the next; these it may not.
#pragma once

namespace sluice::cuda {

__device__ inline float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double plus(double a, double b) { return __dadd_rn(a, b); }
__device__ inline float minus(float a, float b) { return __fsub_rn(a, b); }
__device__ inline double minus(double a, double b) { return __dsub_rn(a, b); }
__device__ inline float times(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double times(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float over(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline double over(double a, double b) { return __ddiv_rn(a, b); }

// a * b + c with one rounding, where that is what is meant.
__device__ inline float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline double fused(double a, double b, double c) { return __fma_rn(a, b, c); }

// What a - b = d lost by rounding: a - b = d + lost exactly (Knuth's two-sum). NaN where d is infinite.
template <typename C>
__device__ C lost_in_difference(C a, C b, C d) {
  C back = minus(d, a);
  return minus(minus(a, minus(d, back)), plus(b, back));
}

} // namespace sluice::cuda
