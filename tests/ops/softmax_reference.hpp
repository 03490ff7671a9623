// softmax_reference.hpp: softmax and its gradient in a type wider than the one under test, with the error that each
// result may have. The final logits v are made as the header says, in the compute type; from there on all is wide.
#pragma once

#include <sluice/ops/softmax.h>

#include <optional>
#include <vector>

#include "driver/layout.hpp"
#include "driver/numbers.hpp"

namespace sluice::test {

struct tensor {
  dtype type = dtype::f32;
  shape_list shape;
  std::vector<real> values; // exact in type
};

struct softmax_inputs {
  tensor x;
  std::optional<tensor> mask, keep, lengths, slopes, sink, temperature;
};

struct with_bound {
  std::vector<real> values, allowed; // allowed NaN: the header leaves the value open
};

// One row on its way to the result.
struct softmax_row {
  std::vector<real> v; // final logits; -inf where excluded
  std::vector<bool> counts; // not excluded
  std::vector<real> slope_steps; // |j - p(i)|
  std::vector<real> cap_slope; // 1 - tanh(scale x / softcap)^2; 1 without softcap
  real sink = -infinity, temperature = 1;
  real m = -infinity, s = 0; // largest of v and sink, sum of e^(v - m)
  real slack = 0; // error that v may have where the header names no rounding (tanh)
  bool nan = false, empty = false;
};

struct softmax_reference {
  softmax_inputs in;
  sluice_softmax_desc desc; // numbers only
  dtype compute; // f32 or f64

  int64_t n() const { return in.x.shape.back(); }
  shape_list row_shape() const { return {in.x.shape.begin(), in.x.shape.end() - 1}; }
  int64_t rows() const { return count_of(row_shape()); }
  softmax_row row(int64_t r) const;

  // What a call should give, in one walk over the rows; empty for what is not asked for.
  struct wanted {
    std::optional<dtype> y, lse, max;
  };
  struct given {
    with_bound y, lse, max;
  };
  given results(const wanted &types) const;

 private:
  void add_y(const softmax_row &row, dtype type, with_bound &out) const;
  void add_lse(const softmax_row &row, with_bound &out) const;
  void add_max(const softmax_row &row, dtype type, with_bound &out) const;
};

// fp64 where any of the dtypes is.
dtype compute_type(const softmax_inputs &in, const std::vector<dtype> &results);

// What the gradient is computed from and asked for.
struct softmax_backward_inputs {
  softmax_inputs forward; // of x only the shape is used without lse
  std::optional<tensor> y, lse, dy, d_lse;
  bool from_lse = false; // p is e^(v - lse), else it is y
};
struct softmax_gradients {
  with_bound dx, d_mask, d_slopes, d_sink, d_temperature; // empty where the operand is absent
};
struct gradient_types {
  dtype dx, d_mask, d_slopes, d_sink, d_temperature;
};
softmax_gradients softmax_backward_reference(const softmax_backward_inputs &in,
                                             const sluice_softmax_desc &desc, dtype compute,
                                             const gradient_types &types);

// Rounds no value but those that overflow `type`, and widens the bound by the rounding to it.
void finish(with_bound &out, dtype type, dtype compute);

} // namespace sluice::test
