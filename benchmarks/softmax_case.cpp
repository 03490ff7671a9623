// softmax_case.cpp: cases, calls, plans and the check.
#include "softmax_case.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/view.hpp"
#include "ops/softmax/softmax.hpp"

namespace bench {

// ---- Cases ----------------------------------------------------------------------------------------------------------

int64_t softmax_case::elements() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

// From all columns down to about half of them: what padding a batch to its longest sequence leaves.
int64_t softmax_case::length(int64_t batch) const { return columns() - columns() * batch / (2 * shape[0]); }

int64_t softmax_case::counted(int64_t row) const {
  if (masked) return length(row / (shape[1] * shape[2]));
  if (causal) return std::min(columns(), row % shape[shape.size() - 2] + 1);
  return columns();
}

traffic softmax_case::moved() const {
  int64_t size = sluice::bytes_of(dtype);
  if (what == work::backward) return {2 * tensor_bytes(), tensor_bytes()};
  if (!masked && !causal) return {tensor_bytes(), result_bytes()};
  int64_t read = 0;
  for (int64_t row = 0; row < rows(); ++row) read += counted(row) * size;
  return {masked ? read + read / shape[1] : read, result_bytes()}; // all heads of a batch share its mask
}

softmax_case in_rows(work what, sluice_dtype dtype, int64_t mib, int64_t rows, int64_t n) {
  std::string size =
      rows ? std::to_string(rows) + (rows == 1 ? " row" : " rows") : std::to_string(mib) + " MiB";
  if (what == work::logsumexp) size = "logsumexp only, " + size;
  if (!rows) rows = (mib << 20) / (n * sluice::bytes_of(dtype));
  return {size + ", " + std::to_string(n) + " columns", what, dtype, {rows, n}};
}

// ---- Calls ----------------------------------------------------------------------------------------------------------

sluice_tensor softmax_call::view(sluice_dtype dtype, std::vector<int64_t> &extents, int64_t *steps,
                                 size_t axes) {
  return {nullptr, device, int32_t(axes), dtype, extents.data(), steps, 0};
}

softmax_call::softmax_call(const softmax_case &c, const sluice_context *context, sluice_device device)
    : c(c), context(context), device(device), shape(c.shape), strides(c.shape.size(), 1) {
  for (size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
  if (c.axis >= 0) {
    std::swap(shape[size_t(c.axis)], shape.back());
    std::swap(strides[size_t(c.axis)], strides.back());
  }
  size_t axes = shape.size();
  in = dy = out = view(c.dtype, shape, strides.data(), axes);
  desc.struct_size = sizeof desc, back.struct_size = sizeof back;
  back.y = &in;
  desc.causal = c.causal;
  if (c.what == work::logsumexp) {
    out = view(f32, shape, nullptr, axes - 1);
    desc.lse = &out;
  }
  if (c.masked) {
    mask_shape = {c.shape[0], 1, c.shape[2], c.shape[3]};
    lengths_shape = {c.shape[0], 1, 1};
    mask = view(c.dtype, mask_shape, nullptr, 4);
    lengths = view(sluice::dtype_of<int32_t>, lengths_shape, nullptr, 3);
    desc.mask = &mask, desc.lengths = &lengths;
    desc.scale = 0.125;
  }
}

void softmax_call::must(sluice_status status) const {
  if (status == SLUICE_OK) return;
  std::fprintf(stderr, "softmax_bench: %s: %s\n", c.id().c_str(), sluice_last_error());
  std::exit(1);
}

size_t softmax_call::workspace() const {
  size_t bytes = 0;
  const sluice_tensor *y = c.what == work::logsumexp ? nullptr : &out;
  must(c.what == work::backward ? sluice_softmax_backward_workspace(context, &back, &dy, &out, &bytes)
                                : sluice_softmax_workspace(context, &desc, &in, y, &bytes));
  return bytes;
}

void softmax_call::run(void *scratch, size_t scratch_bytes, sluice_stream stream) const {
  const sluice_tensor *y = c.what == work::logsumexp ? nullptr : &out;
  must(c.what == work::backward
           ? sluice_softmax_backward(context, &back, &dy, &out, scratch, scratch_bytes, stream)
           : sluice_softmax(context, &desc, &in, y, scratch, scratch_bytes, stream));
}

size_t softmax_call::workspace_of_make_y() const {
  size_t bytes = 0;
  must(sluice_softmax_workspace(context, nullptr, &in, &in, &bytes));
  return bytes;
}

void softmax_call::make_y(void *x, void *scratch, size_t scratch_bytes, sluice_stream stream) const {
  sluice_tensor y = in;
  y.data = x;
  must(sluice_softmax(context, nullptr, &y, &y, scratch, scratch_bytes, stream));
}

// ---- The plan -------------------------------------------------------------------------------------------------------

softmax_call::planned softmax_call::plan(int32_t width) const {
  using namespace sluice::softmax;
  tensors t;
  auto give = [&](operand k, const sluice_tensor &tensor) {
    t.present[k] = bool(sluice::read_view(&tensor, "operand", device, t.of[k]));
  };
  machine here = machine_of(*context);
  here.width = width;
  if (c.what == work::backward) {
    t.backward = true;
    give(op_y, in), give(op_dy, dy), give(op_dx, out);
    auto p = make_plan(back, t, here);
    return p ? planned{variant_name(p->rows.how), p->rows.bytes} : planned{p.error().text, 0};
  }
  give(op_x, in);
  give(c.what == work::logsumexp ? op_lse : op_y, out);
  if (c.masked) give(op_mask, mask), give(op_lengths, lengths);
  auto p = make_plan(desc, t, here);
  return p ? planned{variant_name(p->how), p->bytes} : planned{p.error().text, 0};
}

// ---- What is printed ------------------------------------------------------------------------------------------------

void print(const softmax_case &c, const softmax_call::planned &plan, int64_t buffer_sets,
           const std::vector<contestant> &contestants, const std::vector<timing> &taken, bool json) {
  outcome found = {c.id(),
                   "softmax",
                   c.pass(),
                   c.name,
                   c.dtype_name(),
                   c.shape,
                   c.axis < 0 ? int64_t(c.shape.size()) - 1 : c.axis,
                   plan.variant,
                   buffer_sets,
                   c.bytes(),
                   plan.bytes,
                   taken[0],
                   {},
                   {}};
  for (size_t i = 1; i < taken.size(); ++i) {
    found.floors.push_back(contestants[i].name);
    found.floor_times.push_back(taken[i]);
  }
  found.print(json);
}

// ---- The check ------------------------------------------------------------------------------------------------------

bits_of_float bits_of(sluice_dtype dtype) {
  if (dtype.code == sluice::kind_bfloat) return {7, 127};
  if (dtype.bits == 16) return {10, 15};
  return {23, 127};
}

double element(const void *from, int64_t i, sluice_dtype dtype) {
  if (dtype.bits == 32) return static_cast<const float *>(from)[i];
  if (dtype.code == sluice::kind_bfloat)
    return sluice::to_float(static_cast<const sluice::bfloat16 *>(from)[i]);
  return sluice::to_float(static_cast<const sluice::float16 *>(from)[i]);
}

int64_t softmax_call::offset_of(int64_t row) const {
  int64_t sum = 0;
  for (size_t i = shape.size() - 1; i-- > 0; row /= shape[i]) sum += row % shape[i] * strides[i];
  return sum;
}

void softmax_call::check(const reader &read) const {
  int64_t n = c.columns(), rows = c.rows();
  double allowed = c.dtype.bits == 32 ? 1e-5 : c.dtype.code == sluice::kind_bfloat ? 5e-3 : 6e-4;
  double smallest = c.dtype.bits == 16 ? 0x1p-24 / allowed : 1e-30; // 2^-24: the smallest step of a half
  for (int64_t row : {int64_t(0), rows / 2, rows - 1}) {
    int64_t counted = c.counted(row);
    auto row_of = [&](const sluice_tensor &t) {
      return read(t.data, offset_of(row), n, strides.back(), t.dtype);
    };
    std::vector<double> v = row_of(in), got, gradient;
    if (c.what == work::backward) gradient = row_of(dy);
    if (c.what != work::logsumexp) got = row_of(out);
    if (c.masked) {
      int64_t batch = row / (c.shape[1] * c.shape[2]), query = row % c.shape[2];
      std::vector<double> added = read(mask.data, (batch * c.shape[2] + query) * n, n, 1, mask.dtype);
      for (int64_t j = 0; j < n; ++j) v[size_t(j)] = v[size_t(j)] * desc.scale + added[size_t(j)];
    }

    double m = -INFINITY, s = 0, dot = 0, worst = 0;
    for (int64_t j = 0; j < counted; ++j) m = std::fmax(m, v[size_t(j)]);
    for (int64_t j = 0; j < counted; ++j) s += std::exp(v[size_t(j)] - m);
    if (c.what == work::backward)
      for (size_t j = 0; j < size_t(n); ++j) dot += v[j] * gradient[j];
    if (c.what == work::logsumexp) worst = std::fabs(read(out.data, row, 1, 1, f32)[0] - (m + std::log(s)));
    for (size_t j = 0; j < got.size(); ++j) {
      double want = int64_t(j) < counted ? std::exp(v[j] - m) / s : 0, size = want;
      if (c.what == work::backward) {
        want = v[j] * (gradient[j] - dot);
        size = v[j] * (std::fabs(gradient[j]) + std::fabs(dot));
      }
      double off = std::fabs(got[j] - want) / (size + smallest);
      if (off > worst || off != off) worst = off; // a NaN stays
    }
    if (worst <= allowed) continue;
    std::fprintf(stderr, "softmax_bench: %s: row %lld is off by %g\n", c.id().c_str(), (long long)row, worst);
    std::exit(1);
  }
}

} // namespace bench
