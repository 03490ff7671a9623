// softmax_wide.cuh: softmax in double: a block a row, in three sweeps, any dtypes.
#pragma once

#include <cmath>

#include "cuda/exponential.cuh"
#include "cuda/reduce.cuh"
#include "ops/softmax/softmax_logit.cuh"

namespace sluice::softmax {

// m + ln(s), s >= 1. With s = 2^k f and ln2 in two parts, k times the first exact: where m nearly cancels
// ln(s), what is left keeps the digits that a rounded ln(s) would have lost.
__device__ inline double add_logarithm(double m, double s) {
  int k = (__double2hiint(s) >> 20) - 1023;
  double f = __hiloint2double(__double2hiint(s) - (k << 20), __double2loint(s));  // [1, 2)
  double high = cuda::plus(m, cuda::times(double(k), 0x1.62e42fefa38p-1));
  return cuda::plus(high, cuda::fused(double(k), 0x1.ef35793c7673p-45, log(f)));
}

__device__ inline double of_empty_wide_row(const effects &does, int64_t n) {
  if (does.empty_row == SLUICE_EMPTY_ROW_NAN) return NAN;
  if (does.empty_row == SLUICE_EMPTY_ROW_ZERO) return does.log ? -INFINITY : 0.0;
  return does.log ? -log(double(n)) : 1.0 / double(n);
}

// How a row's v become its y.
struct wide_total {
  double m;                     // what the exponentials are taken against
  double inverse, inverse_low;  // 1 / s in two parts, so that only the last product of y rounds
  double log_s;
  bool is_constant;  // y is `constant` in every column
  double constant;

  __device__ double y(double v, const effects &does) const {
    if (is_constant) return constant;
    if (does.log) return cuda::minus(cuda::minus(v, m), log_s);
    double e = cuda::exponential(cuda::minus(v, m));
    return cuda::fused(e, inverse, cuda::times(e, inverse_low));
  }
};

// m: the largest v or sink. A NaN, which no maximum shows, and a +inf, of which inf - inf makes one, are
// known by s, which is then NaN.
__device__ inline wide_total total_of(double m, double s, const row_logits<double> &row, const effects &does,
                                      int64_t n) {
  wide_total t = {};
  double lse = NAN, max = NAN;
  if (s != s) {
    t.is_constant = true;
    t.constant = NAN;
  } else if (m == -INFINITY) {
    t.is_constant = true;
    t.constant = of_empty_wide_row(does, n);
    lse = max = -INFINITY;
  } else {
    t.m = max = m;
    t.inverse = cuda::over(1.0, s);
    t.inverse_low = cuda::times(cuda::fused(-s, t.inverse, 1.0), t.inverse);
    t.log_s = log(s);
    lse = add_logarithm(m, s);
  }
  if (row.has(op_lse)) row.put<op_lse>(lse);
  if (row.has(op_max)) row.put<op_max>(max);
  return t;
}

__global__ void __launch_bounds__(row_threads_limit, row_blocks_at_once)
    block_per_wide_row(const __grid_constant__ plan p, const __grid_constant__ addresses data) {
  __shared__ int64_t offset[operands];
  __shared__ double maxima[cuda::most_warps];
  __shared__ cuda::running_sum<double> sums[cuda::most_warps];
  __shared__ wide_total total;

  for (int64_t r = blockIdx.x; r < p.space.rows; r += gridDim.x) {
    locate_row(p, r, offset);
    row_logits<double> v(p, data, offset);
    auto [first, last] = v.columns();

    double m = -INFINITY;
    for (int64_t j = first + threadIdx.x; j < last; j += blockDim.x) m = fmax(m, v(j));
    m = cuda::block_max(m, maxima);
    double sink = v.has(op_sink) ? v.at<op_sink>() : -INFINITY;
    m = fmax(m, sink);

    double base = m == -INFINITY ? 0 : m;  // nothing but -inf: -inf - -inf would be NaN
    cuda::running_sum<double> mine = {};
    for (int64_t j = first + threadIdx.x; j < last; j += blockDim.x)
      mine.add(cuda::exponential(cuda::minus(v(j), base)));
    if (threadIdx.x == 0) mine.add(cuda::exponential(cuda::minus(sink, base)));
    double s = cuda::block_sum(mine, sums);

    if (threadIdx.x == 0) total = total_of(m, s, v, p.does, p.n);
    __syncthreads();
    if (v.has(op_y))
      for (int64_t j = threadIdx.x; j < p.n; j += blockDim.x) v.put<op_y>(total.y(v(j), p.does), j);
  }
}

}  // namespace sluice::softmax
