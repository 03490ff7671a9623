// descriptor.hpp: reads a sized descriptor of any age. The rule is that of extensible structs in system
// calls: a missing tail counts as zero, an unknown one must be zero.
#pragma once

#include <cstddef>
#include <cstring>

#include "core/result.hpp"

namespace sluice {

inline constexpr size_t largest_descriptor = 4096;

// `first_size`: sizeof in the first version that had the struct.
template <typename D>
result<D> read_descriptor(const D *user, const char *name, size_t first_size) {
  D mine = {};
  mine.struct_size = sizeof(D);
  if (!user) return mine;
  size_t size = user->struct_size;
  if (size < first_size || size > largest_descriptor)
    return fail(SLUICE_INVALID_ARGUMENT, "%s.struct_size is %zu, want sizeof of the struct (%zu to %zu)",
                name, size, first_size, largest_descriptor);
  const char *bytes = reinterpret_cast<const char *>(user);
  for (size_t i = sizeof(D); i < size; ++i)
    if (bytes[i] != 0)
      return fail(SLUICE_UNSUPPORTED,
                  "%s.struct_size is %zu, want at most %zu or zeros behind: built for a newer sluice", name,
                  size, sizeof(D));
  std::memcpy(&mine, user, size < sizeof(D) ? size : sizeof(D));
  mine.struct_size = sizeof(D);
  return mine;
}

}  // namespace sluice
