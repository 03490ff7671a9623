// softmax_gradient_row.cuh: what the plain gradient, dx from y and dy alone, does to a row as softmax_rows.cuh deals it
// out: the dot product D of p and dy, then dx. Both are held as they lie in memory.
#pragma once

#include "cuda/exponential.cuh"
#include "ops/softmax/softmax_forward.cuh"

namespace sluice::softmax {

// D over some columns. 16 bytes, as clusters send them.
struct alignas(16) dot_part {
  double dot;
};

template <typename X, rows_are kind, int most_lines>
class gradient_row {
  static constexpr bool aligned = kind == rows_are::aligned;

 public:
  static constexpr int lines = most_lines, columns = cuda::line_columns<X>, sources = 2, most_chunks_held = 1;
  using part = dot_part;
  struct held {
    cuda::line y[lines], dy[lines];
  };

  static constexpr int blocks_for(int warps) {
    constexpr int warps_at_once = aligned && lines * columns <= 16 ? 32 : aligned && sizeof(X) == 2 ? 24 : 16;
    return warps_at_once / warps > 0 ? warps_at_once / warps : 1;
  }
  static __device__ bool fetches(const plan &p) {
    return aligned || (p.column[op_y] == 1 && p.column[op_dy] == 1);
  }

  __device__ gradient_row(const row_task &task, int64_t r)
      : p(task.p), at(task.p, task.data, r, aligned), y(at.template of<op_y>(), p.column[op_y]),
        dy(at.template of<op_dy>(), p.column[op_dy]) {}

  __device__ const auto &source(int k) const { return k == 0 ? y : dy; }
  // Of y where there is no column: p is 0.
  __device__ X filler(int k) const { return X(k == 0 && p.does.log ? -INFINITY : 0.0f); }
  __device__ void load(cuda::line (&from)[sources][lines], int64_t column, int step) const {
#pragma unroll
    for (int k = 0; k < sources; ++k)
      cuda::load_lines(from[k], source(k), column, step, 0, p.n, p.n, filler(k));
  }
  __device__ void hold(held &h, const cuda::line (&from)[sources][lines], int64_t, int) const {
#pragma unroll
    for (int k = 0; k < lines; ++k) h.y[k] = from[0][k], h.dy[k] = from[1][k];
  }

  // Columns whose p is 0 take no part, whatever their dy.
  __device__ dot_part reduce(const held &h, int used, cuda::team mine) const {
    double s = sum_by_fours<lines, columns>(used, [&](int k, float (&t)[columns]) {
#pragma unroll
      for (int i = 0; i < columns; ++i) {
        const float of_y = cuda::column_of<X>(h.y[k], i), of_dy = cuda::column_of<X>(h.dy[k], i);
        t[i] =
            p.does.log ? (of_y == -INFINITY ? 0.0f : of_dy) : (of_y == 0 ? 0.0f : cuda::times(of_y, of_dy));
      }
    });
    return {cuda::team_sum(s, mine)};
  }

  template <typename Parts>
  static __device__ dot_part fold(const Parts &parts, int chunks) {
    double s = 0;
#pragma unroll 1
    for (int c = threadIdx.x % 32; c < chunks; c += 32) s = cuda::plus(s, parts[c].dot);
    return {cuda::team_sum(s, cuda::whole_warp())};
  }
  static __device__ dot_part fold_by_block(const dot_part *parts, int64_t chunks) {
    __shared__ cuda::running_sum<float> sums[cuda::most_warps];
    cuda::running_sum<float> s = {};
    for (int64_t c = threadIdx.x; c < chunks; c += blockDim.x) s.add(parts[c].dot);
    return {cuda::block_sum(s, sums)};
  }
  // D - d_lse.
  __device__ dot_part finish(const dot_part &row) const {
    const char *d_lse = at.template of<op_d_lse>();
    return d_lse ? dot_part{cuda::minus(row.dot, double(cuda::load_as<float>(d_lse, p.dtype[op_d_lse])))}
                 : row;
  }

  __device__ void write(const held &h, const dot_part &, const dot_part &all, cuda::team mine, int64_t column,
                        int step, int64_t n) const {
    const float rest = float(all.dot), scale = float(p.does.scale);
    auto line_of_dx = [&](int k, float (&dx)[columns]) {
#pragma unroll
      for (int i = 0; i < columns; ++i) {
        const float of_y = cuda::column_of<X>(h.y[k], i), of_dy = cuda::column_of<X>(h.dy[k], i);
        const float g = p.does.log ? cuda::minus(of_dy, cuda::times(cuda::exponential(of_y), rest))
                                   : cuda::times(of_y, cuda::minus(of_dy, rest));
        const bool counts = p.does.log ? of_y != -INFINITY : of_y != 0;
        dx[i] = counts ? cuda::times(g, scale) : 0.0f;
      }
    };
    cuda::store_lines<lines, columns>(cuda::strip<X, aligned>(at.template of<op_dx>(), p.column[op_dx]), mine,
                                      column, step, n, line_of_dx);
  }
  __device__ void results(const dot_part &) const {}

 private:
  const plan &p;
  const places<op_y, op_dy, op_dx, op_d_lse> at;
  const cuda::strip<X, aligned> y, dy;
};

} // namespace sluice::softmax
