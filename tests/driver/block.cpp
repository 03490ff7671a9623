// block.cpp: see block.hpp.
#include "driver/block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "driver/device.hpp"
#include "testkit/testkit.h"

namespace sluice::test {

block::block(int32_t device, size_t bytes) : device(device), size(bytes) {
  size_t whole = (bytes + 256) / 256 * 256;
  base = static_cast<uint8_t *>(device == cpu ? std::aligned_alloc(256, whole)
                                              : sluice_testkit_alloc(device, 0, whole));
}

block::~block() { device == cpu ? std::free(base) : base ? sluice_testkit_free(device, 0, base) : void(); }

void block::fill(uint8_t byte, size_t from, size_t count) {
  if (device == cpu)
    std::memset(base + from, byte, count);
  else
    EXPECT_EQ(sluice_testkit_fill(base + from, byte, count), 0);
}

void block::repeat(size_t period) {
  for (size_t done = period; done < size; done *= 2)
    copy_bytes(device, base + done, base, std::min(done, size - done));
}

void copy_bytes(int32_t device, void *to, const void *from, size_t bytes) {
  if (device == cpu)
    std::memcpy(to, from, bytes);
  else
    EXPECT_EQ(sluice_testkit_copy(to, from, bytes), 0);
}

namespace {

template <typename T>
void copy_on_the_host(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t count) {
  T *out = static_cast<T *>(to);
  const T *in = static_cast<const T *>(from);
  for (int64_t i = 0; i < count; ++i) out[i * to_step] = in[i * from_step];
}

} // namespace

void copy_steps(int32_t device, void *to, int64_t to_step, const void *from, int64_t from_step, int64_t count,
                int32_t size) {
  if (device != cpu) {
    EXPECT_EQ(sluice_testkit_copy_steps(to, to_step, from, from_step, count, size), 0);
    return;
  }
  switch (size) {
    case 1: return copy_on_the_host<uint8_t>(to, to_step, from, from_step, count);
    case 2: return copy_on_the_host<uint16_t>(to, to_step, from, from_step, count);
    case 4: return copy_on_the_host<uint32_t>(to, to_step, from, from_step, count);
    case 8: return copy_on_the_host<uint64_t>(to, to_step, from, from_step, count);
    default: ADD_FAILURE() << "no elements of " << size << " bytes";
  }
}

void finish(int32_t device) { EXPECT_EQ(device == cpu ? 0 : sluice_testkit_sync(0), 0); }

int64_t differing(int32_t device, const void *a, const void *b, size_t bytes) {
  if (device != cpu) return sluice_testkit_differing(a, b, bytes);
  if (std::memcmp(a, b, bytes) == 0) return 0;
  const uint8_t *one = static_cast<const uint8_t *>(a), *other = static_cast<const uint8_t *>(b);
  int64_t found = 0;
  for (size_t i = 0; i < bytes; ++i) found += one[i] != other[i];
  return found;
}

namespace {

template <typename T>
int64_t most_apart_on_the_host(const void *a, const void *b, int64_t count) {
  const T *one = static_cast<const T *>(a), *other = static_cast<const T *>(b);
  int64_t most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, std::abs(int64_t(one[i]) - int64_t(other[i])));
  return most;
}

} // namespace

int64_t most_apart(int32_t device, const void *a, const void *b, int64_t count, int32_t size) {
  if (device != cpu) return sluice_testkit_most_apart(a, b, count, size);
  return size == 2 ? most_apart_on_the_host<int16_t>(a, b, count)
                   : most_apart_on_the_host<int32_t>(a, b, count);
}

} // namespace sluice::test
