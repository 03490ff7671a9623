// driver.hpp: makes every test of an operation from one declaration: its operands with the float64 reference's results,
// and how to call it. Adding an operation is a reference and a list of cases.
#pragma once

#include <sluice/core.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver/device.hpp"
#include "driver/operand.hpp"

namespace sluice::test {

struct call {
  const sluice_context *context = nullptr;
  std::vector<const sluice_tensor *> operands; // in the order of op_case::operands
  void *workspace = nullptr;
  size_t workspace_bytes = 0;
  sluice_stream stream = nullptr;
};

struct op_case {
  std::string name;
  std::vector<operand> operands;
  std::function<sluice_status(const call &)> run;
  std::function<sluice_status(const call &, size_t *)> query; // the op's _workspace
  std::vector<std::pair<size_t, size_t>> in_place; // (input, output) that may be one tensor
  int64_t batch = 0; // extent of axis 0 where rows know nothing of their place along it; 0 elsewhere
};

// What one run of a case may choose. The bits of the results must not depend on any of it.
struct setting {
  const sluice_context *context = nullptr; // nullptr: the device's shared one
  std::vector<layout> layouts = {compact}; // operand i takes i modulo their number
  std::optional<std::pair<size_t, size_t>> in_place = {}; // one of the case's pairs
  std::optional<std::pair<int64_t, int64_t>> rows = {}; // first and count along the batch
};

using results = std::vector<bit_list>; // per operand; empty for inputs

// Runs the case once, fails the test on a status other than OK or on any byte written beside the results.
results perform(const op_case &c, int32_t device, const setting &s = {});

// Compares with the reference; names the worst element.
void check_values(const op_case &c, const results &got);
// Compares bits; `what` names the way in which the second run differed.
void check_same(const op_case &c, const results &first, const results &second, const std::string &what);

// The modes. Each compares with `base`, the bits of a plain run.
void check_layouts(const op_case &c, int32_t device, const results &base);
void check_in_place(const op_case &c, int32_t device, const results &base);
void check_workspace(const op_case &c, int32_t device);
void check_threads(const op_case &c, int32_t device, const results &base);
void check_batch(const op_case &c, int32_t device, const results &base);
void check_repeat(const op_case &c, int32_t device, const results &base);
void check_capture(const op_case &c, int32_t device, const results &base, int replays = 2);

// Values alone, for large cases; or values and every mode above.
void check_value_mode(const op_case &c, int32_t device);
void check_all_modes(const op_case &c, int32_t device);

// 1 by default; SLUICE_TEST_THIN=k runs every k-th of a long list, for builds that are many times slower.
int64_t thinning();

// Every k-th of a list, and its last.
template <typename T>
std::vector<T> thin(const std::vector<T> &list) {
  std::vector<T> kept;
  for (size_t i = 0; i < list.size(); ++i)
    if (i % size_t(thinning()) == 0 || i + 1 == list.size()) kept.push_back(list[i]);
  return kept;
}

} // namespace sluice::test
