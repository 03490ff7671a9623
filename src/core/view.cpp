// view.cpp: the checks of view.hpp.
#include "core/view.hpp"

#include <cstdlib>
#include <numeric>

namespace sluice {
namespace {

// a * b + c for non-negative operands, or -1 beyond max_span_bytes.
int64_t bounded(int64_t a, int64_t b, int64_t c) {
  int64_t product, sum;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(product, c, &sum) ||
      sum > max_span_bytes)
    return -1;
  return sum;
}

bool on_device(sluice_device have, sluice_device want) {
  if (have.type == 3 || have.type == 13) return true;  // pinned and managed host memory
  return have.type == want.type && have.id == want.id;
}

bool known(sluice_dtype d) {
  if (d.lanes != 1) return false;
  switch (d.code) {
    case kind_int:
    case kind_uint: return d.bits == 8 || d.bits == 16 || d.bits == 32 || d.bits == 64;
    case kind_float: return d.bits == 16 || d.bits == 32 || d.bits == 64;
    case kind_bfloat: return d.bits == 16;
    case kind_complex: return d.bits == 64 || d.bits == 128;
    case kind_bool: return d.bits == 8;
    default: return false;
  }
}

result<void> unsupported(const view &v, const char *name, const char *want) {
  return fail(SLUICE_UNSUPPORTED_DTYPE, "%s.dtype is %s, want %s", name, dtype_name(v.dtype).text, want);
}

// Elements fill the bytes between the lowest and the highest without a hole.
bool is_dense(const view &v, view::span s) { return s.below + s.above == v.elements() * bytes_of(v.dtype); }

}  // namespace

view::span view::reach() const {
  span s = {0, 0};
  for (int i = 0; i < axes; ++i) {
    if (shape[i] == 0) return {0, 0};
    int64_t bytes = strides[i] * (shape[i] - 1) * bytes_of(dtype);
    (bytes < 0 ? s.below : s.above) += bytes < 0 ? -bytes : bytes;
  }
  s.above += bytes_of(dtype);
  return s;
}

result<void> read_view(const sluice_tensor *t, const char *name, sluice_device device, view &out) {
  if (!t) return fail(SLUICE_INVALID_ARGUMENT, "%s is NULL", name);
  if (t->ndim < 0 || t->ndim > max_axes)
    return fail(SLUICE_INVALID_ARGUMENT, "%s.ndim is %d, want 0 to %d", name, t->ndim, max_axes);
  if (t->ndim > 0 && !t->shape)
    return fail(SLUICE_INVALID_ARGUMENT, "%s.shape is NULL, want %d extents", name, t->ndim);
  if (!known(t->dtype))
    return fail(SLUICE_UNSUPPORTED_DTYPE, "%s.dtype is %s, want a DLPack dtype of one lane", name,
                dtype_name(t->dtype).text);
  if (!on_device(t->device, device))
    return fail(SLUICE_INVALID_DEVICE, "%s.device is (%d, %d), want (%d, %d)", name, t->device.type,
                t->device.id, device.type, device.id);

  out.dtype = t->dtype;
  out.axes = t->ndim;
  bool empty = false;
  for (int i = 0; i < t->ndim; ++i) empty = empty || t->shape[i] == 0;
  // Counted in elements as well as in bytes from end to end, so that neither an empty axis nor a stride of 0
  // can hide extents whose product overflows.
  int64_t elements = 1, span = bytes_of(t->dtype);
  for (int i = t->ndim - 1; i >= 0; --i) {
    int64_t extent = t->shape[i], stride = t->strides ? t->strides[i] : elements;
    if (extent < 0)
      return fail(SLUICE_INVALID_SHAPE, "%s.shape[%d] is %lld, want >= 0", name, i, (long long)extent);
    bool walks = extent > 1 && !empty;
    out.shape[i] = extent;
    out.strides[i] = walks ? stride : 0;
    if (extent > 1) elements = bounded(elements, extent, 0);
    if (walks && elements >= 0)
      span = stride == INT64_MIN ? -1 : bounded(std::llabs(stride), (extent - 1) * bytes_of(t->dtype), span);
    if (elements < 0 || bounded(elements, 16, 0) < 0 || span < 0)
      return fail(SLUICE_INVALID_SHAPE,
                  "%s.shape[%d] is %lld with stride %lld, want a tensor below 2^60 bytes", name, i,
                  (long long)extent, (long long)stride);
  }
  if (empty) {
    out.data = nullptr;
    return {};
  }
  if (!t->data) return fail(SLUICE_INVALID_ARGUMENT, "%s.data is NULL, want an address", name);
  out.data = static_cast<char *>(t->data) + t->byte_offset;
  int64_t alignment = t->dtype.code == kind_complex ? bytes_of(t->dtype) / 2 : bytes_of(t->dtype);
  if (reinterpret_cast<uintptr_t>(out.data) % uint64_t(alignment) != 0)
    return fail(SLUICE_INVALID_ARGUMENT, "%s.data + byte_offset is %p, want a multiple of %lld", name,
                static_cast<void *>(out.data), (long long)alignment);
  return {};
}

result<void> want_float(const view &v, const char *name) {
  if (is_float(v.dtype)) return {};
  return unsupported(v, name, "float32, float64, float16 or bfloat16");
}
result<void> want_index(const view &v, const char *name) {
  if (is_index(v.dtype)) return {};
  return unsupported(v, name, "int32 or int64");
}
result<void> want_flag(const view &v, const char *name) {
  if (is_flag(v.dtype)) return {};
  return unsupported(v, name, "bool, uint8 or int8");
}

result<void> want_shape(const view &v, const char *name, const int64_t *shape, int32_t axes) {
  if (v.axes != axes) return fail(SLUICE_INVALID_SHAPE, "%s.ndim is %d, want %d", name, v.axes, axes);
  for (int i = 0; i < axes; ++i)
    if (v.shape[i] != shape[i])
      return fail(SLUICE_INVALID_SHAPE, "%s.shape[%d] is %lld, want %lld", name, i, (long long)v.shape[i],
                  (long long)shape[i]);
  return {};
}

result<void> broadcast(const view &v, const char *name, const char *against, const int64_t *shape,
                       int32_t axes, int64_t *strides) {
  if (v.axes > axes)
    return fail(SLUICE_INVALID_SHAPE, "%s.ndim is %d, want at most %d to broadcast against %s", name, v.axes,
                axes, against);
  int32_t missing = axes - v.axes;
  for (int i = 0; i < axes; ++i) {
    int64_t extent = i < missing ? 1 : v.shape[i - missing];
    if (extent != 1 && extent != shape[i])
      return fail(SLUICE_INVALID_SHAPE, "%s.shape[%d] is %lld, want 1 or %lld to broadcast against %s", name,
                  i - missing, (long long)extent, (long long)shape[i], against);
    strides[i] = extent == 1 ? 0 : v.strides[i - missing];
  }
  return {};
}

bool same_view(const view &a, const view &b) {
  if (a.data != b.data || !same(a.dtype, b.dtype) || a.axes != b.axes) return false;
  for (int i = 0; i < a.axes; ++i)
    if (a.shape[i] != b.shape[i] || (a.shape[i] > 1 && a.strides[i] != b.strides[i])) return false;
  return true;
}

result<void> want_distinct_elements(const view &out, const char *name) {
  if (!out.data) return {};
  for (int i = 0; i < out.axes; ++i) {
    if (out.shape[i] < 2) continue;
    if (out.strides[i] == 0)
      return fail(SLUICE_INVALID_ARGUMENT,
                  "%s.strides[%d] is 0, want an output whose elements do not overlap", name, i);
    // Axes i and j meet where a * |stride i| = b * |stride j| with a, b inside their extents.
    for (int j = 0; j < i; ++j) {
      if (out.shape[j] < 2) continue;
      int64_t si = std::llabs(out.strides[i]), sj = std::llabs(out.strides[j]), common = std::gcd(si, sj);
      if (sj / common < out.shape[i] && si / common < out.shape[j])
        return fail(
            SLUICE_INVALID_ARGUMENT,
            "%s.strides[%d] is %lld beside strides[%d] %lld, want an output whose elements do not overlap",
            name, i, (long long)out.strides[i], j, (long long)out.strides[j]);
    }
  }
  return {};
}

result<void> want_apart(const view &out, const char *out_name, const view &in, const char *in_name) {
  if (!out.data || !in.data) return {};
  view::span o = out.reach(), i = in.reach();
  uintptr_t out_low = uintptr_t(out.data) - uintptr_t(o.below),
            out_high = uintptr_t(out.data) + uintptr_t(o.above);
  uintptr_t in_low = uintptr_t(in.data) - uintptr_t(i.below),
            in_high = uintptr_t(in.data) + uintptr_t(i.above);
  if (out_high <= in_low || in_high <= out_low || !is_dense(out, o) || !is_dense(in, i)) return {};
  return fail(SLUICE_INVALID_ARGUMENT, "%s overlaps %s, want memory apart from it or the very same view",
              out_name, in_name);
}

}  // namespace sluice
