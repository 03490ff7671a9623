// softmax_values_test.cpp: rows that have made other softmaxes wrong: NaN, infinities and -inf in every place, values
// near 1e4 and far below zero, the ends of the float range, subnormal results, sums that rounding would bias.
#include "ops/softmax_suite.hpp"

namespace sluice::test {
namespace {

class softmax_values : public softmax_suite {
 protected:
  void run(const softmax_spec &spec) {
    op_case c = make_case(spec, types());
    results base = perform(c, device());
    check_values(c, base);
    if (count_of(spec.shape) < 10000 || !spec.desc.log) check_threads(c, device(), base);
    check_same(c, base, perform(c, device(), {.layouts = {layouts[8]}}), layouts[8].name);
    check_same(c, base, perform(c, device(), {.layouts = {layouts[9]}}), layouts[9].name);
  }
  // The same rows as probabilities and as logarithms, exact as well.
  void run_all_ways(softmax_spec spec) {
    spec.lse = spec.max = true;
    run(spec);
    if (thinning() >= 16) return;
    spec.desc.accuracy = SLUICE_ACCURACY_HIGH;
    run(spec);
    spec.desc.log = 1;
    run(spec);
    spec.desc.accuracy = SLUICE_ACCURACY_DEFAULT;
    run(spec);
  }
};

using edit = std::function<void(softmax_inputs &)>;

// Columns [a, b) of row r are -inf, for ends around every place where a kernel may cut a row.
TEST_P(softmax_values, minus_infinity_at_every_slice_boundary) {
  for (int64_t n : thin<int64_t>({5, 37, 100, 1000, 4097, 9000})) {
    std::vector<int64_t> ends = {0, 1, n - 1, n};
    for (int64_t cut : {4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192})
      for (int64_t end : {cut - 1, cut, cut + 1})
        if (end < n) ends.push_back(end);
    std::vector<std::pair<int64_t, int64_t>> slices;
    for (int64_t a : ends)
      for (int64_t b : ends)
        if (a < b && (n < 1000 ? (a + b) % 2 : (a * 7 + b * 3) % 29) == 0) slices.push_back({a, b});
    int64_t rows = int64_t(slices.size());
    softmax_spec spec = {.name = "-inf slices",
                         .shape = {rows, n},
                         .desc = {.empty_row = SLUICE_EMPTY_ROW_ZERO},
                         .lse = true,
                         .max = true};
    auto place = [&](tensor &t) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = slices[size_t(r)].first; j < slices[size_t(r)].second; ++j)
          t.values[size_t(r * n + j)] = -infinity;
    };
    spec.edit = [&](softmax_inputs &in) { place(in.x); };
    check_value_mode(make_case(spec, types()), device());
    spec.name = "-inf slices of a mask";
    spec.mask = spec.shape;
    spec.edit = [&](softmax_inputs &in) {
      in.mask->values.assign(size_t(rows * n), 0.5L);
      place(*in.mask);
    };
    check_value_mode(make_case(spec, types()), device());
  }
}

TEST_P(softmax_values, not_a_number_and_infinity) {
  for (int64_t n : thin<int64_t>({1, 7, 64, 5000}))
    for (real bad : {not_a_number, infinity})
      for (double softcap : {0, 5})
        run_all_ways({.name = "bad value, softcap " + std::to_string(softcap),
                      .shape = {6, n},
                      .desc = {.softcap = softcap},
                      .edit = [=](softmax_inputs &in) {
                        for (int64_t r = 0; r < 5; ++r) in.x.values[size_t(r * n + (r * 7919) % n)] = bad;
                      }});
}

// -inf passes from the compute type into whatever y is.
TEST_P(softmax_values, excluded_columns_computed_in_float64) {
  softmax_types mixed = types();
  mixed.x = dtype::f64;
  for (int64_t n : {5, 70})
    check_value_mode(make_case({.name = "excluded in float64",
                                .shape = {3, n},
                                .desc = {.log = 1, .empty_row = SLUICE_EMPTY_ROW_ZERO},
                                .lengths = shape_list{3},
                                .lse = true,
                                .max = true,
                                .edit = [](softmax_inputs &in) { in.lengths->values = {4, 3, 0}; }},
                               mixed),
                     device());
}

// With mask, keep, length, causal and window each hiding some NaN or infinity.
TEST_P(softmax_values, excluded_columns_are_not_read) {
  const int64_t queries = 9, n = 40;
  for (real bad : {not_a_number, infinity}) {
    softmax_spec spec = {.name = "bad under excluded",
                         .shape = {2, queries, n},
                         .desc = {.causal = 1, .diagonal = SLUICE_DIAGONAL_BOTTOM_RIGHT, .window = 25},
                         .mask = shape_list{2, queries, n},
                         .keep = shape_list{2, queries, n},
                         .lengths = shape_list{2, queries}};
    spec.edit = [=](softmax_inputs &in) {
      for (int64_t r = 0; r < 2 * queries; ++r)
        for (int64_t j = 0; j < n; ++j) {
          int64_t p = r % queries + n - queries;
          size_t at = size_t(r * n + j);
          bool out = in.mask->values[at] == -infinity || in.keep->values[at] == 0 || j > p || p - j >= 25 ||
                     real(j) >= in.lengths->values[size_t(r)];
          if (out) in.x.values[at] = bad;
          if (out && in.keep->values[at] == 0) in.mask->values[at] = bad;
        }
    };
    run_all_ways(spec);
  }
}

TEST_P(softmax_values, masks_of_infinity_and_nan_that_count) {
  softmax_spec spec = {
      .name = "bad mask", .shape = {4, 20}, .mask = shape_list{4, 20}, .edit = [](softmax_inputs &in) {
        in.mask->values.assign(80, 0);
        in.mask->values[3] = infinity;
        in.mask->values[25] = not_a_number;
        in.x.values[45] = -infinity;
        in.mask->values[45] = infinity; // -inf + inf
      }};
  run_all_ways(spec);
}

TEST_P(softmax_values, rows_without_anything) {
  for (int32_t policy : {SLUICE_EMPTY_ROW_NAN, SLUICE_EMPTY_ROW_ZERO, SLUICE_EMPTY_ROW_UNIFORM})
    for (int64_t n : thin<int64_t>({1, 3, 64, 5000})) {
      softmax_spec spec = {.name = "empty rows", .shape = {4, n}, .desc = {.empty_row = policy}};
      spec.edit = [=](softmax_inputs &in) {
        for (int64_t j = 0; j < n; ++j) in.x.values[size_t(j)] = in.x.values[size_t(2 * n + j)] = -infinity;
      };
      run_all_ways(spec);
      spec.lengths = shape_list{4};
      spec.edit = [](softmax_inputs &in) { in.lengths->values = {0, 2, -5, 1000}; };
      run_all_ways(spec);
      spec.lengths.reset();
      spec.keep = shape_list{4, 1};
      spec.edit = [](softmax_inputs &in) { in.keep->values = {1, 0, 1, 0}; };
      run_all_ways(spec);
    }
}

TEST_P(softmax_values, temperatures_of_every_kind) {
  softmax_spec spec = {.name = "temperatures",
                       .shape = {9, 12},
                       .desc = {.empty_row = SLUICE_EMPTY_ROW_UNIFORM},
                       .temperature = shape_list{9},
                       .edit = [](softmax_inputs &in) {
                         in.temperature->values = {0,     -0.0L, -1, infinity, -infinity, not_a_number,
                                                   1e-5L, 1e4L,  1};
                         for (size_t j = 0; j < 12; ++j)
                           in.x.values[j] = -1 - real(j); // all below zero: -inf
                       }};
  run_all_ways(spec);
}

TEST_P(softmax_values, far_from_zero) {
  for (real centre : {1e4L, -1e4L, -200.0L, 3e4L})
    for (int64_t n : thin<int64_t>({3, 100, 1000, 4099}))
      run_all_ways(
          {.name = "centre " + std::to_string(int(centre)), .shape = {3, n}, .spread = 20, .centre = centre});
}

TEST_P(softmax_values, ends_of_the_range) {
  for (int64_t n : thin<int64_t>({2, 9, 70, 4100})) {
    dtype type = types().x;
    real largest = decode((uint64_t(1) << (facts(type).exponent_bits + facts(type).fraction_bits)) -
                              (uint64_t(1) << facts(type).fraction_bits) - 1,
                          facts(type).exponent_bits, facts(type).fraction_bits);
    run_all_ways({.name = "largest numbers", .shape = {5, n}, .edit = [=](softmax_inputs &in) {
                    for (int64_t j = 0; j < n; ++j) {
                      in.x.values[size_t(j)] = j % 2 ? largest : -largest;
                      in.x.values[size_t(n + j)] = -largest;
                      in.x.values[size_t(2 * n + j)] = largest;
                      in.x.values[size_t(3 * n + j)] = j ? -infinity : -largest;
                      in.x.values[size_t(4 * n + j)] = j % 3 ? real(0) : -largest;
                    }
                  }});
    run_all_ways(
        {.name = "largest numbers, scaled up",
         .shape = {2, n},
         .desc = {.scale = 4},
         .edit = [=](softmax_inputs &in) { in.x.values[0] = -largest, in.x.values[size_t(n)] = largest; }});
    run_all_ways({.name = "a scale that rounds to nothing", .shape = {2, n}, .desc = {.scale = 1e-60}});
  }
}

TEST_P(softmax_values, zeros_of_both_signs) {
  run_all_ways({.name = "signed zeros", .shape = {3, 33}, .edit = [](softmax_inputs &in) {
                  for (size_t j = 0; j < 99; ++j) in.x.values[j] = j < 33 || j % 2 ? -0.0L : 0.0L;
                }});
  run_all_ways({.name = "subnormal inputs", .shape = {2, 33}, .edit = [this](softmax_inputs &in) {
                  for (size_t j = 0; j < 66; ++j) in.x.values[j] = real(j % 5) * ulp(types().x, 0);
                }});
}

// From the smallest normal result down to below the smallest subnormal one.
TEST_P(softmax_values, subnormal_results) {
  dtype type = types().y;
  real lowest = -std::log(ulp(type, 0)) + 2;
  for (int64_t n : {65, 4100})
    run_all_ways({.name = "subnormal results", .shape = {2, n}, .edit = [=](softmax_inputs &in) {
                    for (int64_t j = 0; j < n; ++j)
                      in.x.values[size_t(j)] = in.x.values[size_t(2 * n - 1 - j)] =
                          -lowest * real(j) / real(n);
                  }});
}

TEST_P(softmax_values, sums_that_rounding_would_bias) {
  for (int64_t n : thin<int64_t>({3, 1000, 4096, 20000})) {
    run_all_ways({.name = "constant rows", .shape = {3, n}, .edit = [=](softmax_inputs &in) {
                    for (int64_t j = 0; j < 3 * n; ++j)
                      in.x.values[size_t(j)] = j < n ? 0 : j < 2 * n ? -7.25L : 200;
                  }});
    for (real low : {-0.001L, -3.0L, -16.5L})
      run_all_ways({.name = "two values", .shape = {2, n}, .edit = [=](softmax_inputs &in) {
                      for (int64_t j = 0; j < 2 * n; ++j)
                        in.x.values[size_t(j)] = j % n == 0 || j == n + n / 2 ? 0 : low;
                    }});
  }
}

INSTANTIATE_TEST_SUITE_P(all, softmax_values,
                         testing::ValuesIn(on_all_devices({
                             {.x = dtype::f32, .y = dtype::f32},
                             {.x = dtype::f64, .y = dtype::f64, .extras = dtype::f64, .results = dtype::f64},
                             {.x = dtype::f16, .y = dtype::f16, .extras = dtype::f16},
                             {.x = dtype::bf16, .y = dtype::bf16, .extras = dtype::bf16},
                             {.x = dtype::f32, .y = dtype::bf16, .extras = dtype::f16, .results = dtype::f16},
                         })),
                         name_of);

} // namespace
} // namespace sluice::test
