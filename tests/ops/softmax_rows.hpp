// softmax_rows.hpp: both directions over rows that a test places in memory itself, down to the byte, without the host's
// image that a case of the driver keeps: for sizes and numbers of calls at which that would take minutes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "driver/block.hpp"
#include "driver/device.hpp"
#include "driver/numbers.hpp"

namespace sluice::test {

enum class direction { forward, forward_with_lse, backward };

inline const char *name_of(direction way) {
  switch (way) {
    case direction::forward: return "forward";
    case direction::forward_with_lse: return "with_lse";
    case direction::backward: return "backward";
  }
  return "";
}

// [rows, n], with steps in elements from row to row and from column to column.
struct rows_view {
  void *data;
  dtype type;
  int64_t rows, n, row_step, column_step = 1;
};

// forward: x and y; backward, from y: dy, y and dx.
using rows_views = std::vector<rows_view>;
inline size_t inputs_of(direction way) { return way == direction::backward ? 2 : 1; }

// Memory that a call may borrow; one for each call that may run at the same time.
struct scratch_room {
  std::unique_ptr<block> memory;
};

// Enqueues the call, and fails the test where it is refused. `lse`: [rows] of float32, with forward_with_lse.
void run_rows(int32_t device, direction way, const rows_views &views, void *lse, scratch_room &room,
              const sluice_context *context = nullptr, sluice_stream stream = nullptr);

// After how many elements drawn numbers come again, unless a test says otherwise: a prime, so that rows and their pieces,
// whose lengths are round, differ.
inline constexpr int64_t drawn_period = 65521;

// Numbers for row after row of any length: input k of the direction, in its dtype, `elements` in all.
std::unique_ptr<block> drawn_rows(int32_t device, direction way, size_t k, dtype type, int64_t elements,
                                  int64_t period = drawn_period);

} // namespace sluice::test
