// gpu_floor.cu: plain kernels that move bytes. A tensor is cut into tiles of a block's threads times its loads; which
// shape moves them fastest differs with the size and with the mix of reads and writes, so all are tried.
#include "gpu_floor.hpp"

#include <algorithm>
#include <cstdint>

#include "gpu_race.hpp"

namespace bench {

namespace {

enum class mix {
  copy, // as much read as written
  combine, // all of a, and the share of b that is read besides
  sparse, // less read than written
  read_only
};

// Lengths are in vectors of 16 bytes. Of the tiles of `to` (read_only: of a), share / 2^32 also read a tile of
// `extra`, evenly spread.
struct job {
  uint4 *to;
  const uint4 *a, *extra;
  int64_t length, extra_length;
  uint64_t share;
};

// ---- Accesses -------------------------------------------------------------------------------------------------------

__device__ inline uint4 load(const uint4 *from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

template <bool streamed>
__device__ inline void store(uint4 *to, uint4 v) {
  if constexpr (streamed)
    __stcs(to, v);
  else
    *to = v;
}

__device__ inline uint4 operator^(uint4 a, uint4 b) {
  return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w);
}

// Whether this tile reads one of `extra` too, and which.
__device__ inline bool draws(const job &j, int64_t tile, int64_t &drawn) {
  uint64_t before = uint64_t(tile) * j.share;
  drawn = int64_t(before >> 32);
  return (before + j.share) >> 32 != before >> 32;
}

// ---- Threads that load and store ------------------------------------------------------------------------------------

template <int loads>
__device__ inline void load_tile(uint4 (&v)[loads], const uint4 *from, int64_t tile, int64_t length) {
  int64_t first = tile * blockDim.x * loads + threadIdx.x;
#pragma unroll
  for (int u = 0; u < loads; ++u) {
    int64_t i = first + int64_t(u) * blockDim.x;
    v[u] = i < length ? load(from + i) : make_uint4(0, 0, 0, 0);
  }
}

template <mix what, int loads, bool streamed>
__device__ inline void move_tile(const job &j, int64_t tile) {
  uint4 v[loads] = {}, w[loads] = {};
  int64_t drawn = 0;
  if constexpr (what != mix::sparse) load_tile(v, j.a, tile, j.length);
  if constexpr (what == mix::combine || what == mix::sparse)
    if (draws(j, tile, drawn)) load_tile(w, j.extra, drawn, j.extra_length);

  int64_t first = tile * blockDim.x * loads + threadIdx.x;
  uint4 all = {};
#pragma unroll
  for (int u = 0; u < loads; ++u) {
    int64_t i = first + int64_t(u) * blockDim.x;
    if constexpr (what == mix::read_only)
      all = all ^ v[u];
    else if (i < j.length)
      store<streamed>(j.to + i, v[u] ^ w[u]);
  }
  // Never so, which the compiler cannot know: it keeps the loads.
  if (what == mix::read_only && (all.x & all.y & all.z & all.w) == 0x9e3779b9u) *j.to = all;
}

// A block for each tile: the hardware hands out blocks as others end.
template <mix what, int loads, bool streamed>
__global__ void tile_per_block(job j) {
  move_tile<what, loads, streamed>(j, blockIdx.x);
}

// As many blocks as the GPU holds at once, striding over the tiles.
template <mix what, int loads, bool streamed>
__global__ void resident_blocks(job j, int64_t tiles) {
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) move_tile<what, loads, streamed>(j, tile);
}

// ---- The bulk copy engine -------------------------------------------------------------------------------------------

__device__ inline uint32_t shared_address(const void *p) { return uint32_t(__cvta_generic_to_shared(p)); }

constexpr int most_stages = 16;

// One thread keeps a ring of stages full of tiles on their way in and out of shared memory.
template <mix what>
__global__ void bulk_ring(job j, int stage_length, int stages) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) uint4 ring[]; // [stages, combine: 2, stage_length]
  __shared__ uint64_t arrivals[most_stages];
  constexpr int inputs = what == mix::combine ? 2 : 1;
  if (threadIdx.x != 0) return;

  for (int s = 0; s < stages; ++s)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrivals + s)));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");

  int64_t tiles = (j.length + stage_length - 1) / stage_length;
  int64_t mine = tiles > blockIdx.x ? (tiles - blockIdx.x - 1) / gridDim.x + 1 : 0;
  auto tile_of = [&](int64_t k) { return blockIdx.x + k * gridDim.x; };
  auto bytes_of = [&](int64_t tile, int64_t length) {
    return uint32_t(min(int64_t(stage_length), length - tile * stage_length) * 16);
  };
  auto stage_of = [&](int64_t k) { return ring + (k % stages) * inputs * stage_length; };

  auto fetch = [&](uint4 *to, const uint4 *from, int64_t tile, uint32_t bytes, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(to)),
        "l"(from + tile * stage_length), "r"(bytes), "r"(barrier)
        : "memory");
  };
  auto fill = [&](int64_t k) {
    int64_t tile = tile_of(k), drawn = 0;
    uint32_t first = 0, second = 0, barrier = shared_address(arrivals + k % stages);
    if (what != mix::sparse) first = bytes_of(tile, j.length);
    if ((what == mix::combine || what == mix::sparse) && draws(j, tile, drawn))
      second = bytes_of(drawn, j.extra_length);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(first + second)
                 : "memory");
    if (first) fetch(stage_of(k), j.a, tile, first, barrier);
    if (second) fetch(stage_of(k) + (inputs - 1) * stage_length, j.extra, drawn, second, barrier);
  };
  auto await = [&](int64_t k) {
    uint32_t there = 0;
    while (!there)
      asm volatile(
          "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
          : "=r"(there)
          : "r"(shared_address(arrivals + k % stages)), "r"(uint32_t(k / stages) & 1)
          : "memory");
  };

  for (int64_t k = 0; k < mine && k < stages; ++k) fill(k);
  for (int64_t k = 0; k < mine; ++k) {
    await(k);
    if constexpr (what == mix::read_only) {
      if (k + stages < mine) fill(k + stages);
    } else {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                       j.to + tile_of(k) * stage_length),
                   "r"(shared_address(stage_of(k))), "r"(bytes_of(tile_of(k), j.length))
                   : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      // The stage before this one is free once the engine has read it; this one may stay on its way out.
      if (k > 0 && k - 1 + stages < mine) {
        asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        fill(k - 1 + stages);
      }
    }
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

// ---- The list -------------------------------------------------------------------------------------------------------

int64_t vectors(int64_t bytes) { return (bytes + 15) / 16; }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <mix what>
std::vector<gpu_floor_kernel> list(job shape) {
  std::vector<gpu_floor_kernel> kernels;
  int device = 0, multiprocessors = 0, major = 0;
  must_cuda(cudaGetDevice(&device));
  must_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  must_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));

  auto add = [&](std::string name, auto enqueue) {
    kernels.push_back({name, [=](void *to, const void *a, const void *b, cudaStream_t stream) {
                         job j = shape;
                         j.to = static_cast<uint4 *>(to);
                         j.a = static_cast<const uint4 *>(a);
                         j.extra = what == mix::combine ? static_cast<const uint4 *>(b) : j.a;
                         enqueue(j, stream);
                         must_cuda(cudaGetLastError());
                       }});
  };
  auto describe = [](int loads, bool streamed, int block) {
    return std::to_string(loads) + (loads == 1 ? " load" : " loads") +
           (streamed && what != mix::read_only ? ", streamed" : "") + ", blocks of " + std::to_string(block);
  };
  auto tiles = [&]<int loads, bool streamed>(int block) {
    add(describe(loads, streamed, block), [=](const job &j, cudaStream_t stream) {
      tile_per_block<what, loads, streamed>
          <<<unsigned(ceil_div(j.length, block * loads)), block, 0, stream>>>(j);
    });
  };
  auto resident = [&]<int loads, bool streamed>(int block) {
    auto kernel = resident_blocks<what, loads, streamed>;
    int each = 0;
    must_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, block, 0));
    add("resident, " + describe(loads, streamed, block), [=](const job &j, cudaStream_t stream) {
      int64_t count = ceil_div(j.length, block * loads), at_once = multiprocessors * each;
      kernel<<<unsigned(std::min(count, at_once)), block, 0, stream>>>(j, count);
    });
  };
  auto ring = [&](int stage_kib, int stages) {
    if (major < 9) return;
    int stage_bytes = (stage_kib << 10) * (what == mix::combine ? 2 : 1);
    must_cuda(cudaFuncSetAttribute(bulk_ring<what>, cudaFuncAttributeMaxDynamicSharedMemorySize, 216 << 10));
    add("bulk copies, " + std::to_string(stages) + " stages of " + std::to_string(stage_kib) + " KiB",
        [=](const job &j, cudaStream_t stream) {
          bulk_ring<what><<<multiprocessors, 32, stage_bytes * stages, stream>>>(j, stage_kib << 6, stages);
        });
  };

  tiles.template operator()<1, false>(256);
  tiles.template operator()<1, false>(1024);
  tiles.template operator()<2, true>(512);
  tiles.template operator()<4, false>(256);
  tiles.template operator()<4, true>(512);
  if constexpr (what != mix::combine) // twice the registers do not fit
    tiles.template operator()<8, true>(1024);
  else
    tiles.template operator()<4, true>(1024);
  resident.template operator()<1, false>(512);
  resident.template operator()<4, true>(512);
  ring(16, 6);
  ring(32, 3);
  if constexpr (what == mix::copy)
    add("cudaMemcpyAsync", [](const job &j, cudaStream_t stream) {
      must_cuda(cudaMemcpyAsync(j.to, j.a, size_t(j.length) * 16, cudaMemcpyDeviceToDevice, stream));
    });
  return kernels;
}

} // namespace

std::vector<gpu_floor_kernel> gpu_floor_kernels(traffic bytes) {
  job shape = {};
  shape.length = vectors(bytes.written);
  auto share = [&](int64_t extra) {
    shape.extra_length = vectors(extra);
    shape.share = uint64_t(double(shape.extra_length) / double(shape.length) * 0x1p32);
  };
  if (bytes.written * 4 < bytes.read) {
    shape.length = vectors(bytes.read);
    return list<mix::read_only>(shape);
  }
  if (bytes.read == bytes.written) return list<mix::copy>(shape);
  if (bytes.read > bytes.written) {
    share(bytes.read - bytes.written);
    return list<mix::combine>(shape);
  }
  share(bytes.read);
  return list<mix::sparse>(shape);
}

} // namespace bench
