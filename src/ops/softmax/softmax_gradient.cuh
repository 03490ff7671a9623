// softmax_gradient.cuh: g, the gradient of the final v, in one row; what all kernels of the backward direction read.
#pragma once

#include <cmath>

#include "cuda/exponential.cuh"
#include "ops/softmax/softmax_logit.cuh"

namespace sluice::softmax {

// What a column brings to the row. One that counts for nothing has a gradient of 0, and its dy was not read.
template <typename C>
struct gradient_column {
  bool counts;
  C v;   // only from x
  C p, dy;
};

template <typename C>
class row_gradients {
 public:
  __device__ row_gradients(const plan &p, const addresses &data, bool from_y, int64_t row)
      : logits(p, data, row), does(p.does), from_y(from_y) {
    if (logits.has(op_lse)) lse = logits.template at<op_lse>();
    if (logits.has(op_d_lse)) d_lse = logits.template at<op_d_lse>();
  }

  // An empty row has one gradient in all its columns.
  __device__ bool is_empty() const { return lse == -INFINITY; }
  __device__ C of_empty() const { return does.empty_row == SLUICE_EMPTY_ROW_NAN ? C(NAN) : C(0); }

  // Not for empty rows.
  __device__ gradient_column<C> column(int64_t j) const {
    gradient_column<C> c = {};
    if (from_y) {
      if (!logits.counts(j)) return c;
      C y = logits.template at<op_y>(j);
      if (y == (does.log ? C(-INFINITY) : C(0))) return c;
      c.p = does.log ? cuda::exponential(y) : y;
    } else {
      c.v = logits(j);
      if (c.v == -INFINITY) return c;
      c.p = cuda::exponential(cuda::minus(c.v, lse));
    }
    if (logits.has(op_dy)) c.dy = logits.template at<op_dy>(j);
    c.counts = true;
    return c;
  }

  // The column's part of D.
  __device__ double dot(const gradient_column<C> &c) const {
    if (!c.counts) return 0;
    return does.log ? double(c.dy) : cuda::times(double(c.p), double(c.dy));
  }

  // g, of which D is known.
  __device__ C g(const gradient_column<C> &c, double D) const {
    if (!c.counts) return 0;
    C rest = C(cuda::minus(D, double(d_lse)));
    return does.log ? cuda::minus(c.dy, cuda::times(c.p, rest)) : cuda::times(c.p, cuda::minus(c.dy, rest));
  }
  __device__ C u(C g) const { return logits.has(op_temperature) ? cuda::over(g, logits.temperature) : g; }
  __device__ C dx(C g, int64_t j) const {
    if (g == 0) return 0;
    return cuda::times(cuda::times(u(g), C(does.scale)), logits.slope_of_cap(j));
  }

  // e^(sink - lse) * (d_lse - D)
  __device__ double d_sink(double D) const {
    C sink = logits.template at<op_sink>();
    if (sink == -INFINITY) return 0;
    return cuda::times(double(cuda::exponential(cuda::minus(sink, lse))), cuda::minus(double(d_lse), D));
  }

  row_logits<C> logits;

 private:
  const effects &does;
  bool from_y;
  C lse = 0, d_lse = 0;  // lse: only from x, or to tell empty rows
};

}  // namespace sluice::softmax
