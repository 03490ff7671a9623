// exponential.cuh: e^x over the whole range, subnormal results included. Within 1 ulp; NaN stays NaN.
#pragma once

#include "cuda/rounded.cuh"

namespace sluice::cuda {

// CUDA's own expf rests on the hardware's 2^x, whose error differs between devices and can only be checked on
// them. Here x = q ln2 + r, |r| <= ln2 / 2, with ln2 in two parts, the first short enough that q times it is
// exact; then a minimax polynomial with a relative error of 2^-28.2, the one of cpu/simd-inl.hpp. Over every
// 7th float the worst error is 0.88 ulp.
__device__ inline float exponential(float x) {
  x = x < -104.0f ? -104.0f : x;  // rounds to 0
  x = x > 89.0f ? 89.0f : x;  // rounds to infinity
  constexpr float magic = 0x1.8p23f;  // adding it rounds to an integer, which its low bits then hold
  float shifted = fused(x, 0x1.715476p+0f, magic);
  float q = minus(shifted, magic);
  float r = fused(q, -0x1.62e4p-1f, x);
  r = fused(q, -0x1.7f7d1cp-20f, r);
  float p = fused(0x1.6a4ce4p-10f, r, 0x1.123988p-7f);
  p = fused(p, r, 0x1.5558bp-5f);
  p = fused(p, r, 0x1.555492p-3f);
  p = fused(p, r, 0x1.fffffcp-2f);
  p = fused(p, r, 1.0f);
  p = fused(p, r, 1.0f);
  // 2^q in two factors, since q alone may leave the exponent's range: only the last product can round.
  int whole = __float_as_int(shifted) - __float_as_int(magic), half = whole >> 1;
  return times(times(p, __int_as_float((half + 127) << 23)), __int_as_float((whole - half + 127) << 23));
}
__device__ inline double exponential(double x) { return exp(x); }

}  // namespace sluice::cuda
