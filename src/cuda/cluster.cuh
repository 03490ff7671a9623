// cluster.cuh: blocks that run together and write into each other's shared memory, from sm_90 on. Elsewhere this
// compiles to nothing, and no plan asks for it.
#pragma once

#include <cstdint>

namespace sluice::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define SLUICE_HAS_CLUSTERS 1
#else
#define SLUICE_HAS_CLUSTERS 0
#endif

__device__ inline uint32_t shared_address(const void *p) { return uint32_t(__cvta_generic_to_shared(p)); }

__device__ inline int block_of_cluster() {
  uint32_t rank = 0;
#if SLUICE_HAS_CLUSTERS
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return int(rank);
}

// A barrier in two halves, over all threads of the cluster.
__device__ inline void arrive_at_cluster() {
#if SLUICE_HAS_CLUSTERS
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ inline void wait_for_cluster() {
#if SLUICE_HAS_CLUSTERS
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Counts bytes that other blocks send. One thread a phase says how many; all may wait for them.
class mailbox {
 public:
  __device__ void open() {
#if SLUICE_HAS_CLUSTERS
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&state)) : "memory");
#endif
  }
  // Makes the boxes of this block known to the others, before they meet at a barrier.
  static __device__ void publish() {
#if SLUICE_HAS_CLUSTERS
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  __device__ void expect(uint32_t bytes) {
#if SLUICE_HAS_CLUSTERS
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state)),
                 "r"(bytes)
                 : "memory");
#endif
  }
  __device__ void wait(uint32_t phase) {
#if SLUICE_HAS_CLUSTERS
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(shared_address(&state)),
                 "r"(phase)
                 : "memory");
#endif
  }
  // Writes 16 bytes to where `to` lies in another block, and counts them in its box.
  __device__ void send(int block, const void *to, const void *what) const {
#if SLUICE_HAS_CLUSTERS
    const uint32_t *word = static_cast<const uint32_t *>(what);
    uint32_t there, box;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(to)), "r"(block));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(box) : "r"(shared_address(&state)), "r"(block));
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::
            "r"(there),
        "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3]), "r"(box)
        : "memory");
#endif
  }

 private:
  uint64_t state;
};

} // namespace sluice::cuda
