// block.hpp: memory of a device with no image on the host, for what is too large or repeated too often for memory.hpp:
// filled, laid out and compared where it lies. A tensor's element sizes and steps are its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::test {

class block {
 public:
  block(int32_t device, size_t bytes); // at() is nullptr where the device has no room
  ~block();
  block(const block &) = delete;
  block &operator=(const block &) = delete;

  uint8_t *at(size_t byte = 0) const { return base ? base + byte : nullptr; } // from a 256-byte boundary
  size_t bytes() const { return size; }

  void fill(uint8_t byte) { fill(byte, 0, size); }
  void fill(uint8_t byte, size_t from, size_t count);

  // Lays the first `period` bytes end to end over the whole block, the last time in part.
  void repeat(size_t period);

 private:
  int32_t device;
  size_t size;
  uint8_t *base;
};

// Between blocks of the device, or from the host.
void copy_bytes(int32_t device, void *to, const void *from, size_t bytes);
// Elements of 1, 2, 4 or 8 bytes, with the steps between them in elements.
void copy_steps(int32_t device, void *to, int64_t to_step, const void *from, int64_t from_step, int64_t count,
                int32_t size);
// Waits for all of the device's work, and fails the test if some of it failed.
void finish(int32_t device);
// In how many bytes two stretches of the device differ.
int64_t differing(int32_t device, const void *a, const void *b, size_t bytes);
// The largest difference of two elements of 2 or 4 bytes as integers: for floats of one sign, how many numbers apart.
int64_t most_apart(int32_t device, const void *a, const void *b, int64_t count, int32_t size);

} // namespace sluice::test
