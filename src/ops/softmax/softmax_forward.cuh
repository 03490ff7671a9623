// softmax_forward.cuh: what softmax does to a row, as softmax_rows.cuh deals it out: the maximum of a team's columns,
// their exponentials against it and the sum of these, and the probabilities that come of them. A lane's columns, and
// the order in which they add up, follow from the row's length and x's dtype alone.
#pragma once

#include "cuda/exponential.cuh"
#include "cuda/lines.cuh"
#include "cuda/reduce.cuh"
#include "ops/softmax/softmax_row.cuh"
#include "ops/softmax/softmax_total.cuh"

namespace sluice::softmax {

// Sum over the columns of the first `used` lines, f(k, terms) giving those of line k: four at a time in single
// precision, those in double. The branch keeps the compiler from working on all lines at once, for which registers do
// not suffice.
template <int lines, int columns, typename F>
__device__ double sum_by_fours(int used, F &&f) {
  double s = 0;
#pragma unroll
  for (int k = 0; k < lines; ++k) {
    if (k >= used) break;
    float t[columns];
    f(k, t);
#pragma unroll
    for (int i = 0; i < columns; i += 4)
      s = cuda::plus(s, double(cuda::plus(cuda::plus(t[i], t[i + 1]), cuda::plus(t[i + 2], t[i + 3]))));
  }
  return s;
}

template <typename X, rows_are kind, int most_lines>
class forward_row {
  using x_row = row_of_x<X, kind>;

 public:
  static constexpr int lines = most_lines, columns = x_row::columns, sources = 1;
  static constexpr int most_chunks_held = kind == rows_are::aligned ? most_held : 1;
  using part = pair;
  struct held {
    float v[lines * columns]; // after reduce(), where the row has no log, e^(v - m) 2^power_bias
  };

  // Blocks that a multiprocessor must have registers for: with fewer each, the kernel would spill.
  static constexpr int blocks_for(int warps) {
    constexpr int warps_at_once = kind == rows_are::shaped  ? 16
                                  : kind == rows_are::plain ? 20
                                  : lines * columns <= 16   ? 32
                                                            : 24;
    return warps_at_once / warps > 0 ? warps_at_once / warps : 1;
  }
  static __device__ bool fetches(const plan &p) {
    return kind != rows_are::shaped && (x_row::aligned || p.column[op_x] == 1);
  }

  __device__ forward_row(const row_task &task, int64_t r)
      : p(task.p), at(task.p, task.data, r, x_row::aligned), x(task.p, at) {}

  __device__ const auto &source(int) const { return x.x; }
  __device__ X filler(int) const { return row_of_x<X, rows_are::plain>::beyond(float(p.does.scale)); }
  __device__ void load(cuda::line (&from)[sources][lines], int64_t column, int step) const {
    x.load(from[0], column, step);
  }
  __device__ void hold(held &h, const cuda::line (&from)[sources][lines], int64_t column, int step) const {
    x.values(h.v, from[0], column, step);
  }

  __device__ pair reduce(held &h, int used, cuda::team mine) const {
    float most = -INFINITY;
#pragma unroll
    for (float each : h.v) most = fmaxf(most, each);
    // Adding 0 makes -0 and +0, which a maximum may confuse, the same.
    const float m = cuda::plus(cuda::team_max(most, mine), 0.0f);
    const float base = m == -INFINITY ? 0.0f : m; // nothing but -inf: -inf - -inf would be NaN
    auto sum = [&](auto &&power) {
      return sum_by_fours<lines, columns>(used, [&](int k, float (&e)[columns]) {
        values(h, k, e);
#pragma unroll
        for (float &each : e) each = power(each, base);
        if (p.does.log) return;
#pragma unroll
        for (int i = 0; i < columns; ++i) h.v[k * columns + i] = e[i];
      });
    };
    double s = p.does.careful ? sum(cuda::careful_power) : sum(cuda::quick_power);
    return {m, cuda::times(cuda::team_sum(s, mine), unbiased)};
  }

  template <typename Parts>
  static __device__ pair fold(const Parts &parts, int chunks) {
    return fold_pairs(parts, chunks);
  }
  static __device__ pair fold_by_block(const pair *parts, int64_t chunks) {
    return fold_pairs_by_block(parts, chunks);
  }
  __device__ pair finish(const pair &row) const { return with_sink(row, x.sink()); }

  __device__ void write(const held &h, const pair &own, const pair &all, cuda::team mine, int64_t column,
                        int step, int64_t n) const {
    char *const y = at.template of<op_y>();
    if (!y) return;
    const row_total row(all, p.does, p.n);
    float factor = own.m == all.m ? row.factor() : row.factor(float(own.m));
    const bool is_small = factor < 0x1p-90f; // it would not stay normal
    if (!is_small) factor = cuda::times(factor, float(unbiased));

    auto line_of_y = [&](int k, float (&v)[columns]) {
      if (row.is_constant) {
#pragma unroll
        for (float &each : v) each = row.constant;
        return;
      }
      values(h, k, v);
      if (p.does.log) {
#pragma unroll
        for (float &each : v) each = cuda::minus(cuda::minus(each, float(row.m)), row.log_s);
        return;
      }
      if (is_small)
#pragma unroll
        for (float &each : v) each = cuda::times(each, float(unbiased));
#pragma unroll
      for (float &each : v) each = cuda::times(each, factor);
    };
    auto put = [&]<typename Y>() {
      cuda::store_lines<lines, columns>(cuda::strip<Y, x_row::aligned>(y, p.column[op_y]), mine, column, step,
                                        n, line_of_y);
    };
    const sluice_dtype type = p.dtype[op_y];
    if (x_row::aligned || same(type, storage_dtype<X>)) return put.template operator()<X>();
    if (type.bits == 32)
      put.template operator()<float>();
    else if (type.code == kind_bfloat)
      put.template operator()<__nv_bfloat16>();
    else
      put.template operator()<__half>();
  }

  __device__ void results(const pair &row) const {
    if (char *lse = at.template of<op_lse>()) cuda::store_as(lse, p.dtype[op_lse], lse_of(row));
    if (char *max = at.template of<op_max>()) cuda::store_as(max, p.dtype[op_max], max_of(row));
  }

 private:
  static constexpr double unbiased = 1.0 / (int64_t(1) << cuda::power_bias);

  static __device__ void values(const held &h, int k, float (&v)[columns]) {
#pragma unroll
    for (int i = 0; i < columns; ++i) v[i] = h.v[k * columns + i];
  }

  const plan &p;
  const typename x_row::place at;
  const x_row x;
};

} // namespace sluice::softmax
