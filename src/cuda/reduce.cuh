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
// beside them (Knuth's two-sum). Starts as {}.
template <typename C>
struct running_sum {
  double sum, lost;
  static constexpr bool keeps_lost = sizeof(C) == sizeof(double);

  __device__ void add(double term) {
    double before = sum;
    sum = plus(sum, term);
    if constexpr (keeps_lost) {
      double added = minus(sum, before);
      lost = plus(lost, plus(minus(before, minus(sum, added)), minus(term, added)));
    }
  }
  // The same bits as other.add(*this) would give: sums commute, and the error of one is exact either way.
  __device__ void add(const running_sum &other) {
    if constexpr (keeps_lost) lost = plus(lost, other.lost);
    add(other.sum);
  }
  // An infinite sum has a NaN beside it, which says nothing.
  __device__ double total() const { return keeps_lost && lost == lost ? plus(sum, lost) : sum; }
};

// ---- a warp: every lane gets the result, and the same bits of it ------------------------------------------

template <typename C>
__device__ running_sum<C> warp_sum(running_sum<C> v) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    running_sum<C> other = {};
    other.sum = __shfl_xor_sync(0xffffffffu, v.sum, distance);
    if constexpr (v.keeps_lost) other.lost = __shfl_xor_sync(0xffffffffu, v.lost, distance);
    v.add(other);
  }
  return v;
}

// The largest; NaN are passed over.
template <typename T>
__device__ T warp_max(T v) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2)
    v = fmax(v, __shfl_xor_sync(0xffffffffu, v, distance));
  return v;
}

// ---- a team: the lanes of a warp that share a row -----------------------------------------------------------

// An aligned power of two of its lanes. All of the warp takes part in what its teams do.
struct team {
  int lane, lanes;
};
__device__ inline team whole_warp() { return {int(threadIdx.x % warp_threads), warp_threads}; }

__device__ inline double team_sum(double v, team of) {
#pragma unroll
  for (int distance = warp_threads / 2; distance > 0; distance /= 2)
    if (distance < of.lanes) v = plus(v, __shfl_xor_sync(0xffffffffu, v, distance));
  return v;
}

// NaN are passed over.
__device__ inline float team_max(float v, team of) {
#pragma unroll
  for (int distance = warp_threads / 2; distance > 0; distance /= 2)
    if (distance < of.lanes) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, distance));
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

template <typename C>
__device__ double block_sum(const running_sum<C> &mine, running_sum<C> (&room)[most_warps]) {
  return over_warps(warp_sum(mine), {}, room, [](running_sum<C> v) { return warp_sum(v); }).total();
}

template <typename T>
__device__ T block_max(T mine, T (&room)[most_warps]) {
  return over_warps(warp_max(mine), T(-INFINITY), room, [](T v) { return warp_max(v); });
}

} // namespace sluice::cuda
