// softmax_suite.hpp: the devices and dtypes over which the tests of softmax run.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "ops/softmax_case.hpp"

namespace sluice::test {

struct softmax_param {
  int32_t device;
  softmax_types types;
};

inline void PrintTo(const softmax_param &p, std::ostream *out) {
  *out << device_name(p.device) << " " << text(p.types);
}

class softmax_suite : public testing::TestWithParam<softmax_param> {
 protected:
  void SetUp() override { SLUICE_SKIP_WITHOUT(GetParam().device); }
  int32_t device() const { return GetParam().device; }
  const softmax_types &types() const { return GetParam().types; }
};

inline std::string name_of(const testing::TestParamInfo<softmax_param> &info) {
  return device_name(info.param.device) + std::string("_") + text(info.param.types);
}

inline std::vector<softmax_param> on_all_devices(const std::vector<softmax_types> &list) {
  std::vector<softmax_param> params;
  // Where even a k-th of the work is much, every other list of dtypes has to do.
  size_t step = thinning() >= 16 ? 2 : 1;
  for (int32_t device : {cpu, cuda})
    for (size_t i = 0; i < list.size(); i += step) params.push_back({device, list[i]});
  return params;
}

// One run in each compute type, each storage type, and mixtures in which no two operands agree.
inline std::vector<softmax_types> main_types() {
  using enum dtype;
  return {
      {.x = f32, .y = f32, .extras = f32, .results = f32},
      {.x = f64, .y = f64, .extras = f64, .results = f64, .keep = u8, .lengths = i64},
      {.x = f16, .y = f16, .extras = f16, .results = f32, .keep = i8},
      {.x = bf16, .y = bf16, .extras = f32, .results = f32, .lengths = i64},
      {.x = bf16, .y = f32, .extras = bf16, .results = bf16},
      {.x = f32, .y = f16, .extras = bf16, .results = f16, .keep = u8},
      {.x = f16, .y = f64, .extras = f32, .results = f64},
      {.x = f32, .y = f32, .extras = f64, .results = f32},  // a float64 operand makes all of it float64
  };
}

inline std::vector<softmax_types> all_pairs() {
  std::vector<softmax_types> list;
  for (dtype x : {dtype::f32, dtype::f64, dtype::f16, dtype::bf16})
    for (dtype y : {dtype::f32, dtype::f64, dtype::f16, dtype::bf16})
      list.push_back({.x = x, .y = y, .extras = x, .results = x});
  return list;
}

}  // namespace sluice::test
