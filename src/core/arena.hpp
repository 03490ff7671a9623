// arena.hpp: hands out pieces of one block of scratch. Over no base it only adds up, so an op's carve() both
// measures and lays out, and the two cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/limits.hpp"

namespace sluice {

class arena {
 public:
  arena() = default;
  explicit arena(void *base) : base(static_cast<char *>(base)) {}

  // Room for `count` of T, aligned to 256 bytes; nullptr while only counting or for a count of 0.
  template <typename T>
  T *take(int64_t count) {
    if (count == 0) return nullptr;
    used = (used + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
    T *piece = base ? reinterpret_cast<T *>(base + used) : nullptr;
    used += size_t(count) * sizeof(T);
    return piece;
  }

  size_t used = 0;

 private:
  char *base = nullptr;
};

}  // namespace sluice
