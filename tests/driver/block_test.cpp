// block_test.cpp: what tests on a GPU believe in, tested there: that a stray byte shows, and that bytes are counted, laid
// out and compared as on the host.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "driver/block.hpp"
#include "driver/driver.hpp"
#include "testkit/testkit.h"

namespace sluice::test {
namespace {

class device_memory : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override { SLUICE_SKIP_WITHOUT(GetParam()); }
  const int32_t device = GetParam();

  std::vector<uint8_t> fetched(const block &b) const {
    std::vector<uint8_t> bytes(b.bytes());
    if (device == cpu)
      std::copy_n(b.at(), b.bytes(), bytes.begin());
    else
      EXPECT_EQ(sluice_testkit_copy(bytes.data(), b.at(), b.bytes()), 0);
    return bytes;
  }
};

TEST_P(device_memory, every_byte_that_differs_is_counted) {
  constexpr size_t size = 5000017;
  block a(device, size), b(device, size);
  for (size_t offset : {0, 1, 2, 4, 8}) {
    a.fill(7), b.fill(7);
    EXPECT_EQ(differing(device, a.at(offset), b.at(offset), size - 16), 0);
    EXPECT_EQ(differing(device, a.at(offset), b.at(0), size - 16), 0);
    for (size_t at : {size_t(8), size_t(9), size / 2, size - 9}) b.fill(8, at, 1);
    EXPECT_EQ(differing(device, a.at(offset), b.at(offset), size - offset), 4) << offset;
    EXPECT_EQ(differing(device, a.at(8), b.at(8), 1), 1);
    EXPECT_EQ(differing(device, a.at(10), b.at(10), 1000), 0);
  }
}

TEST_P(device_memory, most_apart_is_in_whole_numbers) {
  const std::vector<int32_t> one = {5, -7, 1 << 30, 0}, other = {5, 5, (1 << 30) - 3, 1};
  block a(device, 16), b(device, 16);
  copy_bytes(device, a.at(), one.data(), 16);
  copy_bytes(device, b.at(), other.data(), 16);
  EXPECT_EQ(most_apart(device, a.at(), b.at(), 4, 4), 12);
  EXPECT_EQ(most_apart(device, a.at(8), b.at(8), 2, 4), 3);
  EXPECT_EQ(most_apart(device, a.at(), b.at(), 1, 4), 0);
  EXPECT_EQ(most_apart(device, a.at(12), b.at(12), 2, 2), 1);
}

TEST_P(device_memory, steps_go_either_way) {
  block from(device, 64), to(device, 64);
  std::vector<uint8_t> numbers(64);
  for (size_t i = 0; i < 64; ++i) numbers[i] = uint8_t(i);
  for (int32_t size : {1, 2, 4, 8}) {
    copy_bytes(device, from.at(), numbers.data(), 64);
    to.fill(0xee);
    copy_steps(device, to.at(), 2, from.at(size_t(3 * size)), -1, 4, size);
    std::vector<uint8_t> got = fetched(to);
    for (size_t i = 0; i < 64; ++i) {
      size_t element = i / size_t(size), byte = i % size_t(size);
      bool written = element % 2 == 0 && element < 8;
      EXPECT_EQ(got[i], written ? (3 - element / 2) * size_t(size) + byte : 0xee) << size << ", byte " << i;
    }
  }
}

TEST_P(device_memory, a_period_is_laid_end_to_end) {
  block b(device, 1000);
  const uint8_t period[] = {1, 2, 3, 4, 5, 6, 7};
  copy_bytes(device, b.at(), period, 7);
  b.repeat(7);
  std::vector<uint8_t> got = fetched(b);
  for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(got[i], i % 7 + 1);
}

#if !defined(__SANITIZE_ADDRESS__) // which ends the program at the first of these
TEST_P(device_memory, a_stray_byte_shows) {
  auto write = [&](uint8_t *at) {
    const uint8_t byte = 0;
    copy_bytes(device, at, &byte, 1);
  };
  if (std::getenv("SLUICE_TEST_NO_BANDS")) GTEST_SKIP() << "there are no bands";
  for (ptrdiff_t at : {ptrdiff_t(-1), ptrdiff_t(-512), ptrdiff_t(100), ptrdiff_t(611)}) {
    memory m(device, 100, 0xff);
    m.upload();
    m.download();
    EXPECT_TRUE(m.untouched());
    write(m.address() + at);
    m.download();
    EXPECT_FALSE(m.guards_untouched()) << at;
  }
  operand o{.name = "y", .shape = {3, 5}, .output = true};
  const layout padded = layouts[3];
  placed y(device, o, padded);
  write(y.store.address());
  y.store.download();
  EXPECT_TRUE(y.only_elements_changed());
  write(y.store.address() + 5 * 4); // the gap behind the first row
  y.store.download();
  EXPECT_FALSE(y.only_elements_changed());
}
#endif

INSTANTIATE_TEST_SUITE_P(all, device_memory, testing::Values(cpu, cuda),
                         [](const auto &info) { return device_name(info.param); });

} // namespace
} // namespace sluice::test
