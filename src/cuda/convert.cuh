// convert.cuh: elements of a dtype known at run time, read into and written from the type that a kernel
// computes in. The switch is the same for every thread of a launch, so it costs a branch and no divergence.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "core/dtype.hpp"

namespace sluice::cuda {

// Address of the element `index` places after `base`.
__device__ inline const char *element(const void *base, int64_t index, sluice_dtype type) {
  return static_cast<const char *>(base) + index * (type.bits / 8);
}
__device__ inline char *element(void *base, int64_t index, sluice_dtype type) {
  return static_cast<char *>(base) + index * (type.bits / 8);
}

// A float of any dtype. Exact, as no operand is wider than the compute type.
template <typename C>
__device__ C load_as(const void *from, sluice_dtype type) {
  if (type.bits == 32) return C(*static_cast<const float *>(from));
  if (type.bits == 64) return C(*static_cast<const double *>(from));
  uint16_t bits = *static_cast<const uint16_t *>(from);
  return C(type.code == kind_bfloat ? __bfloat162float(__ushort_as_bfloat16(bits))
                                    : __half2float(__ushort_as_half(bits)));
}

__device__ inline uint16_t half_bits(float v) { return __half_as_ushort(__float2half_rn(v)); }
__device__ inline uint16_t half_bits(double v) { return __half_as_ushort(__double2half(v)); }
__device__ inline uint16_t bfloat_bits(float v) { return __bfloat16_as_ushort(__float2bfloat16_rn(v)); }
__device__ inline uint16_t bfloat_bits(double v) { return __bfloat16_as_ushort(__double2bfloat16(v)); }

// Rounded once, to nearest even.
template <typename C>
__device__ void store_as(void *to, sluice_dtype type, C value) {
  if (type.bits == 32)
    *static_cast<float *>(to) = float(value);
  else if (type.bits == 64)
    *static_cast<double *>(to) = double(value);
  else
    *static_cast<uint16_t *>(to) = type.code == kind_bfloat ? bfloat_bits(value) : half_bits(value);
}

// int32 or int64.
__device__ inline int64_t load_index(const void *from, sluice_dtype type) {
  return type.bits == 32 ? *static_cast<const int32_t *>(from) : *static_cast<const int64_t *>(from);
}

} // namespace sluice::cuda
