// softmax_sizes_test.cpp: softmax over extents of every kind: none, one, odd, at and around each power of two that a
// kernel may cut at, many axes, beyond 2^31.
#include "ops/softmax_suite.hpp"

namespace sluice::test {
namespace {

class softmax_sizes : public softmax_suite {};

TEST_P(softmax_sizes, every_short_row) {
  for (int64_t n = 1; n <= 70; ++n) {
    op_case c =
        make_case({.name = "short", .shape = {3, n}, .lse = true, .max = true, .seed = uint64_t(n)}, types());
    results base = perform(c, device());
    check_values(c, base);
    for (size_t i : {size_t(1), size_t(5), size_t(7), size_t(9)})
      check_same(c, base, perform(c, device(), {.layouts = {layouts[i]}}), layouts[i].name);
  }
}

TEST_P(softmax_sizes, long_rows) {
  for (int64_t n :
       thin<int64_t>({71,   127,  128,  129,  255,  256,  257,  511,   513,   1000,  1023,  1025,  2047,
                      2049, 4095, 4096, 4097, 8191, 8192, 8193, 12287, 12289, 12345, 16385, 128255})) {
    bool very_long = n > 100000;
    op_case c = make_case({.name = "long",
                           .shape = {very_long ? 1 : 2, n},
                           .lse = true,
                           .max = true,
                           .spread = 5,
                           .seed = uint64_t(n)},
                          types());
    results base = perform(c, device());
    check_values(c, base);
    check_threads(c, device(), base);
    for (size_t i : {size_t(2), size_t(7), size_t(9)})
      check_same(c, base, perform(c, device(), {.layouts = {layouts[i]}}), layouts[i].name);
  }
}

TEST_P(softmax_sizes, number_of_axes) {
  for (int axes = 1; axes <= 7; ++axes) {
    shape_list shape(size_t(axes), 2);
    shape.back() = 11;
    if (axes > 2) shape[1] = 3;
    check_all_modes(make_case({.name = "axes", .shape = shape, .mask = shape_list{11}, .lse = true}, types()),
                    device());
  }
  shape_list most(64, 1);
  most[0] = 2, most[31] = 3, most[63] = 9;
  check_all_modes(make_case({.name = "64 axes", .shape = most, .lse = true, .max = true}, types()), device());
}

// Sixteen axes that no stride crosses are the most that the library promises to walk; dense ones join.
TEST_P(softmax_sizes, many_axes_that_join) {
  shape_list shape(13, 2);
  shape[12] = 5;
  op_case c = make_case({.name = "13 axes", .shape = shape, .lse = true}, types());
  results base = perform(c, device());
  check_values(c, base);
  check_layouts(c, device(), base);
}

TEST_P(softmax_sizes, nothing_to_do) {
  for (const shape_list &shape :
       thin<shape_list>({shape_list{0}, {0, 5}, {5, 0}, {2, 0, 3}, {0, 0}, {3, 2, 0}, {0, 100000}})) {
    softmax_spec spec = {
        .name = "empty", .shape = shape, .mask = shape_list{shape.back()}, .lse = true, .max = true};
    check_all_modes(make_case(spec, types()), device());
    spec.y = false;
    check_all_modes(make_case(spec, types()), device());
  }
}

// With no column at all, a row is empty, unless there is a sink.
TEST_P(softmax_sizes, rows_without_columns) {
  check_all_modes(make_case({.name = "no columns",
                             .shape = {4, 3, 0},
                             .desc = {.causal = 1},
                             .temperature = shape_list{3},
                             .lse = true,
                             .max = true},
                            types()),
                  device());
  check_all_modes(
      make_case(
          {.name = "no columns, sink", .shape = {4, 3, 0}, .sink = shape_list{3}, .lse = true, .max = true},
          types()),
      device());
}

TEST_P(softmax_sizes, many_rows) {
  check_value_mode(make_case({.name = "rows", .shape = {30011, 3}, .lse = true}, types()), device());
  check_value_mode(
      make_case({.name = "rows", .shape = {257, 129, 2}, .keep = shape_list{257, 1, 2}, .lse = true},
                types()),
      device());
}

// The same, laid out with another axis contiguous: what softmax over a channel axis looks like.
TEST_P(softmax_sizes, columns_across_memory) {
  for (const shape_list &shape :
       thin<shape_list>({shape_list{300, 50}, {64, 33}, {5, 40, 70}, {1025, 9}, {16, 4100}, {3, 7, 9000}})) {
    op_case c =
        make_case({.name = "across", .shape = shape, .mask = shape_list{shape.back()}, .lse = true}, types());
    results base = perform(c, device());
    check_values(c, base);
    for (const layout &how : {layouts[9], layouts[10], layouts[11], layouts[12]})
      check_same(c, base, perform(c, device(), {.layouts = {how}}), how.name);
    check_in_place(c, device(), base);
  }
}

INSTANTIATE_TEST_SUITE_P(all, softmax_sizes,
                         testing::ValuesIn(on_all_devices({
                             {.x = dtype::f32, .y = dtype::f32},
                             {.x = dtype::f64, .y = dtype::f64, .extras = dtype::f64, .results = dtype::f64},
                             {.x = dtype::f16, .y = dtype::f16, .extras = dtype::f16},
                             {.x = dtype::bf16, .y = dtype::f32, .extras = dtype::bf16},
                         })),
                         name_of);

// Every pair of input and output dtype, lightly.
class softmax_dtypes : public softmax_suite {};

TEST_P(softmax_dtypes, pairs) {
  for (int64_t n : thin<int64_t>({1, 31, 64, 1000, 5000}))
    for (int32_t log : {0, 1}) {
      op_case c = make_case({.name = "pair", .shape = {3, n}, .desc = {.log = log}, .lse = true, .max = true},
                            types());
      results base = perform(c, device());
      check_values(c, base);
      check_in_place(c, device(), base);
      check_same(c, base, perform(c, device(), {.layouts = {layouts[7]}}), layouts[7].name);
    }
}

// Just beyond halfway between two 16-bit numbers, by less than a float32 can tell: by way of float32 it would be a tie.
TEST_P(softmax_dtypes, narrow_results_are_rounded_once) {
  if (!is_16_bit_float(types().y) || types().x != dtype::f64) GTEST_SKIP() << "for float64 to 16 bits";
  op_case c = make_case({.name = "near ties",
                         .shape = {3, 41},
                         .desc = {.log = 1},
                         .edit =
                             [&](softmax_inputs &in) {
                               real step = ulp(types().y, 40);
                               for (size_t k = 0; k < 123; ++k)
                                 in.x.values[k] =
                                     k % 41 ? -(40 + real(k % 41) * step + step / 2 + 0x1p-30L) : 0;
                             }},
                        types());
  results base = perform(c, device());
  check_values(c, base);
  check_layouts(c, device(), base);
}

INSTANTIATE_TEST_SUITE_P(all, softmax_dtypes, testing::ValuesIn(on_all_devices(all_pairs())), name_of);

class softmax_views : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override { SLUICE_SKIP_WITHOUT(GetParam()); }

  // lse of a view of one element with the given shape and strides of 0.
  real lse_of(dtype type, real value, shape_list shape) {
    operand one{.name = "x", .type = type, .shape = {1}, .packed = pack(type, {value})};
    operand out{.name = "lse", .type = dtype::f32, .shape = {1}, .output = true};
    placed x(GetParam(), one, compact), lse(GetParam(), out, compact);
    sluice_tensor view = *x.view(), result = *lse.view();
    shape_list zeros(shape.size(), 0), none;
    view.ndim = int32_t(shape.size()), view.shape = shape.data(), view.strides = zeros.data();
    result.ndim = view.ndim - 1, result.shape = shape.data();
    sluice_softmax_desc desc{};
    desc.struct_size = sizeof desc;
    desc.lse = &result;
    size_t bytes = 0;
    EXPECT_EQ(sluice_softmax_workspace(shared_context(GetParam()), &desc, &view, nullptr, &bytes), SLUICE_OK)
        << sluice_last_error();
    memory workspace(GetParam(), bytes, 0xff);
    workspace.upload();
    EXPECT_EQ(sluice_softmax(shared_context(GetParam()), &desc, &view, nullptr, workspace.address(), bytes,
                             nullptr),
              SLUICE_OK)
        << sluice_last_error();
    lse.store.download();
    bit_list bits = lse.found();
    return load(dtype::f32, bits.data());
  }
};

TEST_P(softmax_views, a_broadcast_input) {
  for (int64_t n : {5, 4097, 100000})
    EXPECT_NEAR(double(lse_of(dtype::f32, 0.25L, {n})), 0.25 + std::log(double(n)),
                4 * double(ulp(dtype::f32, 10)));
}

// Rows that are one row in memory, and operands that a stride of 0 spreads, give the bits of their copies.
TEST_P(softmax_views, strides_of_zero_are_copies) {
  const int64_t rows = 5;
  for (int64_t n : {7, 300, 5000}) {
    std::vector<real> one, all;
    for (int64_t j = 0; j < n; ++j) one.push_back(real((j * 37) % 64) / 8);
    for (int64_t r = 0; r < rows; ++r) all.insert(all.end(), one.begin(), one.end());
    operand row{.name = "row", .shape = {n}, .packed = pack(dtype::f32, one)};
    operand copies{.name = "copies", .shape = {rows, n}, .packed = pack(dtype::f32, all)};
    operand result{.name = "y", .shape = {rows, n}, .output = true};
    bit_list found[2];
    for (bool spread : {false, true}) {
      placed x(GetParam(), spread ? row : copies, compact), y(GetParam(), result, compact);
      shape_list shape = {rows, n}, strides = {0, 1};
      sluice_tensor view = *x.view();
      if (spread) view.ndim = 2, view.shape = shape.data(), view.strides = strides.data();
      sluice_softmax_desc desc{};
      desc.struct_size = sizeof desc;
      desc.mask = &view;
      size_t bytes = 0;
      EXPECT_EQ(sluice_softmax_workspace(shared_context(GetParam()), &desc, &view, y.view(), &bytes),
                SLUICE_OK);
      memory workspace(GetParam(), bytes, 0xff);
      workspace.upload();
      EXPECT_EQ(sluice_softmax(shared_context(GetParam()), &desc, &view, y.view(), workspace.address(), bytes,
                               nullptr),
                SLUICE_OK)
          << sluice_last_error();
      y.store.download();
      EXPECT_TRUE(y.only_elements_changed());
      found[spread] = y.found();
    }
    EXPECT_EQ(found[0], found[1]) << n;
  }
}

// Two bytes of memory seen as a row of more than 2^31 columns.
TEST_P(softmax_views, beyond_31_bits) {
  if (thinning() > 1) GTEST_SKIP() << "2^31 columns take too long in this build";
  int64_t n = (int64_t(1) << 31) + 5;
  EXPECT_NEAR(double(lse_of(dtype::f16, 0.5L, {n})), 0.5 + std::log(double(n)),
              4 * double(ulp(dtype::f32, 22)));
}

INSTANTIATE_TEST_SUITE_P(all, softmax_views, testing::Values(cpu, cuda),
                         [](const auto &info) { return device_name(info.param); });

} // namespace
} // namespace sluice::test
