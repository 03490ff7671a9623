// gpu_floor.hpp: the least time in which this GPU moves given bytes, found by trying. A committed list of plain kernels
// that read and write as many bytes as the operation does, and compute nothing; the fastest of them is the floor.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <string>
#include <vector>

#include "bench.hpp"

namespace bench {

// Enqueues the move: bytes.written to `to`, bytes.read from `a`, and from `b` what exceeds bytes.written. Addresses are
// multiples of 16, and memory reaches to the next such multiple.
struct gpu_floor_kernel {
  std::string name; // "8 loads, streamed, blocks of 1024"
  std::function<void(void *to, const void *a, const void *b, cudaStream_t stream)> move;
};

// Those of the list that the current device can run. A kernel that writes less than a quarter of what it reads counts
// as one that only reads.
std::vector<gpu_floor_kernel> gpu_floor_kernels(traffic bytes);

} // namespace bench
