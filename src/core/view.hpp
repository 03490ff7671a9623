// view.hpp: a caller's tensor, checked and copied. From here on extents, strides and addresses are known to
// be sound: no offset overflows, and a null pointer means that there is nothing to touch.
#pragma once

#include <sluice/core.h>

#include <cstdint>

#include "core/dtype.hpp"
#include "core/limits.hpp"
#include "core/result.hpp"

namespace sluice {

struct view {
  char *data;  // with byte_offset
  sluice_dtype dtype;
  int32_t axes;
  int64_t shape[max_axes];
  int64_t strides[max_axes];  // elements

  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < axes; ++i) n *= shape[i];
    return n;
  }
  // Bytes below and above `data` that elements reach; {0, 0} when there are none.
  struct span {
    int64_t below, above;
  };
  span reach() const;
};

// Reads `t`, called `name` in error texts, for a context on `device`.
result<void> read_view(const sluice_tensor *t, const char *name, sluice_device device, view &out);

result<void> want_float(const view &v, const char *name);
result<void> want_index(const view &v, const char *name);  // int32 or int64
result<void> want_flag(const view &v, const char *name);   // bool, uint8 or int8

// v's shape must be shape[axes].
result<void> want_shape(const view &v, const char *name, const int64_t *shape, int32_t axes);

// Strides of `v` as seen from shape[axes] (called `against` in texts), right-aligned, 0 along broadcast axes.
result<void> broadcast(const view &v, const char *name, const char *against, const int64_t *shape,
                       int32_t axes, int64_t *strides);

// The same memory seen the same way: address, dtype, shape and strides.
bool same_view(const view &a, const view &b);

// An output may not overlap itself, as far as a cheap test proves: a stride of 0, or two axes that meet.
result<void> want_distinct_elements(const view &out, const char *name);

// An output may not overlap an input, as far as a cheap test proves: both fill their spans without holes, and
// the spans meet. What the test cannot decide (interleaved views) is the caller's care.
result<void> want_apart(const view &out, const char *out_name, const view &in, const char *in_name);

}  // namespace sluice
