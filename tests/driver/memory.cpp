// memory.cpp: see memory.hpp. Under AddressSanitizer the guard bands of host memory are poisoned as well, so that a
// stray read shows too.
#include "driver/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "driver/device.hpp"
#include "testkit/testkit.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_TEST_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_TEST_ASAN 1
#endif
#ifdef SLUICE_TEST_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace sluice::test {

namespace {

constexpr uint8_t guard_byte = 0x5c;

void set_readable([[maybe_unused]] const uint8_t *at, [[maybe_unused]] size_t bytes,
                  [[maybe_unused]] bool readable) {
#ifdef SLUICE_TEST_ASAN
  readable ? __asan_unpoison_memory_region(at, bytes) : __asan_poison_memory_region(at, bytes);
#endif
}

// compute-sanitizer knows the end of each allocation to the byte, and bands would hide it.
bool has_bands() {
  static const bool has = !std::getenv("SLUICE_TEST_NO_BANDS");
  return has;
}

// Memory of a device is kept for the next test: taking and returning it takes longer than most calls.
std::multimap<size_t, uint8_t *> &kept() {
  static auto *list = new std::multimap<size_t, uint8_t *>;
  return *list;
}

uint8_t *take(int32_t device, size_t bytes) {
  if (device == cpu) return static_cast<uint8_t *>(std::aligned_alloc(256, bytes));
  if (auto found = kept().find(bytes); found != kept().end() && has_bands()) {
    uint8_t *at = found->second;
    kept().erase(found);
    return at;
  }
  return static_cast<uint8_t *>(sluice_testkit_alloc(device, 0, bytes));
}

void give_back(int32_t device, size_t bytes, uint8_t *at) {
  constexpr size_t largest = 1 << 20;
  if (device == cpu)
    std::free(at);
  else if (bytes <= largest && has_bands())
    kept().insert({bytes, at});
  else
    sluice_testkit_free(device, 0, at);
}

} // namespace

memory::memory(int32_t device, size_t bytes, uint8_t poison)
    : guard(has_bands() ? 512 : 0), device(device), size(bytes) {
  size_t whole = has_bands() ? (2 * guard + bytes + 255) / 256 * 256 : std::max<size_t>(bytes, 1);
  written.assign(whole, guard_byte);
  std::memset(before(), poison, bytes);
  found = written;
  base = take(device, whole);
  if (!base) {
    ADD_FAILURE() << "no memory for a test: " << whole << " bytes on " << device_name(device);
    std::abort();
  }
}

memory::~memory() {
  if (device == cpu) set_readable(base, written.size(), true);
  give_back(device, written.size(), base);
}

void memory::upload() {
  if (device != cpu) {
    EXPECT_EQ(sluice_testkit_copy(base, written.data(), written.size()), 0);
    return;
  }
  set_readable(base, written.size(), true);
  std::memcpy(base, written.data(), written.size());
  set_readable(base, guard, false);
  set_readable(base + guard + size, written.size() - guard - size, false);
}

void memory::download() {
  if (device != cpu) {
    EXPECT_EQ(sluice_testkit_copy(found.data(), base, found.size()), 0);
    return;
  }
  set_readable(base, written.size(), true);
  std::memcpy(found.data(), base, found.size());
  set_readable(base, guard, false);
  set_readable(base + guard + size, written.size() - guard - size, false);
}

bool memory::guards_untouched() const {
  return std::memcmp(found.data(), written.data(), guard) == 0 &&
         std::memcmp(found.data() + guard + size, written.data() + guard + size,
                     written.size() - guard - size) == 0;
}

} // namespace sluice::test
