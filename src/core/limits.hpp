// limits.hpp: the numbers that bound what a caller may ask for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

inline constexpr int max_axes = 64;           // of a tensor, as numpy and torch have it
inline constexpr int max_row_axes = 16;       // left after axes that walk together are joined
inline constexpr int64_t max_span_bytes =
    int64_t(1) << 60;  // so that no offset, nor a stride times its extent, overflows
inline constexpr size_t workspace_alignment = 256;
inline constexpr int32_t max_threads = 1024;

}  // namespace sluice
