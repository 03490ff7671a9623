// cpu_floor.hpp: the least time in which this CPU moves given bytes, found by trying. A committed list of plain kernels
// that read and write as many bytes as the operation does, and compute nothing; the fastest of them is the floor.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace bench {

enum class mix {
  copy, // one read, one write: y = f(x)
  combine, // two reads, one write: dx = f(y, dy)
  read_only // one read: a reduction
};

// Moves `bytes` of `to` from a (and b). Addresses are multiples of 64.
struct floor_kernel {
  std::string name; // "avx512 stream x4, ahead 1024, all threads"
  void (*move)(void *to, const void *a, const void *b, size_t bytes);
  int threads;
  size_t block; // bytes dealt to the threads in turn; 0: one slice each
};

// Those of the list that this CPU can run, for `threads` threads.
std::vector<floor_kernel> floor_kernels(mix what, int threads);

// Runs it on the floor's own threads, which wait between calls.
void run(const floor_kernel &kernel, void *to, const void *a, const void *b, size_t bytes);

// Cores of the affinity mask: what "all threads" means for everybody here.
int cores();

} // namespace bench
