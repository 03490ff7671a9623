// softmax_reference.cpp: the forward half of softmax_reference.hpp, the plainest statement of the header.
#include "ops/softmax_reference.hpp"

#include <algorithm>
#include <cmath>

namespace sluice::test {

dtype compute_type(const softmax_inputs &in, const std::vector<dtype> &results) {
  bool wide = in.x.type == dtype::f64;
  for (const auto *t : {&in.mask, &in.slopes, &in.sink, &in.temperature})
    wide |= *t && (*t)->type == dtype::f64;
  for (dtype t : results) wide |= t == dtype::f64;
  return wide ? dtype::f64 : dtype::f32;
}

namespace {

// Offsets of each element of `full` in a broadcast operand, in row-major order.
int64_t offset_in(const tensor &t, const shape_list &full, int64_t flat) {
  shape_list strides = broadcast_strides(t.shape, full);
  int64_t offset = 0;
  for (size_t axis = full.size(); axis-- > 0;) {
    offset += flat % full[axis] * strides[axis];
    flat /= full[axis];
  }
  return offset;
}

// The last axis of a mask row: its first element, and the step to the next (0 when broadcast).
struct row_of {
  const real *first = nullptr;
  int64_t step = 0;
  row_of(const std::optional<tensor> &t, const shape_list &full, int64_t row) {
    if (!t || count_of(full) == 0) return;
    first = t->values.data() + offset_in(*t, full, row * full.back());
    step = broadcast_strides(t->shape, full).back();
  }
  explicit operator bool() const { return first != nullptr; }
  real operator[](int64_t j) const { return first[j * step]; }
};

real per_row(const std::optional<tensor> &t, const shape_list &row_shape, int64_t row, real otherwise) {
  return t ? t->values[size_t(offset_in(*t, row_shape, row))] : otherwise;
}

// C is the compute type: every line below is one of the header's, rounded to it.
template <typename C>
softmax_row make_row(const softmax_reference &ref, int64_t r) {
  const softmax_inputs &in = ref.in;
  const sluice_softmax_desc &desc = ref.desc;
  const shape_list &shape = in.x.shape, row_shape = ref.row_shape();
  int64_t n = ref.n(), queries = row_shape.empty() ? 1 : row_shape.back();
  int64_t p = r % std::max<int64_t>(queries, 1) + desc.diagonal_offset +
              (desc.diagonal == SLUICE_DIAGONAL_BOTTOM_RIGHT ? n - queries : 0);
  int64_t length = n;
  if (in.lengths) length = std::clamp<int64_t>(int64_t(per_row(in.lengths, row_shape, r, 0)), 0, n);
  row_of mask(in.mask, shape, r), keep(in.keep, shape, r);
  C scale = C(desc.scale == 0 ? 1 : desc.scale), cap = C(desc.softcap);
  C slope = C(per_row(in.slopes, row_shape, r, 0)), temperature = C(per_row(in.temperature, row_shape, r, 1));
  bool f32 = ref.compute == dtype::f32;

  softmax_row row;
  row.v.assign(size_t(n), -infinity);
  row.counts.assign(size_t(n), false);
  row.slope_steps.assign(size_t(n), 0);
  row.cap_slope.assign(size_t(n), 1);
  row.temperature = temperature;
  row.sink = in.sink ? C(per_row(in.sink, row_shape, r, 0)) : -infinity;
  row.m = row.sink;
  row.nan = std::isnan(row.sink) || row.sink == infinity;
  for (int64_t j = 0; j < n; ++j) {
    int64_t distance = j > p ? j - p : p - j;
    row.slope_steps[size_t(j)] = C(distance);
    bool out = (mask && mask[j] == -infinity) || (keep && keep[j] == 0) || (desc.causal && j > p) ||
               (desc.window && distance >= desc.window) || j >= length;
    row.counts[size_t(j)] = !out;
    if (out) continue;

    C v = scale * C(in.x.values[size_t(r * n + j)]);
    if (cap != 0) {
      real t = std::tanh(real(C(v / cap)));
      row.cap_slope[size_t(j)] = 1 - t * t;
      v = cap * C(t);
      if (std::isfinite(v)) row.slack = std::max(row.slack, 4 * ulp(f32 ? dtype::f32 : dtype::f64, v));
    }
    if (in.slopes) v = v - C(slope * C(distance));
    if (mask) v = v + C(mask[j]);
    if (in.temperature) v = v / temperature;
    row.v[size_t(j)] = v;
    row.nan |= std::isnan(v) || (std::isinf(v) && v > 0);
    row.m = std::max(row.m, real(v));
  }
  row.slack /= std::fabs(row.temperature);
  row.empty = !row.nan && row.m == -infinity;
  if (row.nan || row.empty) return row;
  real lost = 0;  // twenty thousand equal terms would lose more than an fp64 result may be off by
  for (real v : row.v) {
    if (v == -infinity) continue;
    real term = std::exp(v - row.m), sum = row.s + term, back = sum - row.s;
    lost += (row.s - (sum - back)) + (term - back);
    row.s = sum;
  }
  row.s += lost;
  if (row.sink != -infinity) row.s += std::exp(row.sink - row.m);
  return row;
}

}  // namespace

softmax_row softmax_reference::row(int64_t r) const {
  return compute == dtype::f64 ? make_row<double>(*this, r) : make_row<float>(*this, r);
}

void finish(with_bound &out, dtype type, dtype compute) {
  for (size_t i = 0; i < out.values.size(); ++i) {
    real &v = out.values[i];
    if (!std::isfinite(v)) continue;
    if (type != compute) out.allowed[i] += ulp(type, std::fabs(v) + out.allowed[i]) / 2;
    if (std::isinf(round_to(type, v))) v = round_to(type, v);
  }
}

softmax_reference::given softmax_reference::results(const wanted &types) const {
  given out;
  for (int64_t r = 0; r < rows(); ++r) {
    softmax_row row = this->row(r);
    if (types.y) add_y(row, *types.y, out.y);
    if (types.lse) add_lse(row, out.lse);
    if (types.max) add_max(row, *types.max, out.max);
  }
  // Plain probabilities carry the header's own bound for a narrow type; logarithms are rounded to it on top.
  if (types.y && desc.log) finish(out.y, *types.y, compute);
  if (types.lse) finish(out.lse, *types.lse, compute);
  return out;
}

void softmax_reference::add_y(const softmax_row &row, dtype type, with_bound &out) const {
  auto add = [&](real value, real allowed) { out.values.push_back(value), out.allowed.push_back(allowed); };
  bool high = desc.accuracy == SLUICE_ACCURACY_HIGH && compute == dtype::f32;
  real log_s = std::log(row.s);
  for (real v : row.v) {
    real d = v - row.m;
    if (row.nan || (row.empty && desc.empty_row == SLUICE_EMPTY_ROW_NAN)) {
      add(not_a_number, 0);
    } else if (row.empty && desc.empty_row == SLUICE_EMPTY_ROW_UNIFORM) {
      real value = desc.log ? -std::log(real(n())) : 1 / real(n());
      add(value, desc.log          ? 4 * ulp(compute, std::max(real(1), -value))
                 : type != compute ? real(0.51) * ulp(type, value)
                                   : ulp(type, value));
    } else if (v == -infinity) {
      add(desc.log ? -infinity : 0, 0);
    } else if (desc.log) {
      real value = d - log_s;
      add(value, 4 * ulp(compute, std::max(real(1), std::fabs(value))) + 2 * row.slack);
    } else {
      real value = std::exp(d) / row.s;
      real units = type != compute ? real(0.51) : high ? 4 : std::fabs(d) + 4;
      if (value < ulp(type, 0) / 2) units = 1;  // far below what the type holds, |d| says nothing any more
      add(value, units * ulp(type, value) + value * std::expm1(2 * row.slack));
    }
  }
}

void softmax_reference::add_lse(const softmax_row &row, with_bound &out) const {
  real value = row.nan ? not_a_number : row.empty ? -infinity : row.m + std::log(row.s);
  real measure = std::max(real(1), std::fabs(value));
  if (compute == dtype::f64) measure = std::max(measure, std::fabs(row.m));
  out.values.push_back(value);
  out.allowed.push_back(std::isfinite(value) ? 4 * ulp(compute, measure) + row.slack : 0);
}

// No tolerance: m is one of the logits, whose every rounding is written down.
void softmax_reference::add_max(const softmax_row &row, dtype type, with_bound &out) const {
  real value = row.nan ? not_a_number : round_to(type, row.m);
  out.values.push_back(value);
  out.allowed.push_back(row.slack > 0 ? row.slack + ulp(type, value) : 0);
}

}  // namespace sluice::test
