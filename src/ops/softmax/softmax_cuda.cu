// softmax_cuda.cu: softmax along rows. make_plan() chose; nothing is decided here but the number of threads.
#include <cmath>

#include "cuda/exponential.cuh"
#include "cuda/launch.cuh"
#include "cuda/reduce.cuh"
#include "ops/softmax/run.hpp"
#include "ops/softmax/softmax_logit.cuh"

namespace sluice::softmax {
namespace {

// ---- numerics ---------------------------------------------------------------------------------------------

// e^(v - m) as value * (1 + lost): where the plan is careful, `lost` is what rounding took from v - m, of
// which the exponential makes a relative error. Its square, below 2^-36, is left out. A value of 0 has
// nothing to correct, and its v - m may be infinite.
template <typename C>
struct power {
  C value, lost;

  __device__ power(C v, C m, bool careful) : lost(0) {
    C d = cuda::minus(v, m);
    value = cuda::exponential(d);
    if (careful && value != 0) lost = cuda::lost_in_difference(v, m, d);
  }
  __device__ double in_double() const { return cuda::fused(double(value), double(lost), double(value)); }
};

// m + ln(s), s >= 1. With s = 2^k f and ln2 in two parts, k times the first exact: where m nearly cancels
// ln(s), what is left keeps the digits that a rounded ln(s) would have lost.
__device__ inline double add_logarithm(double m, double s) {
  int k = (__double2hiint(s) >> 20) - 1023;
  double f = __hiloint2double(__double2hiint(s) - (k << 20), __double2loint(s));  // [1, 2)
  double high = cuda::plus(m, cuda::times(double(k), 0x1.62e42fefa38p-1));
  return cuda::plus(high, cuda::fused(double(k), 0x1.ef35793c7673p-45, log(f)));
}

// How a row's v become its y.
template <typename C>
struct row_total {
  C m;                     // what the exponentials are taken against
  C inverse, inverse_low;  // 1 / s in two parts, so that only the last product of y rounds
  C log_s;
  bool is_constant;        // y is `constant` in every column
  C constant;

  __device__ C y(C v, const effects &does) const {
    if (is_constant) return constant;
    if (does.log) return cuda::minus(cuda::minus(v, m), log_s);
    power<C> e(v, m, does.careful);
    return cuda::fused(e.value, inverse, cuda::times(e.value, cuda::fused(e.lost, inverse, inverse_low)));
  }
};

template <typename C>
__device__ C of_empty_row(const effects &does, int64_t n) {
  if (does.empty_row == SLUICE_EMPTY_ROW_NAN) return NAN;
  if (does.empty_row == SLUICE_EMPTY_ROW_ZERO) return does.log ? C(-INFINITY) : C(0);
  return C(does.log ? -log(double(n)) : 1.0 / double(n));
}

// m: the largest v or sink. A NaN, which no maximum shows, and a +inf, of which inf - inf makes one, are
// known by s, which is then NaN.
template <typename C>
__device__ row_total<C> total_of(C m, double s, const row_logits<C> &row, const effects &does, int64_t n) {
  row_total<C> t = {};
  C lse = NAN, max = NAN;
  if (s != s) {
    t.is_constant = true;
    t.constant = NAN;
  } else if (m == -INFINITY) {
    t.is_constant = true;
    t.constant = of_empty_row<C>(does, n);
    lse = max = -INFINITY;
  } else {
    double inverse = cuda::over(1.0, s);
    t.m = max = m;
    t.inverse = C(inverse);
    t.inverse_low = sizeof(C) == 4 ? C(cuda::minus(inverse, double(t.inverse)))
                                   : C(cuda::times(cuda::fused(-s, inverse, 1.0), inverse));
    t.log_s = C(log(s));
    lse = C(add_logarithm(double(m), s));
  }
  if (row.has(op_lse)) row.template put<op_lse>(lse);
  if (row.has(op_max)) row.template put<op_max>(max);
  return t;
}

// ---- block_per_row: the plainest variant, three sweeps over the row ---------------------------------------

template <typename C>
__global__ void __launch_bounds__(row_threads_limit, row_blocks_at_once)
    block_per_row(const __grid_constant__ plan p, const __grid_constant__ addresses data) {
  __shared__ int64_t offset[operands];
  __shared__ C maxima[cuda::most_warps];
  __shared__ cuda::running_sum<C> sums[cuda::most_warps];
  __shared__ row_total<C> total;

  for (int64_t r = blockIdx.x; r < p.space.rows; r += gridDim.x) {
    locate_row(p, r, offset);
    row_logits<C> v(p, data, offset);
    auto [first, last] = v.columns();

    C m = -INFINITY;
    for (int64_t j = first + threadIdx.x; j < last; j += blockDim.x) m = fmax(m, v(j));
    m = cuda::block_max(m, maxima);
    C sink = v.has(op_sink) ? v.template at<op_sink>() : C(-INFINITY);
    m = fmax(m, sink);

    C base = m == -INFINITY ? C(0) : m;  // nothing but -inf: -inf - -inf would be NaN
    cuda::running_sum<C> mine = {};
    for (int64_t j = first + threadIdx.x; j < last; j += blockDim.x)
      mine.add(power<C>(v(j), base, p.does.careful).in_double());
    if (threadIdx.x == 0) mine.add(power<C>(sink, base, p.does.careful).in_double());
    double s = cuda::block_sum(mine, sums);

    if (threadIdx.x == 0) total = total_of<C>(m, s, v, p.does, p.n);
    __syncthreads();
    if (v.has(op_y))
      for (int64_t j = threadIdx.x; j < p.n; j += blockDim.x) v.template put<op_y>(total.y(v(j), p.does), j);
  }
}

}  // namespace

result<void> run_cuda(const plan &p, const scratch &, const addresses &data, sluice_stream stream) {
  auto kernel = p.wide ? block_per_row<double> : block_per_row<float>;
  return cuda::launch(kernel, row_blocks(p.space.rows), row_threads(p.n), stream, p, data);
}

result<void> warm_cuda(const sluice_context &) {
  return first_failure([] { return cuda::warm(block_per_row<float>); },
                       [] { return cuda::warm(block_per_row<double>); });
}

}  // namespace sluice::softmax
