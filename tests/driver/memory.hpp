// memory.hpp: a stretch of a device's memory between two guard bands, with its image on the host before and after a
// call. Whatever a call wrote beside its results shows as a difference between the two images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::test {

class memory {
 public:
  // `poison` fills all bytes that are not set through before().
  memory(int32_t device, size_t bytes, uint8_t poison);
  ~memory();
  memory(const memory &) = delete;
  memory &operator=(const memory &) = delete;

  uint8_t *before() { return written.data() + guard; } // what upload() sends
  const uint8_t *before() const { return written.data() + guard; }
  const uint8_t *after() const { return found.data() + guard; } // what download() found
  uint8_t *address() const { return base + guard; } // on the device; 256-byte aligned
  size_t bytes() const { return size; }

  void upload();
  void download();
  // Takes the device's present bytes as the image before: what is written from here on counts as touched.
  void forget() { written = found; }
  // Whether nothing at all changed, the guard bands included.
  bool untouched() const { return written == found; }
  bool guards_untouched() const;

 private:
  const size_t guard; // bytes of either band
  int32_t device;
  size_t size;
  uint8_t *base = nullptr;
  std::vector<uint8_t> written, found;
};

} // namespace sluice::test
