// device.hpp: a CUDA device as host code sees it, with no CUDA header. device.cu answers; where the CUDA half
// is left out, device_stub.cpp answers that there is none.
#pragma once

#include <sluice/core.h>

#include <cstdint>

#include "core/result.hpp"

namespace sluice::cuda {

// How many clusters of 1, 2, 4, 8 and 16 blocks run at once, where a multiprocessor has room for `share` blocks of
// 256 threads, by their shared memory; 0: none.
inline constexpr int cluster_sizes = 5, most_share = 3;
struct cluster_counts {
  int32_t of_share[most_share + 1][cluster_sizes];
};

struct facts {
  int32_t ordinal;
  int32_t major, minor; // compute capability
  int32_t multiprocessors;
  int64_t shared_bytes; // per block, with opt-in
  int64_t l2_bytes;
  cluster_counts clusters;
};

// SLUICE_NO_DEVICE with the reason where there is no such device, no driver or no CUDA half.
result<facts> open(int32_t ordinal);

// Makes the device current and answers which one was, for leave() to restore. Where it is current already,
// neither of them touches anything.
inline constexpr int32_t nothing_to_leave = -1;
result<int32_t> enter(const facts &device);
void leave(int32_t previous);

// Waits for the stream, unless it is capturing.
result<void> wait(sluice_stream stream);

} // namespace sluice::cuda
