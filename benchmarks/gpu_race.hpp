// gpu_race.hpp: the race on a GPU. Contestants enqueue work; what is timed are replays of graphs of several calls each,
// so that neither the host nor the gaps between launches on a stream count.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench.hpp"

namespace bench {

void must_cuda(cudaError_t error); // ends the program with its text

struct gpu {
  explicit gpu(int ordinal); // makes it current, and its clocks warm
  ~gpu();
  gpu(const gpu &) = delete;

  std::string name, runtime; // runtime: CUDA's version, "13.0"
  int multiprocessors = 0;
  int64_t l2_bytes = 0;
  cudaStream_t stream = nullptr;

  // Calls rotate through so many sets of buffers of this size that together they exceed the second-level cache twice.
  int64_t buffer_sets(int64_t bytes_of_one) const;
  // Contestants enqueue on `stream`, and may be captured. A graph holds at least `sets` calls.
  std::vector<timing> race(const std::vector<contestant> &contestants, int64_t sets,
                           const budget &allowed) const;
};

// Memory of the current device that a case carves up; the next case begins anew.
class gpu_memory {
 public:
  explicit gpu_memory(size_t bytes);
  void clear() { used = 0; }
  char *take(int64_t bytes);

 private:
  struct give_back {
    void operator()(char *p) const { cudaFree(p); }
  };
  std::unique_ptr<char, give_back> base;
  size_t size, used = 0;
};

// Numbers of either sign and magnitudes from 1/4 to 8, written as bits of the dtype: `bits` in all, of which `mantissa`
// for the fraction, and the exponent's bias.
void gpu_fill(void *to, int64_t elements, int bits, int mantissa, int bias, uint32_t seed,
              cudaStream_t stream);

// A kernel that does nothing: what a call on the host is compared with.
void gpu_launch_nothing(cudaStream_t stream);

} // namespace bench
