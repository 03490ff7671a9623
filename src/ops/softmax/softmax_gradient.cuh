// softmax_gradient.cuh: g, the gradient of the final v, in one row: what every kernel of the backward
// direction starts from.
#pragma once

#include <cmath>

#include "cuda/exponential.cuh"
#include "ops/softmax/softmax_logit.cuh"

namespace sluice::softmax {

// What a column brings to the row. One that does not count has a gradient of 0, and its dy was not read.
template <typename C>
struct gradient_column {
  bool counts;
  C v; // only from x
  C p, dy;
};

// An empty row has one gradient in all its columns, of which none counts.
template <typename C>
class row_gradients {
 public:
  __device__ row_gradients(const plan &p, const addresses &data, bool from_y,
                           const int64_t (&offset)[operands])
      : logits(p, data, offset), p(p), does(p.does), from_y(from_y) {
    if (logits.has(op_lse)) lse = logits.template at<op_lse>();
    if (logits.has(op_d_lse)) d_lse = logits.template at<op_d_lse>();
    is_empty = lse == -INFINITY;
  }

  // No other column has a gradient.
  __device__ effects::range columns() const { return is_empty ? effects::range{0, p.n} : logits.columns(); }

  __device__ gradient_column<C> column(int64_t j) const {
    gradient_column<C> c = {};
    if (is_empty) return c;
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

  // g, once D is known.
  __device__ C g(const gradient_column<C> &c, double D) const {
    if (is_empty) return of_empty();
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
    if (is_empty) return of_empty();
    C sink = logits.template at<op_sink>();
    if (sink == -INFINITY) return 0;
    return cuda::times(double(cuda::exponential(cuda::minus(sink, lse))), cuda::minus(double(d_lse), D));
  }

  row_logits<C> logits;

 private:
  __device__ C of_empty() const { return does.empty_row == SLUICE_EMPTY_ROW_NAN ? C(NAN) : C(0); }

  const plan &p;
  const effects &does;
  bool from_y, is_empty;
  C lse = 0, d_lse = 0; // lse: only from x, or to tell empty rows
};

} // namespace sluice::softmax
