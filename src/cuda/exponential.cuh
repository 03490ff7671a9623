// exponential.cuh: e^x over the whole range, subnormal results included; NaN stays NaN.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/rounded.cuh"

namespace sluice::cuda {

// ---- single precision -------------------------------------------------------------------------------------

// CUDA's own expf rests on the hardware's 2^x, whose error differs between devices and can only be checked on
// them. Here x = q ln2 + r, |r| <= ln2 / 2, with ln2 in two parts, the first short enough that q times it is
// exact; then a minimax polynomial with a relative error of 2^-28.2, the one of cpu/simd-inl.hpp. Over every
// 7th float the worst error is 0.88 ulp.
struct reduced {
  float power;    // e^r
  int32_t whole;  // q + bias in the low 9 bits
};
template <int bias>
__device__ inline reduced reduce_exponent(float x) {
  constexpr float magic = 0x1.8p23f + bias;  // adding it rounds to an integer, which its low bits then hold
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
  return {p, __float_as_int(shifted)};
}

// Within 1 ulp.
__device__ inline float exponential(float x) {
  x = x < -104.0f ? -104.0f : x;  // rounds to 0
  x = x > 89.0f ? 89.0f : x;      // rounds to infinity
  auto [p, shifted] = reduce_exponent<0>(x);
  // 2^q in two factors, since q alone may leave the exponent's range: only the last product can round.
  int whole = shifted - __float_as_int(0x1.8p23f), half = whole >> 1;
  return times(times(p, __int_as_float((half + 127) << 23)), __int_as_float((whole - half + 127) << 23));
}
__device__ inline double exponential(double x) { return exp(x); }

// ---- e^(v - m) 2^32, v <= m or v NaN: the factor keeps what is subnormal, and rounds once, in normal numbers ----

inline constexpr int power_bias = 32;

// With what rounding took from v - m, of which the exponential makes a relative error. Within 1.4 ulp.
__device__ inline float careful_power(float v, float m) {
  float d = minus(v, m);
  auto [p, shifted] = reduce_exponent<power_bias>(d);
  float e = __int_as_float(__float_as_int(p) + (shifted << 23));
  e = fused(e, lost_in_difference(v, m, d), e);
  return d < -104.0f ? 0.0f : e;  // where d is infinite, what was lost is NaN
}

// By the hardware's 2^x, whose relative error is below 2^-22; that of the argument adds |d| 2^-24 and 2^-20. For
// results that are rounded to 16 bits.
__device__ inline float quick_power(float v, float m) {
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(fused(minus(v, m), 0x1.715476p+0f, float(power_bias))));
  return e;
}

// ---- double precision, x <= 0, for factors between pieces of a row ----------------------------------------------

// Within 2^-40; below -700, as for NaN, e^-700. 1 at 0.
__device__ inline double weight(double x) {
  x = fmax(x, -700.0);
  constexpr double magic = 0x1.8p52;
  double shifted = fused(x, 0x1.71547652b82fep+0, magic);
  double q = minus(shifted, magic);
  double r = fused(q, -0x1.62e42fefa39efp-1, x);
  constexpr double taylor[] = {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                               1.0 / 120,     1.0 / 24,     1.0 / 6,     0.5,        1.0};
  double p = taylor[0];
#pragma unroll
  for (int i = 1; i < 10; ++i) p = fused(p, r, taylor[i]);
  p = fused(p, r, 1.0);
  return __hiloint2double(__double2hiint(p) + (__double2loint(shifted) << 20), __double2loint(p));
}

// 1 / x within 2^-40, for x that a float can hold.
__device__ inline double inverse(double x) {
  float near;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(float(x)));
  double r = near;
  r = fused(r, fused(-x, r, 1.0), r);
  return r;
}

// ln(x) within 2^-38 of max(1, ln(x)), for x >= 1 that a float can hold. x = 2^k f; one step of Newton's method on
// e^y = f from the hardware's log2.
__device__ inline double logarithm(double x) {
  const int k = (__double2hiint(x) >> 20) - 1023;
  const double f = __hiloint2double(__double2hiint(x) - (k << 20), __double2loint(x));  // [1, 2)
  const double y = __log2f(float(f)) * 0.693147180559945309;
  const double off = minus(times(f, weight(-y)), 1.0);  // below 2^-20
  const double step = fused(times(off, off), -0.5, off);
  return fused(double(k), 0x1.62e42fefa39efp-1, plus(y, step));
}

}  // namespace sluice::cuda
