// softmax_backward_reference.cpp: the gradient half of softmax_reference.hpp. Starts from the y or lse that was saved,
// rounding included, so that the bounds measure the backward call alone.
#include <algorithm>
#include <cmath>

#include "ops/softmax_reference.hpp"

namespace sluice::test {

namespace {

// A value and how far the call under test may be off.
struct bounded {
  real value = 0, error = 0;
};

struct sums {
  std::vector<bounded> total;
  std::vector<real> magnitude; // sum of |terms|: what rounding while adding is measured against
  shape_list strides, full;

  sums(const std::optional<tensor> &like, const shape_list &full) : full(full) {
    if (!like) return;
    total.resize(size_t(count_of(like->shape)));
    magnitude.resize(total.size());
    strides = broadcast_strides(like->shape, full);
  }
  explicit operator bool() const { return !strides.empty() || !total.empty(); }
  void add(int64_t flat, bounded term) {
    int64_t offset = 0;
    for (size_t axis = full.size(); axis-- > 0; flat /= full[axis])
      offset += flat % full[axis] * strides[axis];
    total[size_t(offset)].value += term.value;
    total[size_t(offset)].error += term.error;
    magnitude[size_t(offset)] += std::fabs(term.value);
  }
  with_bound take(dtype type, dtype compute) {
    with_bound out;
    real eps = ulp(compute, 1);
    for (size_t i = 0; i < total.size(); ++i) {
      out.values.push_back(total[i].value);
      out.allowed.push_back(total[i].error + 4 * eps * magnitude[i] + ulp(compute, total[i].value));
    }
    finish(out, type, compute);
    return out;
  }
};

} // namespace

softmax_gradients softmax_backward_reference(const softmax_backward_inputs &in,
                                             const sluice_softmax_desc &desc, dtype compute,
                                             const gradient_types &types) {
  softmax_reference ref{in.forward, desc, compute};
  const shape_list &shape = ref.in.x.shape, row_shape = ref.row_shape();
  int64_t n = ref.n(), count = count_of(shape);
  if (ref.in.x.values.empty()) ref.in.x.values.assign(size_t(count), 0);
  sums mask(in.forward.mask, shape), slopes(in.forward.slopes, row_shape), sink(in.forward.sink, row_shape),
      temperature(in.forward.temperature, row_shape);
  softmax_gradients out;
  real eps = ulp(compute, 1), scale = desc.scale == 0 ? 1 : real(desc.scale);
  if (compute == dtype::f32) scale = float(scale);

  for (int64_t r = 0; r < ref.rows(); ++r) {
    softmax_row row = ref.row(r);
    real lse = in.lse ? in.lse->values[size_t(r)] : 0, d_lse = in.d_lse ? in.d_lse->values[size_t(r)] : 0;
    bool empty = in.lse ? lse == -infinity : row.empty && in.from_lse;
    auto dy = [&](int64_t j) { return in.dy ? in.dy->values[size_t(r * n + j)] : real(0); };

    // p and its error; 0 where the column does not take part.
    std::vector<real> p(size_t(n), 0), error(size_t(n), 0);
    bounded D;
    real terms = 0;
    for (int64_t j = 0; j < n && !empty; ++j) {
      size_t at = size_t(j);
      if (!row.counts[at]) continue;
      real y = in.y ? in.y->values[size_t(r * n + j)] : 0, power = in.from_lse ? row.v[at] - lse : y;
      p[at] = in.from_lse || desc.log ? std::exp(power) : y;
      if (power == -infinity) p[at] = 0;
      // The forward bound: |power| + 4 ulp, which below the normal range are those of the subnormals.
      if ((in.from_lse || desc.log) && std::isfinite(power))
        error[at] = (std::fabs(power) + 4) * std::max(eps * p[at], ulp(compute, 0)) + 2 * row.slack * p[at];
      if (!desc.log && p[at] == 0) continue;
      real term = desc.log ? dy(j) : p[at] * dy(j);
      D.value += term;
      D.error += (desc.log ? 0 : std::fabs(dy(j)) * error[at]) + std::fabs(term) * 2 * eps;
      terms += std::fabs(term);
    }
    D.error += eps * (terms + std::fabs(D.value));

    bounded slope_row, temperature_row;
    real slope_terms = 0, temperature_terms = 0;
    for (int64_t j = 0; j < n; ++j) {
      size_t at = size_t(j);
      bounded g;
      bool nan_row = empty && desc.empty_row == SLUICE_EMPTY_ROW_NAN;
      if (nan_row) {
        g.value = not_a_number;
      } else if (row.counts[at] && !empty && (desc.log || p[at] != 0)) {
        real other = desc.log ? D.value - d_lse : dy(j) - D.value + d_lse;
        real other_error =
            D.error + eps * (std::fabs(D.value) + std::fabs(d_lse) + (desc.log ? 0 : std::fabs(dy(j))));
        g.value = desc.log ? dy(j) - p[at] * other : p[at] * other;
        g.error =
            p[at] * other_error + std::fabs(other) * (error[at] + 2 * eps * p[at]) + eps * std::fabs(g.value);
      }
      bounded u = {g.value / row.temperature,
                   (g.error + eps * std::fabs(g.value)) / std::fabs(row.temperature)};
      real v = row.v[at];
      if (g.value != 0 && std::isfinite(v)) {
        real product = g.value * v / row.temperature;
        real error = std::fabs(v / row.temperature) * g.error + 2 * eps * std::fabs(product) +
                     std::fabs(g.value / row.temperature) * row.slack;
        temperature_row.value -= product, temperature_row.error += error,
            temperature_terms += std::fabs(product);
      }
      if (g.value != 0) {
        real product = u.value * row.slope_steps[at];
        slope_row.value -= product, slope_terms += std::fabs(product);
        slope_row.error += u.error * row.slope_steps[at] + 2 * eps * std::fabs(product);
      }
      if (nan_row) slope_row.value = temperature_row.value = not_a_number;

      real cap = row.cap_slope[at], dx = g.value == 0 ? 0 : u.value * scale * cap;
      out.dx.values.push_back(dx);
      out.dx.allowed.push_back(u.error * std::fabs(scale) * cap + 3 * eps * std::fabs(dx) +
                               (desc.softcap != 0 ? std::fabs(u.value * scale) * 8 * eps : 0) +
                               (dx != 0 ? ulp(compute, 0) : 0));
      if (mask) mask.add(r * n + j, u);
    }
    slope_row.error += 4 * eps * slope_terms;
    temperature_row.error += 4 * eps * temperature_terms;
    if (slopes) slopes.add(r, slope_row);
    if (temperature) temperature.add(r, temperature_row);
    if (sink) {
      bounded s;
      if (empty && desc.empty_row == SLUICE_EMPTY_ROW_NAN) {
        s.value = not_a_number;
      } else if (!empty && row.sink != -infinity) {
        real power = row.sink - lse, q = std::exp(power);
        s.value = q * (d_lse - D.value);
        s.error = q * (D.error + eps * (std::fabs(D.value) + std::fabs(d_lse))) +
                  std::fabs(s.value) * ((std::fabs(power) + 4) * eps + 2 * eps);
      }
      sink.add(r, s);
    }
  }
  finish(out.dx, types.dx, compute);
  out.d_mask = mask.take(types.d_mask, compute);
  out.d_slopes = slopes.take(types.d_slopes, compute);
  out.d_sink = sink.take(types.d_sink, compute);
  out.d_temperature = temperature.take(types.d_temperature, compute);
  return out;
}

} // namespace sluice::test
