// reduce.cuh: sums and maxima, rung by rung: a thread, a warp, a block. The order of every addition follows
// from the number of threads alone, so the same values give the same bits in every run.
#pragma once

#include <cmath>

#include "cuda/rounded.cuh"

namespace sluice::cuda {

inline constexpr int warp_threads = 32;
inline constexpr int most_warps = 32; // of a block

// ---- a thread ---------------------------------------------------------------------------------------------

// Adds up terms of type C to more than C's precision: floats in double, doubles with their rounding errors
// beside.
template <typename C>
class running_sum {
 public:
  __device__ void add(double term) {
    double before = sum;
    sum = plus(sum, term);
    if constexpr (sizeof(C) == sizeof(double)) {
      double added = minus(sum, before);
      lost = plus(lost, plus(minus(before, minus(sum, added)), minus(term, added)));
    }
  }
  // An infinite sum has a NaN beside it, which says nothing.
  __device__ double total() const { return lost == lost ? plus(sum, lost) : sum; }

 private:
  double sum = 0, lost = 0;
};

// ---- a warp: every lane gets the result, and as + and max commute, the same bits of it --------------------

template <typename T>
__device__ T warp_sum(T v) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2)
    v = plus(v, __shfl_xor_sync(0xffffffffu, v, distance));
  return v;
}

// The largest; NaN are passed over.
template <typename T>
__device__ T warp_max(T v) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2)
    v = fmax(v, __shfl_xor_sync(0xffffffffu, v, distance));
  return v;
}

// ---- a block of whole warps along x: every thread gets the result -----------------------------------------

// One value a warp through `room`, which the next reduction may use at once.
template <typename T, typename F>
__device__ T over_warps(T of_my_warp, T neutral, T (&room)[most_warps], F &&of_warp) {
  int lane = threadIdx.x % warp_threads, warp = threadIdx.x / warp_threads, warps = blockDim.x / warp_threads;
  if (lane == 0) room[warp] = of_my_warp;
  __syncthreads();
  T v = of_warp(lane < warps ? room[lane] : neutral);
  __syncthreads();
  return v;
}

template <typename T>
__device__ T block_sum(T v, T (&room)[most_warps]) {
  return over_warps(warp_sum(v), T(0), room, [](T w) { return warp_sum(w); });
}

template <typename T>
__device__ T block_max(T v, T (&room)[most_warps]) {
  return over_warps(warp_max(v), T(-INFINITY), room, [](T w) { return warp_max(w); });
}

} // namespace sluice::cuda
