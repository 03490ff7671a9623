// softmax_large_test.cpp: more than 2^31 elements, however they lie: many rows, one long row, rows or columns far apart.
// What goes in repeats after some period, so what comes out must repeat in all its bits, and one period is compared with
// a small call or with float64. Skipped where the device has no room.
#include <algorithm>
#include <cmath>

#include "driver/driver.hpp"
#include "ops/softmax_rows.hpp"
#include "testkit/testkit.h"

namespace sluice::test {
namespace {

constexpr int64_t two_to_31 = int64_t(1) << 31;

struct large_param {
  direction way;
  dtype type;
};

class softmax_large : public testing::TestWithParam<large_param> {
 protected:
  void SetUp() override { SLUICE_SKIP_WITHOUT(cuda); }

  int64_t size() const { return size_of(p.type); }
  size_t bytes(int64_t elements) const { return size_t(elements * size()); }

  // Storage for inputs, filled with a period over and over, and for the result, poisoned beyond its last element too.
  bool make_room(int64_t elements, int64_t period, bool has_lse = false, int64_t rows = 0) {
    size_t whole = bytes(elements) * (inputs + 1) + (has_lse ? size_t(4 * rows) : 0);
    if (sluice_testkit_free_bytes() < whole + (size_t(1) << 30)) return false;
    for (size_t k = 0; k < inputs; ++k)
      storage.push_back(drawn_rows(cuda, p.way, k, p.type, elements, period));
    storage.push_back(std::make_unique<block>(cuda, bytes(elements) + margin));
    for (auto &s : storage)
      if (!s->at()) return false;
    storage.back()->fill(poison);
    return true;
  }
  uint8_t *result(int64_t element = 0) const { return storage[inputs]->at(bytes(element)); }

  rows_views views(int64_t rows, int64_t n, int64_t row_step, int64_t column_step = 1) const {
    rows_views made;
    for (auto &s : storage) made.push_back({s->at(), p.type, rows, n, row_step, column_step});
    return made;
  }
  void run(const rows_views &made, void *lse = nullptr) {
    run_rows(cuda, p.way, made, lse, room);
    finish(cuda);
  }
  void expect_margin_untouched(int64_t elements) {
    block clean(cuda, margin);
    clean.fill(poison);
    EXPECT_EQ(differing(cuda, result(elements), clean.at(), margin), 0) << "wrote behind the result";
  }
  // Elements [from, elements) are those `period` before.
  void expect_period(int64_t elements, int64_t period) {
    EXPECT_EQ(differing(cuda, result(), result(period), bytes(elements - period)), 0);
  }
  // The first rows are what a call for their compact copies gives.
  void expect_as_alone(const rows_views &large, int64_t rows) {
    std::vector<std::unique_ptr<block>> copies;
    rows_views alone;
    const int64_t n = large[0].n;
    for (const rows_view &v : large) {
      copies.push_back(std::make_unique<block>(cuda, bytes(rows * n)));
      for (int64_t r = 0; r < rows; ++r)
        copy_steps(cuda, copies.back()->at(bytes(r * n)), 1,
                   static_cast<uint8_t *>(v.data) + r * v.row_step * size(), v.column_step, n,
                   int32_t(size()));
      alone.push_back({copies.back()->at(), p.type, rows, n, n});
    }
    block result(cuda, bytes(rows * n)), lse(cuda, size_t(4 * rows));
    result.fill(poison);
    alone[inputs].data = result.at();
    run(alone, lse.at());
    EXPECT_EQ(differing(cuda, result.at(), copies[inputs]->at(), result.bytes()), 0);
  }

  std::vector<real> fetched(const void *at, int64_t count) {
    std::vector<uint8_t> bits(bytes(count));
    copy_bytes(cuda, bits.data(), at, bits.size());
    std::vector<real> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(load(p.type, &bits[bytes(i)]));
    return values;
  }

  static constexpr size_t margin = 4096;
  static constexpr uint8_t poison = 0xa5;
  large_param p = GetParam();
  const size_t inputs = inputs_of(p.way);
  std::vector<std::unique_ptr<block>> storage;
  scratch_room room;
};

#define SLUICE_ROOM(...)                                                                                     \
  if (!make_room(__VA_ARGS__)) GTEST_SKIP() << "the device has no room for more than 2^31 elements"

TEST_P(softmax_large, many_rows) {
  const int64_t n = 1031, rows = two_to_31 / n + 5, alike = 61;
  SLUICE_ROOM(rows * n, alike * n, p.way == direction::forward_with_lse, rows);
  block lse(cuda, size_t(4 * rows));
  run(views(rows, n, n), lse.at());
  expect_period(rows * n, alike * n);
  expect_margin_untouched(rows * n);
  expect_as_alone(views(rows, n, n), alike);
  if (p.way != direction::forward_with_lse) return;
  EXPECT_EQ(differing(cuda, lse.at(), lse.at(4 * alike), size_t(4 * (rows - alike))), 0);
}

// More rows than a grid has blocks along one axis, and than 31 bits count.
TEST_P(softmax_large, more_rows_than_31_bits) {
  const int64_t n = 2, rows = two_to_31 + 5, alike = 61;
  SLUICE_ROOM(rows * n, alike * n, p.way == direction::forward_with_lse, rows);
  block lse(cuda, size_t(4 * rows));
  run(views(rows, n, n), lse.at());
  expect_period(rows * n, alike * n);
  expect_margin_untouched(rows * n);
  expect_as_alone(views(rows, n, n), alike);
}

TEST_P(softmax_large, one_long_row) {
  const int64_t n = two_to_31 + 21, period = drawn_period;
  SLUICE_ROOM(n, period);
  block lse(cuda, 4);
  run(views(1, n, n), lse.at());
  // Pieces of a row may take their exponentials against maxima of their own: not the same bits, but neighbours.
  EXPECT_LE(most_apart(cuda, result(), result(period), n - period, int32_t(size())), 8);
  expect_margin_untouched(n);

  // The row in float64: whole periods and a part of one.
  std::vector<real> first = fetched(storage[0]->at(), period), second = fetched(storage[1]->at(), period);
  std::vector<real> got = fetched(result(), period);
  auto total = [&](auto &&term) {
    real whole = 0, part = 0;
    for (int64_t j = 0; j < period; ++j) {
      whole += term(size_t(j));
      if (j == n % period - 1) part = whole;
    }
    return whole * real(n / period) + part;
  };
  bool backward = p.way == direction::backward;
  real sum = backward ? total([&](size_t j) { return first[j] * second[j]; })
                      : total([&](size_t j) { return std::exp(first[j]); });
  for (size_t j = 0; j < size_t(period); ++j) {
    real want = backward ? second[j] * (first[j] - sum) : std::exp(first[j]) / sum;
    // Backward D is rounded to float32 at least once before the difference.
    real allowed = 4 * ulp(p.type, want) + (backward ? std::fabs(second[j] * sum) * 0x1p-22L : 0);
    ASSERT_NEAR(double(got[j]), double(want), double(allowed)) << "column " << j;
  }
  if (p.way != direction::forward_with_lse) return;
  float found = 0;
  copy_bytes(cuda, &found, lse.at(), 4);
  EXPECT_NEAR(double(found), double(std::log(sum)), double(4 * ulp(dtype::f32, std::log(sum))));
}

TEST_P(softmax_large, rows_far_apart) {
  const int64_t n = 1000, apart = two_to_31 + 7, elements = apart + n;
  SLUICE_ROOM(elements, drawn_period);
  for (size_t k = 0; k < inputs; ++k)
    copy_bytes(cuda, storage[k]->at(bytes(apart)), storage[k]->at(), bytes(n));
  block lse(cuda, 8);
  run(views(2, n, apart), lse.at());
  expect_as_alone(views(2, n, apart), 1);
  EXPECT_EQ(differing(cuda, result(), result(apart), bytes(n)), 0);
  expect_margin_untouched(elements);
  // Between the rows nothing was written.
  storage[0].reset();
  int64_t gap = std::min<int64_t>(apart - n, int64_t(1) << 28);
  block clean(cuda, bytes(gap));
  clean.fill(poison);
  for (int64_t from = n; from < apart; from += gap)
    EXPECT_EQ(differing(cuda, result(from), clean.at(), bytes(std::min(gap, apart - from))), 0);
}

TEST_P(softmax_large, columns_far_apart) {
  const int64_t n = 40001, apart = 65537, elements = n * apart;
  SLUICE_ROOM(elements, drawn_period);
  block lse(cuda, 8);
  for (int64_t rows : {1, 2}) {
    run(views(rows, n, 3, apart), lse.at());
    expect_as_alone(views(rows, n, 3, apart), rows);
  }
  expect_margin_untouched(elements);
}

TEST_P(softmax_large, side_by_side) {
  const int64_t n = 32771, side = 65541, some = 129;
  static_assert(n * side > two_to_31);
  SLUICE_ROOM(n * side, drawn_period);
  block lse(cuda, size_t(4 * side));
  rows_views made = views(side, n, 1, side);
  run(made, lse.at());
  expect_margin_untouched(n * side);
  for (rows_view &v : made) v.data = static_cast<uint8_t *>(v.data) + bytes(side - some);
  expect_as_alone(made, some);
}

std::vector<large_param> large_params() {
  std::vector<large_param> list;
  for (direction way : {direction::forward, direction::forward_with_lse, direction::backward})
    for (dtype type : {dtype::bf16, dtype::f32}) list.push_back({way, type});
  return list;
}

INSTANTIATE_TEST_SUITE_P(all, softmax_large, testing::ValuesIn(large_params()), [](const auto &info) {
  return std::string("cuda_") + name_of(info.param.way) + "_" + facts(info.param.type).name;
});

} // namespace
} // namespace sluice::test
