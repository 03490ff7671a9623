// softmax_gradcheck_test.cpp: the float64 gradient against central differences of the float64 forward call, so that
// the two directions are tested without a formula of the tests' own between them.
#include "ops/softmax_suite.hpp"

namespace sluice::test {
namespace {

class softmax_gradcheck : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override { SLUICE_SKIP_WITHOUT(GetParam()); }

  const softmax_types types = {.x = dtype::f64, .y = dtype::f64, .extras = dtype::f64, .results = dtype::f64};

  struct forward_result {
    std::vector<real> y, lse;
  };
  forward_result forward(softmax_spec spec, const softmax_inputs &in) {
    spec.lse = true;
    op_case c = make_case(spec, types, in);
    results got = perform(c, GetParam());
    forward_result out;
    for (size_t i = 0; i < got.size(); ++i)
      for (size_t at = 0; at < got[i].size(); at += 8)
        (c.operands[i].name == "y" ? out.y : out.lse).push_back(load(dtype::f64, &got[i][at]));
    return out;
  }

  // Finite everywhere, so that a step changes the loss smoothly.
  static void tame(softmax_inputs &in) {
    if (in.mask)
      for (real &v : in.mask->values) v = std::isinf(v) ? -1 : v;
    if (in.slopes)
      for (real &v : in.slopes->values) v = v / 3 + 0.01L;
  }

  void check(softmax_spec spec) {
    SCOPED_TRACE(spec.name);
    softmax_backward_spec wanted = {.forward = spec,
                                    .d_lse = true,
                                    .d_mask = bool(spec.mask),
                                    .d_slopes = bool(spec.slopes),
                                    .d_sink = bool(spec.sink),
                                    .d_temperature = bool(spec.temperature)};
    wanted.forward.edit = [edit = spec.edit](softmax_inputs &drawn) {
      if (edit) edit(drawn);
      tame(drawn);
    };
    softmax_inputs in = draw(wanted.forward, types);
    op_case backward = make_backward_case(wanted, types);
    results got = perform(backward, GetParam());
    if (got.empty()) return;

    std::vector<real> dy, d_lse;
    auto gradient = [&](const char *name) {
      std::vector<real> values;
      for (size_t i = 0; i < backward.operands.size(); ++i) {
        const operand &o = backward.operands[i];
        if (o.name != name) continue;
        const bit_list &bits = o.output ? got[i] : o.packed;
        for (size_t at = 0; at < bits.size(); at += 8) values.push_back(load(dtype::f64, &bits[at]));
      }
      return values;
    };
    dy = gradient("dy"), d_lse = gradient("d_lse");
    auto loss = [&] {
      forward_result out = forward(spec, in);
      real sum = 0;
      for (size_t i = 0; i < out.y.size(); ++i)
        if (!std::isinf(out.y[i])) sum += dy[i] * out.y[i];
      for (size_t i = 0; i < out.lse.size(); ++i) sum += d_lse[i] * out.lse[i];
      return sum;
    };
    auto compare = [&](const char *name, std::vector<real> &values) {
      std::vector<real> analytic = gradient(name);
      ASSERT_EQ(analytic.size(), values.size()) << name;
      for (size_t i = 0; i < values.size(); ++i) {
        const real step = std::ldexp(real(1), -18), value = values[i];
        values[i] = real(double(value + step));
        real above = values[i], high = loss();
        values[i] = real(double(value - step));
        real below = values[i], low = loss();
        values[i] = value;
        // The difference quotient itself is off by about step^2 and by a float64 rounding over the step.
        EXPECT_NEAR(double((high - low) / (above - below)), double(analytic[i]),
                    2e-9 * (1 + std::fabs(double(analytic[i]))))
            << name << "[" << i << "]";
      }
    };
    compare("dx", in.x.values);
    if (in.mask) compare("d_mask", in.mask->values);
    if (in.slopes) compare("d_slopes", in.slopes->values);
    if (in.sink) compare("d_sink", in.sink->values);
    if (in.temperature) compare("d_temperature", in.temperature->values);
  }
  void check_both(softmax_spec spec) {
    check(spec);
    spec.desc.log = 1, spec.name += ", log";
    check(spec);
  }
};

const shape_list shape = {2, 3, 7};

TEST_P(softmax_gradcheck, plain) { check_both({.name = "plain", .shape = shape, .spread = 1}); }
TEST_P(softmax_gradcheck, scale) { check_both({.name = "scale", .shape = shape, .desc = {.scale = -0.6}}); }
TEST_P(softmax_gradcheck, softcap) {
  check_both({.name = "softcap", .shape = shape, .desc = {.scale = 0.9, .softcap = 2}});
}
TEST_P(softmax_gradcheck, mask) {
  for (const shape_list &mask : {shape_list{2, 3, 7}, {3, 7}, {7}, {2, 1, 1}, {1, 7}, {}})
    check_both({.name = "mask " + text(mask), .shape = shape, .mask = mask, .spread = 1});
}
TEST_P(softmax_gradcheck, slopes) {
  for (const shape_list &slopes : {shape_list{2, 3}, {3}, {2, 1}, {}})
    check_both({.name = "slopes " + text(slopes),
                .shape = shape,
                .desc = {.diagonal = 1},
                .slopes = slopes,
                .spread = 1});
}
TEST_P(softmax_gradcheck, sink) {
  for (const shape_list &sink : {shape_list{2, 3}, {2, 1}, {}})
    check_both({.name = "sink " + text(sink), .shape = shape, .sink = sink, .spread = 1});
}
TEST_P(softmax_gradcheck, temperature) {
  for (const shape_list &temperature : {shape_list{2, 3}, {3}, {}})
    check_both({.name = "temperature " + text(temperature),
                .shape = shape,
                .temperature = temperature,
                .spread = 1});
}
TEST_P(softmax_gradcheck, exclusions) {
  check_both(
      {.name = "keep", .shape = shape, .keep = shape_list{3, 7}, .spread = 1, .edit = [](softmax_inputs &in) {
         for (size_t i = 0; i < 21; ++i) in.keep->values[i] = i % 4 != 2;
       }});
  check_both({.name = "causal", .shape = shape, .desc = {.causal = 1, .diagonal = 1}, .spread = 1});
  check_both({.name = "lengths",
              .shape = shape,
              .lengths = shape_list{2, 1},
              .spread = 1,
              .edit = [](softmax_inputs &in) { in.lengths->values = {4, 7}; }});
}
TEST_P(softmax_gradcheck, everything_at_once) {
  check_both({.name = "everything",
              .shape = shape,
              .desc = {.scale = 0.8, .softcap = 4, .causal = 1, .diagonal = 1},
              .mask = shape_list{3, 7},
              .slopes = shape_list{2, 1},
              .sink = shape_list{3},
              .temperature = shape_list{2, 3},
              .spread = 2});
}

INSTANTIATE_TEST_SUITE_P(all, softmax_gradcheck, testing::Values(cpu, cuda),
                         [](const auto &info) { return device_name(info.param); });

} // namespace
} // namespace sluice::test
