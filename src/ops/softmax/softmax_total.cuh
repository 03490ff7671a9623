// softmax_total.cuh: what a row comes to, and how the pieces of one add up to it, on the device.
#pragma once

#include <cmath>

#include "cuda/exponential.cuh"
#include "cuda/reduce.cuh"
#include "ops/softmax/softmax.hpp"

namespace sluice::softmax {

// What y holds in all columns of a row that has nothing to distribute over.
__device__ inline float of_empty_row(const effects &does, int64_t n) {
  if (does.empty_row == SLUICE_EMPTY_ROW_NAN) return NAN;
  if (does.empty_row == SLUICE_EMPTY_ROW_ZERO) return does.log ? -INFINITY : 0.0f;
  return float(does.log ? -cuda::logarithm(double(n)) : cuda::inverse(double(n)));
}

// ---- pairs: the order in which they add up follows from the row's length alone -----------------------------

inline constexpr pair no_pair = {-INFINITY, 0.0};

// s of a pair as a part of a sum against m. A NaN in s stays; against -inf, all is 0.
__device__ inline double part(const pair &of, double m) {
  return cuda::times(of.s, cuda::weight(cuda::minus(of.m, m == -INFINITY ? 0.0 : m)));
}

// All of a row's chunks, by a whole warp: lane l adds chunks l, l + 32, ..., then lanes fold.
template <typename Pairs>
__device__ pair fold_pairs(const Pairs &pairs, int chunks) {
  const int lane = threadIdx.x % cuda::warp_threads;
  float m = -INFINITY;
#pragma unroll 1
  for (int c = lane; c < chunks; c += cuda::warp_threads) m = fmaxf(m, float(pairs[c].m));
  m = cuda::warp_max(m);
  double s = 0;
#pragma unroll 1
  for (int c = lane; c < chunks; c += cuda::warp_threads) s = cuda::plus(s, part(pairs[c], m));
  return {m, cuda::team_sum(s, cuda::whole_warp())};
}

// More than a warp should fold: thread t of the block adds chunks t, t + blockDim.x, ..., then threads fold.
__device__ inline pair fold_pairs_by_block(const pair *pairs, int64_t chunks) {
  __shared__ float maxima[cuda::most_warps];
  __shared__ cuda::running_sum<float> sums[cuda::most_warps];
  float m = -INFINITY;
  for (int64_t c = threadIdx.x; c < chunks; c += blockDim.x) m = fmaxf(m, float(pairs[c].m));
  m = cuda::block_max(m, maxima);
  cuda::running_sum<float> s = {};
  for (int64_t c = threadIdx.x; c < chunks; c += blockDim.x) s.add(part(pairs[c], m));
  return {m, cuda::block_sum(s, sums)};
}

// The column that only the denominator sees.
__device__ inline pair with_sink(const pair &row, float sink) {
  if (sink == -INFINITY) return row;
  double m = fmax(row.m, double(sink));
  pair last = {sink, sink < INFINITY ? 1.0 : double(NAN)};
  return {m, cuda::plus(part(row, m), part(last, m))};
}

// ---- the row ----------------------------------------------------------------------------------------------

// A NaN, which no maximum shows, and a +inf, of which inf - inf makes one, are known by s, which is then NaN.
struct row_total {
  double m, inverse;  // 1 / s
  float log_s;        // of log alone
  bool is_constant;   // y is `constant` in every column
  float constant;

  __device__ row_total(const pair &row, const effects &does, int64_t n) : m(row.m) {
    is_constant = row.s != row.s || row.m == -INFINITY;
    constant = row.s != row.s ? NAN : of_empty_row(does, n);
    inverse = cuda::inverse(row.s);
    log_s = does.log ? float(cuda::logarithm(row.s)) : 0.0f;
  }
  // What turns the exponentials of a chunk, taken against its own maximum, into probabilities; and where the chunk's
  // maximum is the row's.
  __device__ float factor(float m_of_chunk) const {
    return float(cuda::times(cuda::weight(cuda::minus(double(m_of_chunk), m)), inverse));
  }
  __device__ float factor() const { return float(inverse); }
};

__device__ inline float lse_of(const pair &row) {
  if (row.s != row.s) return NAN;
  return row.m == -INFINITY ? -INFINITY : float(cuda::plus(row.m, cuda::logarithm(row.s)));
}
__device__ inline float max_of(const pair &row) { return row.s != row.s ? NAN : float(row.m); }

}  // namespace sluice::softmax
