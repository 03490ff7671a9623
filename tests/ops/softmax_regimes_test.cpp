// softmax_regimes_test.cpp: a few cases on either side of every extent, layout and effect at which a kernel may be another,
// each as small as that allows: what compute-sanitizer runs, what is replayed a hundred times, and what devices of
// other capabilities would run, on contexts that pretend to be theirs.
#include <memory>

#include "ops/softmax_suite.hpp"
#include "testkit/testkit.h"

namespace sluice::test {
namespace {

struct regime_param {
  int32_t device;
  int32_t capability; // that the context pretends to have, 80 for sm_80; 0: its own
  softmax_types types;
};

class softmax_regimes : public testing::TestWithParam<regime_param> {
 protected:
  void SetUp() override {
    SLUICE_SKIP_WITHOUT(p.device);
    if (!p.capability) return;
    other = std::make_unique<context>(cuda);
    ASSERT_EQ(sluice_testkit_pretend(other->get(), p.capability / 10, p.capability % 10), 0);
  }

  setting with(const layout &how) const {
    return {.context = other ? static_cast<const sluice_context *>(*other) : nullptr, .layouts = {how}};
  }
  void check(const op_case &c) {
    results base = perform(c, p.device, with(compact));
    check_values(c, base);
    for (const layout &how : thin<layout>({layouts[2], layouts[7], layouts[9]}))
      check_same(c, base, perform(c, p.device, with(how)), how.name);
  }

  static std::vector<shape_list> shapes() {
    return thin<shape_list>({{3, 1},
                             {5, 33},
                             {40, 128},
                             {3, 1000},
                             {2, 1025},
                             {2, 2049},
                             {2, 4097},
                             {3, 8192},
                             {1, 8195},
                             {1, 16388},
                             {1, 33000},
                             {1, 140001}});
  }
  // Everything that a logit may be made of. Softcap and slopes take turns: the reference's bound knows what a softcap may
  // be off by, but not what the roundings after it make of that.
  static softmax_spec full_of_effects(const shape_list &shape) {
    bool capped = shape[0] % 2 == 0;
    softmax_spec spec = {.name = capped ? "effects, softcap" : "effects, slopes",
                         .shape = shape,
                         .desc = {.scale = 0.5, .causal = 1, .diagonal = SLUICE_DIAGONAL_BOTTOM_RIGHT},
                         .mask = shape_list{shape[1]},
                         .keep = shape,
                         .lengths = shape_list{shape[0]},
                         .sink = shape_list{shape[0]},
                         .lse = true,
                         .max = true};
    if (capped)
      spec.desc.softcap = 20;
    else
      spec.slopes = spec.temperature = shape_list{1};
    return spec;
  }
  static softmax_backward_spec every_gradient(const shape_list &shape) {
    softmax_spec forward = full_of_effects(shape);
    bool sloped = forward.slopes.has_value();
    return {.forward = forward,
            .d_lse = true,
            .d_mask = true,
            .d_slopes = sloped,
            .d_sink = true,
            .d_temperature = sloped};
  }

  const regime_param p = GetParam();
  std::unique_ptr<context> other;
};

TEST_P(softmax_regimes, forward) {
  for (const shape_list &shape : shapes())
    check(make_case({.name = "plain", .shape = shape, .lse = shape[0] > 1}, p.types));
}

TEST_P(softmax_regimes, log_and_high_accuracy) {
  for (const shape_list &shape : shapes())
    check(make_case({.name = "log, high",
                     .shape = shape,
                     .desc = {.log = shape[1] % 2 != 0, .accuracy = SLUICE_ACCURACY_HIGH},
                     .max = true},
                    p.types));
}

TEST_P(softmax_regimes, effects) {
  for (const shape_list &shape : shapes()) check(make_case(full_of_effects(shape), p.types));
}

TEST_P(softmax_regimes, backward) {
  for (const shape_list &shape : shapes()) {
    softmax_spec forward = {.name = "plain", .shape = shape};
    check(make_backward_case({.forward = forward, .y = true, .x_and_lse = false}, p.types));
    check(make_backward_case({.forward = forward, .d_lse = true}, p.types));
  }
}

TEST_P(softmax_regimes, backward_through_effects) {
  for (const shape_list &shape : shapes()) check(make_backward_case(every_gradient(shape), p.types));
}

class softmax_replays : public softmax_regimes {};

TEST_P(softmax_replays, give_the_same_bits_a_hundred_times) {
  auto replay = [&](const op_case &c) { check_capture(c, p.device, perform(c, p.device), 100); };
  for (const shape_list &shape : shapes()) {
    replay(make_case({.name = "replays", .shape = shape, .lse = true}, p.types));
    replay(make_case(full_of_effects(shape), p.types));
    softmax_spec forward = {.name = "replays", .shape = shape};
    replay(make_backward_case({.forward = forward, .y = true, .x_and_lse = false}, p.types));
    replay(make_backward_case(every_gradient(shape), p.types));
  }
}

// {device, capability}
std::vector<regime_param> regime_params(const std::vector<std::pair<int32_t, int32_t>> &devices) {
  using enum dtype;
  std::vector<regime_param> list;
  for (auto [device, capability] : devices)
    for (softmax_types types : {softmax_types{.x = f32, .y = f32},
                                {.x = f16, .y = f16, .extras = f16},
                                {.x = bf16, .y = bf16, .extras = bf16, .keep = dtype::u8},
                                {.x = bf16, .y = f32},
                                {.x = f64, .y = f64, .extras = f64, .results = f64, .lengths = i64}})
      list.push_back({device, capability, types});
  return list;
}

std::string name_of_regime(const testing::TestParamInfo<regime_param> &info) {
  const regime_param &p = info.param;
  return device_name(p.device) + (p.capability ? "_as_sm" + std::to_string(p.capability) : std::string()) +
         "_" + text(p.types);
}

INSTANTIATE_TEST_SUITE_P(all, softmax_regimes,
                         testing::ValuesIn(regime_params({{cpu, 0}, {cuda, 0}, {cuda, 80}})), name_of_regime);
INSTANTIATE_TEST_SUITE_P(all, softmax_replays, testing::ValuesIn(regime_params({{cuda, 0}})), name_of_regime);

} // namespace
} // namespace sluice::test
