// rows.hpp: all axes but the last, as one list of rows that several operands walk together. Neighbouring axes
// that every operand crosses with one stride are joined, so most tensors end with one axis.
#pragma once

#include <cstdint>

#include "core/limits.hpp"
#include "core/result.hpp"
#include "core/sides.hpp"

namespace sluice {

template <int operands>
struct row_space {
  int64_t rows; // product of the extents
  int32_t axes; // 0 to max_row_axes
  int64_t extent[max_row_axes]; // outermost first
  int64_t stride[max_row_axes][operands]; // elements

  // Offsets of `row`, counted in the order of the axes, in every operand.
  SLUICE_BOTH_SIDES void locate(int64_t row, int64_t (&offset)[operands]) const {
    for (int k = 0; k < operands; ++k) offset[k] = 0;
    for (int a = axes - 1; a >= 0; --a) {
      int64_t index = a == 0 ? row : row % extent[a];
      row = a == 0 ? 0 : row / extent[a];
      for (int k = 0; k < operands; ++k) offset[k] += index * stride[a][k];
    }
  }
  SLUICE_BOTH_SIDES int64_t locate(int64_t row, int operand) const {
    int64_t offset = 0;
    for (int a = axes - 1; a >= 0; --a) {
      offset += (a == 0 ? row : row % extent[a]) * stride[a][operand];
      row = a == 0 ? 0 : row / extent[a];
    }
    return offset;
  }
};

// Drops axes of extent 1 and joins the rest. stride[axis][operand].
template <int operands>
result<void> join_axes(int32_t axes, const int64_t *shape, const int64_t (*stride)[operands],
                       row_space<operands> &space) {
  space.rows = 1;
  space.axes = 0;
  for (int a = 0; a < axes; ++a) space.rows *= shape[a];
  if (space.rows == 0) return {};
  for (int a = 0; a < axes; ++a) {
    if (shape[a] == 1) continue;
    int last = space.axes - 1;
    bool joins = last >= 0;
    for (int k = 0; joins && k < operands; ++k) joins = space.stride[last][k] == stride[a][k] * shape[a];
    if (joins) {
      space.extent[last] *= shape[a];
    } else {
      if (space.axes == max_row_axes)
        return fail(SLUICE_UNSUPPORTED, "leading axes do not join into %d, want fewer that no stride crosses",
                    max_row_axes);
      last = space.axes++;
      space.extent[last] = shape[a];
    }
    for (int k = 0; k < operands; ++k) space.stride[last][k] = stride[a][k];
  }
  return {};
}

} // namespace sluice
