// softmax_bits_test.cpp: calls that say the same thing in other words give the same bits, and results do not depend on
// what else was asked for.
#include "ops/softmax_suite.hpp"

namespace sluice::test {
namespace {

class softmax_bits : public softmax_suite {
 protected:
  // Results by name, so that cases with different operands can be compared.
  bit_list result(softmax_spec spec, const char *name) {
    spec.expect = false;
    op_case c = make_case(spec, types());
    results got = perform(c, device());
    for (size_t i = 0; i < c.operands.size(); ++i)
      if (c.operands[i].name == name) return got.empty() ? bit_list{} : got[i];
    ADD_FAILURE() << c.name << " has no result " << name;
    return {};
  }
  bit_list y(const softmax_spec &spec) { return result(spec, "y"); }

  // A float64 mask, slope or temperature makes all of it float64: then the two sides of a test would compute differently.
  void SetUp() override {
    softmax_suite::SetUp();
    bool wide = types().x == dtype::f64 || types().y == dtype::f64;
    if (types().extras == dtype::f64 && !wide) GTEST_SKIP() << "the operands change the compute type";
  }
};

TEST_P(softmax_bits, causal_is_a_mask) {
  for (auto size : {std::pair<int64_t, int64_t>{5, 9}, {9, 5}, {40, 70}, {3, 5000}})
    for (int64_t window : {0, 3, 4000})
      for (int32_t diagonal : {SLUICE_DIAGONAL_TOP_LEFT, SLUICE_DIAGONAL_BOTTOM_RIGHT}) {
        const int64_t queries = size.first, n = size.second;
        sluice_softmax_desc desc = {.empty_row = SLUICE_EMPTY_ROW_ZERO,
                                    .causal = 1,
                                    .diagonal = diagonal,
                                    .diagonal_offset = 1,
                                    .window = window};
        softmax_spec spec = {.name = "causal", .shape = {2, queries, n}, .desc = desc};
        bit_list by_causal = y(spec);
        spec.desc = {.empty_row = SLUICE_EMPTY_ROW_ZERO};
        auto excluded = [=](int64_t flat) {
          int64_t i = flat / n, j = flat % n,
                  p = i + 1 + (diagonal == SLUICE_DIAGONAL_BOTTOM_RIGHT ? n - queries : 0);
          return j > p || (window && p - j >= window);
        };
        softmax_spec masked = spec, kept = spec;
        masked.mask = kept.keep = shape_list{queries, n};
        masked.edit = [&](softmax_inputs &in) {
          for (int64_t k = 0; k < queries * n; ++k) in.mask->values[size_t(k)] = excluded(k) ? -infinity : 0;
        };
        kept.edit = [&](softmax_inputs &in) {
          for (int64_t k = 0; k < queries * n; ++k) in.keep->values[size_t(k)] = !excluded(k);
        };
        EXPECT_EQ(by_causal, y(masked)) << "mask, " << queries << " x " << n << ", window " << window;
        EXPECT_EQ(by_causal, y(kept)) << "keep, " << queries << " x " << n << ", window " << window;
      }
}

TEST_P(softmax_bits, lengths_are_a_mask) {
  softmax_spec spec = {.name = "lengths",
                       .shape = {3, 5000},
                       .lengths = shape_list{3},
                       .edit = [](softmax_inputs &in) { in.lengths->values = {1, 4097, 5000}; }};
  softmax_spec kept = {
      .name = "keep", .shape = {3, 5000}, .keep = shape_list{3, 5000}, .edit = [](softmax_inputs &in) {
        for (int64_t k = 0; k < 15000; ++k)
          in.keep->values[size_t(k)] = k % 5000 < (k < 5000 ? 1 : k < 10000 ? 4097 : 5000);
      }};
  EXPECT_EQ(y(spec), y(kept));
}

TEST_P(softmax_bits, broadcasting_is_repetition) {
  softmax_spec broadcast = {.name = "broadcast",
                            .shape = {2, 3, 50},
                            .mask = shape_list{50},
                            .sink = shape_list{},
                            .temperature = shape_list{3}};
  broadcast.edit = [](softmax_inputs &in) {
    for (size_t j = 0; j < 50; ++j) in.mask->values[j] = j % 7 ? real(j) / 32 : -infinity;
    in.sink->values = {1.5L};
    in.temperature->values = {1, 2, 0.75L};
  };
  softmax_spec repeated = broadcast;
  repeated.mask = shape_list{2, 3, 50}, repeated.sink = repeated.temperature = shape_list{2, 3};
  repeated.edit = [](softmax_inputs &in) {
    for (size_t k = 0; k < 300; ++k) in.mask->values[k] = k % 50 % 7 ? real(k % 50) / 32 : -infinity;
    in.sink->values.assign(6, 1.5L);
    in.temperature->values = {1, 2, 0.75L, 1, 2, 0.75L};
  };
  EXPECT_EQ(y(broadcast), y(repeated));
}

// What is neutral in arithmetic changes no bit, though it takes other paths through the code.
TEST_P(softmax_bits, neutral_effects) {
  for (int64_t n : thin<int64_t>({3, 37, 4097, 17000})) {
    softmax_spec plain = {.name = "plain", .shape = {2, n}};
    bit_list want = y(plain);
    auto check = [&](softmax_spec spec) {
      spec.shape = plain.shape;
      EXPECT_EQ(want, y(spec)) << spec.name << ", n = " << n;
    };
    check({.name = "scale 1", .shape = {}, .desc = {.scale = 1}});
    check({.name = "mask 0", .shape = {}, .mask = shape_list{1}, .edit = [](auto &in) {
             in.mask->values = {0};
           }});
    check({.name = "keep all", .shape = {}, .keep = shape_list{}, .edit = [](auto &in) {
             in.keep->values = {1};
           }});
    check({.name = "slope 0", .shape = {}, .slopes = shape_list{}, .edit = [](auto &in) {
             in.slopes->values = {0};
           }});
    check({.name = "temperature 1", .shape = {}, .temperature = shape_list{}, .edit = [](auto &in) {
             in.temperature->values = {1};
           }});
    check({.name = "sink -inf", .shape = {}, .sink = shape_list{}, .edit = [](auto &in) {
             in.sink->values = {-infinity};
           }});
    check({.name = "length n", .shape = {}, .lengths = shape_list{}, .edit = [n](auto &in) {
             in.lengths->values = {real(n)};
           }});
    check({.name = "causal, far below the diagonal",
           .shape = {},
           .desc = {.causal = 1, .diagonal_offset = 100000}});
    check({.name = "a wide window", .shape = {}, .desc = {.window = 100000}});
    // A more exact lse beside a less exact y takes the more exact exponentials for both.
    if (device() == cpu || types().y == dtype::f32 || types().y == dtype::f64 || types().results == types().y)
      check({.name = "with lse and max", .shape = {}, .lse = true, .max = true});
  }
}

TEST_P(softmax_bits, lse_does_not_depend_on_y) {
  for (int64_t n : thin<int64_t>({1, 64, 5000, 20000})) {
    softmax_spec spec = {.name = "lse", .shape = {3, n}, .keep = shape_list{n}, .lse = true, .max = true};
    softmax_spec without = spec;
    without.y = false;
    bool same_compute =
        types().y != dtype::f64 || types().x == dtype::f64; // a float64 y makes all of it float64
    if (!same_compute) continue;
    EXPECT_EQ(result(spec, "lse"), result(without, "lse")) << n;
    EXPECT_EQ(result(spec, "max"), result(without, "max")) << n;
  }
}

// A row's bits do not depend on which rows stand beside it, nor on how many.
TEST_P(softmax_bits, one_row_among_many) {
  for (int64_t n : thin<int64_t>({5, 129, 4097, 20000})) {
    int64_t rows = n > 4000 ? 9 : 200;
    op_case c = make_case({.name = "many", .shape = {rows, n}, .lse = true, .expect = false}, types());
    results base = perform(c, device());
    check_batch(c, device(), base);
    for (const layout &how : {layouts[3], layouts[9]})
      check_same(c, base, perform(c, device(), {.layouts = {how}}), how.name);
  }
}

INSTANTIATE_TEST_SUITE_P(all, softmax_bits, testing::ValuesIn(on_all_devices(main_types())), name_of);

} // namespace
} // namespace sluice::test
