// layout.hpp: the ways in which a test lays a tensor into memory. Every operation has to give the same bits for all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace sluice::test {

using shape_list = std::vector<int64_t>;

inline int64_t count_of(const shape_list &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
}

enum class axis_order { last_fastest, first_fastest, second_last_fastest };
enum class reversed { none, all, last_axis, other_axes };

struct layout {
  const char *name;
  axis_order order = axis_order::last_fastest;
  int64_t step = 1; // elements between neighbours along the fastest axis
  int64_t pad = 0; // elements left free after each run of the fastest axis
  reversed sign = reversed::none;
  int64_t shift = 0; // elements by which `data` is moved off its 64-byte alignment
  int64_t offset = 0; // elements that byte_offset skips
  bool null_strides = false;
};

inline constexpr layout compact = {.name = "compact", .null_strides = true};

// Every layout leaves gaps or an offset that a kernel assuming compact rows would hit.
inline constexpr layout layouts[] = {
    {.name = "explicit strides"},
    {.name = "byte_offset", .offset = 3, .null_strides = true},
    {.name = "off by one element", .shift = 1},
    {.name = "padded rows", .pad = 5},
    {.name = "reversed", .sign = reversed::all, .offset = 1},
    {.name = "last axis reversed", .pad = 3, .sign = reversed::last_axis},
    {.name = "rows reversed", .pad = 1, .sign = reversed::other_axes},
    {.name = "interleaved", .step = 2},
    {.name = "every third, reversed", .step = 3, .pad = 2, .sign = reversed::last_axis, .shift = 1},
    {.name = "axis 0 contiguous", .order = axis_order::first_fastest},
    {.name = "axis 0 contiguous, padded, reversed",
     .order = axis_order::first_fastest,
     .pad = 3,
     .sign = reversed::all},
    {.name = "axis -2 contiguous", .order = axis_order::second_last_fastest, .offset = 2},
    {.name = "axis -2 interleaved", .order = axis_order::second_last_fastest, .step = 2, .pad = 7},
};

struct placement {
  shape_list strides;
  int64_t first = 0; // elements from the start of the storage to the first element, without the offset
  int64_t elements = 0; // length of the storage, offset and shift included
};

// Axes from the fastest to the slowest.
inline std::vector<int> fastest_first(axis_order order, int ndim) {
  std::vector<int> axes(static_cast<size_t>(ndim));
  std::iota(axes.begin(), axes.end(), 0);
  if (order != axis_order::first_fastest) std::reverse(axes.begin(), axes.end());
  if (order == axis_order::second_last_fastest && ndim > 1) std::swap(axes[0], axes[1]);
  return axes;
}

inline placement place(const layout &how, const shape_list &shape) {
  int ndim = int(shape.size());
  placement p;
  p.strides.assign(shape.size(), 0);
  int64_t stride = how.step, end = 1;
  for (int axis : fastest_first(how.order, ndim)) {
    int64_t extent = shape[size_t(axis)];
    bool flip = how.sign == reversed::all || (how.sign == reversed::last_axis && axis == ndim - 1) ||
                (how.sign == reversed::other_axes && axis != ndim - 1);
    p.strides[size_t(axis)] = flip ? -stride : stride;
    if (flip && extent > 0) p.first += stride * (extent - 1);
    if (extent > 0) end += stride * (extent - 1);
    bool fastest = stride == how.step;
    stride = stride * std::max<int64_t>(extent, 1) + (fastest ? how.pad : 0);
  }
  p.elements = how.shift + how.offset + (count_of(shape) ? end : 0);
  return p;
}

// Calls f(flat, offset) for every element in row-major order; offset counts elements along the strides.
template <typename F>
void for_each_element(const shape_list &shape, const shape_list &strides, F &&f) {
  int64_t count = count_of(shape), offset = 0;
  shape_list index(shape.size(), 0);
  for (int64_t flat = 0; flat < count; ++flat) {
    f(flat, offset);
    for (size_t axis = shape.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

// Strides with which a right-aligned, broadcast tensor of `shape` is read by an index into `full`.
inline shape_list broadcast_strides(const shape_list &shape, const shape_list &full) {
  shape_list strides(full.size(), 0);
  int64_t stride = 1;
  for (size_t back = 1; back <= shape.size(); ++back) {
    int64_t extent = shape[shape.size() - back];
    if (extent != 1) strides[full.size() - back] = stride;
    stride *= extent;
  }
  return strides;
}

inline std::string text(const shape_list &shape) {
  std::string s = "[";
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? "," : "") + std::to_string(shape[i]);
  return s + "]";
}

} // namespace sluice::test
