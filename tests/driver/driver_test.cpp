// driver_test.cpp: the driver tested on itself: conversions against known bits, layouts that never let two elements
// share memory, and faults that it has to notice.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "driver/driver.hpp"

namespace sluice::test {
namespace {

TEST(numbers, known_bits) {
  struct known {
    dtype type;
    real value;
    uint64_t bits;
  };
  for (const known &k : {known{dtype::f16, 1, 0x3c00},
                         {dtype::f16, -2, 0xc000},
                         {dtype::f16, 65504, 0x7bff},
                         {dtype::f16, 65519.99L, 0x7bff},
                         {dtype::f16, 65520, 0x7c00},
                         {dtype::f16, 0x1p-24L, 1},
                         {dtype::f16, 0x1p-25L, 0},
                         {dtype::f16, 0x1.8p-25L, 1},
                         {dtype::f16, 0x1p-14L, 0x0400},
                         {dtype::f16, 0x1.ffcp-15L, 0x0400},
                         {dtype::f16, 1 + 0x1p-11L, 0x3c00},
                         {dtype::f16, 1 + 0x3p-11L, 0x3c02},
                         {dtype::f16, -0.0L, 0x8000},
                         {dtype::bf16, 1, 0x3f80},
                         {dtype::bf16, 1 + 0x1p-8L, 0x3f80},
                         {dtype::bf16, 1 + 0x3p-8L, 0x3f82},
                         {dtype::bf16, infinity, 0x7f80},
                         {dtype::bf16, 0x1p-133L, 1},
                         {dtype::bf16, 3.4e38L, 0x7f80}}) {
    uint16_t bits = 0;
    store(k.type, &bits, k.value);
    EXPECT_EQ(bits, k.bits) << facts(k.type).name << " of " << double(k.value);
  }
}

TEST(numbers, every_16_bit_pattern_comes_back) {
  for (dtype type : {dtype::f16, dtype::bf16})
    for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
      uint16_t bits = uint16_t(pattern), back = 0;
      real value = load(type, &bits);
      store(type, &back, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(load(type, &back)));
      } else {
        ASSERT_EQ(back, bits) << facts(type).name;
      }
    }
}

TEST(numbers, encode_agrees_with_the_processor) {
  random r(3);
  for (int i = 0; i < 200000; ++i) {
    uint64_t bits = r.bits();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isnan(value)) continue;
    if (i % 2) value = std::ldexp(value, -int(std::ilogb(value)) + int(r.below(300)) - 160);
    float expected = float(value);
    uint32_t want;
    std::memcpy(&want, &expected, sizeof want);
    ASSERT_EQ(encode(value, 8, 23), want) << value;
    ASSERT_EQ(decode(want, 8, 23), real(expected));
    ASSERT_EQ(decode(encode(value, 11, 52), 11, 52), real(value));
  }
}

TEST(numbers, ulp_is_the_distance_to_the_next_float) {
  for (float v : {1.0f, 1.5f, 0.75f, 1e-40f, 0.0f, 3e38f, 2.0f, 0x1p-126f})
    EXPECT_EQ(double(ulp(dtype::f32, v)), double(std::nextafter(v, INFINITY)) - double(v)) << v;
  EXPECT_EQ(double(ulp(dtype::f16, 1)), 0x1p-10);
  EXPECT_EQ(double(ulp(dtype::bf16, 0.9L)), 0x1p-8);
}

TEST(layouts, no_two_elements_share_memory) {
  for (const shape_list &shape : {shape_list{}, {5}, {1}, {2, 3}, {4, 1, 5}, {2, 3, 4, 5}, {3, 0, 2}})
    for (const layout &how : layouts) {
      placement p = place(how, shape);
      std::set<int64_t> seen;
      for_each_element(shape, p.strides, [&](int64_t, int64_t offset) {
        int64_t at = how.shift + how.offset + p.first + offset;
        EXPECT_TRUE(at >= 0 && at < p.elements) << how.name << text(shape);
        EXPECT_TRUE(seen.insert(at).second) << how.name << text(shape);
      });
      EXPECT_EQ(int64_t(seen.size()), count_of(shape));
    }
}

// y = 2 x, with a fault to be found.
enum class fault { none, wrong_value, beside, before_the_buffer, into_input, ignores_strides, not_written };

op_case doubling(fault f) {
  op_case c;
  c.name = "doubling";
  c.operands.push_back({.name = "x",
                        .type = dtype::f32,
                        .shape = {2, 3},
                        .batched = true,
                        .packed = pack(dtype::f32, {1, 2, 3, 4, 5, 6})});
  c.operands.push_back({.name = "y",
                        .type = dtype::f32,
                        .shape = {2, 3},
                        .values = {2, 4, 6, 8, 10, 12},
                        .allowed = std::vector<real>(6, 0),
                        .output = true,
                        .batched = true});
  c.in_place = {{0, 1}};
  c.batch = 2;
  c.query = [](const call &, size_t *bytes) { return *bytes = 0, SLUICE_OK; };
  c.run = [f](const call &made) {
    const sluice_tensor &x = *made.operands[0], &y = *made.operands[1];
    auto at = [&](const sluice_tensor &t, int64_t i, int64_t j) {
      bool compact_only = f == fault::ignores_strides || !t.strides;
      int64_t offset = compact_only ? i * t.shape[1] + j : i * t.strides[0] + j * t.strides[1];
      return reinterpret_cast<float *>(static_cast<char *>(t.data) + t.byte_offset) + offset;
    };
    for (int64_t i = 0; i < x.shape[0]; ++i)
      for (int64_t j = 0; j < 3; ++j)
        if (f != fault::not_written || j != 2)
          *at(y, i, j) = *at(x, i, j) * 2 + (f == fault::wrong_value && j == 1);
    if (f == fault::into_input) *at(x, 0, 0) = 9;
    if (f == fault::beside) at(y, x.shape[0] - 1, 2)[1] = 9;
    if (f == fault::before_the_buffer) at(y, 0, 0)[-1] = 9;
    return SLUICE_OK;
  };
  return c;
}

TEST(driver, accepts_what_is_right) {
  op_case c = doubling(fault::none);
  check_all_modes(c, cpu);
}

TEST(driver, notices_wrong_values) {
  EXPECT_NONFATAL_FAILURE(check_value_mode(doubling(fault::wrong_value), cpu), "wrong in 2 of 6 elements");
  EXPECT_NONFATAL_FAILURE(check_value_mode(doubling(fault::not_written), cpu), "wrong in 2 of 6 elements");
}

#if !defined(__SANITIZE_ADDRESS__) // which would end the program at the first of these
TEST(driver, notices_writes_beside_the_result) {
  EXPECT_NONFATAL_FAILURE(perform(doubling(fault::beside), cpu), "wrote beside the elements of y");
  EXPECT_NONFATAL_FAILURE(perform(doubling(fault::before_the_buffer), cpu), "wrote beside the elements of y");
  EXPECT_NONFATAL_FAILURE(perform(doubling(fault::into_input), cpu), "wrote into the input x");
}
#endif

TEST(driver, notices_ignored_strides) {
  op_case c = doubling(fault::ignores_strides);
  results base = perform(c, cpu);
  testing::TestPartResultArray found;
  {
    testing::ScopedFakeTestPartResultReporter catcher(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &found);
    check_same(c, base, perform(c, cpu, {.layouts = {layouts[3]}}), "padded");
  }
  EXPECT_GT(found.size(), 0);
}

} // namespace
} // namespace sluice::test
