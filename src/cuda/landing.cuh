// landing.cuh: lines of a row on their way from device memory to shared memory while a warp does other work, from
// sm_80 on; before that the copy happens at once.
#pragma once

#include "cuda/cluster.cuh"
#include "cuda/lines.cuh"

namespace sluice::cuda {

// 16 bytes.
__device__ inline void copy_soon(uint4 *to, const void *from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
#else
  *to = *static_cast<const uint4 *>(from);
#endif
}
__device__ inline void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Where a warp's part of a row lands: the blocks of 16 bytes that hold it, one more than lines where it begins
// inside one. Lane l fetches and takes blocks l, l + 32, ..., and the neighbours of what it takes.
template <int lines>
struct landing {
  uint4 block[32 * lines + 1];

  // From `column` on, at most to the row's end at n.
  template <typename T, bool aligned>
  __device__ void fetch(const strip<T, aligned> &row, int64_t column, int64_t n) {
    const char *from = reinterpret_cast<const char *>(row.at(column)) - row.past();
    const int bytes = within_int((n - column) * int64_t(sizeof(T))) + row.past(), lane = threadIdx.x % 32;
    auto one = [&](int b) {
      if ((b + 1) * line_bytes <= bytes) copy_soon(&block[b], from + b * line_bytes);
    };
#pragma unroll
    for (int k = 0; k < lines; ++k) one(32 * k + lane);
    if constexpr (!aligned) {
      if (row.past() && lane == 0) one(32 * lines);
      // The end of the row, of which no more is read than there is.
      const int last = bytes / line_bytes * line_bytes + lane * int(sizeof(T));
      if (lane < line_columns<T> && last < bytes && last < int(sizeof block))
        reinterpret_cast<T *>(block)[last / int(sizeof(T))] = *reinterpret_cast<const T *>(from + last);
    }
  }

  // After wait_for_copies(). `filler` from the row's end on.
  template <typename T>
  __device__ void take(line (&to)[lines], int past, int64_t column, int64_t n, T filler) const {
    constexpr int columns = line_columns<T>;
    const int lane = threadIdx.x % 32, left = within_int(n - column) - lane * columns;
    __syncwarp();
#pragma unroll
    for (int k = 0; k < lines; ++k) {
      to[k] = line_of(block[32 * k + lane]);
      if (past) to[k] = joined(to[k], line_of(block[32 * k + lane + 1]), past);
    }
    __syncwarp();
    if (n - column < 32 * lines * columns)
#pragma unroll
      for (int k = 0; k < lines; ++k)
#pragma unroll
        for (int i = 0; i < columns; ++i)
          if (k * 32 * columns + i >= left) set_column<T>(to[k], i, bits_of(filler));
  }
};

} // namespace sluice::cuda
