// launch.cuh: the one way in which kernels are launched, and loaded ahead of it. An error comes back as a
// value: the `<<<>>>` of CUDA would leave it in a slot that nobody reads.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <type_traits>

#include "core/result.hpp"
#include "cuda/refusal.cuh"

namespace sluice::cuda {

// What a launch asks for beside its grid: dynamic shared memory, and how many blocks make a cluster.
struct launch_extras {
  int shared_bytes = 0, cluster_blocks = 1;
};

// Enqueues kernel(arguments...), each argument converted to the kernel's parameter. Callers have checked what
// they pass, so a refusal speaks of the stream or of the device; guard() puts the operation's name before the
// text.
template <typename... Parameters>
result<void> launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, launch_extras extras,
                    sluice_stream stream, const std::type_identity_t<Parameters> &...arguments) {
  cudaLaunchConfig_t how = {};
  how.gridDim = grid;
  how.blockDim = block;
  how.stream = stream;
  how.dynamicSmemBytes = size_t(extras.shared_bytes);
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {unsigned(extras.cluster_blocks), 1, 1};
  if (extras.cluster_blocks > 1) how.attrs = &cluster, how.numAttrs = 1;
  void *addresses[] = {const_cast<void *>(static_cast<const void *>(&arguments))...};
  cudaError_t error = cudaLaunchKernelExC(&how, reinterpret_cast<const void *>(kernel), addresses);
  if (error == cudaSuccess) return {};
  char what[96];
  std::snprintf(what, sizeof what, "launching %u x %u blocks of %u x %u threads on stream %p", grid.x, grid.y,
                block.x, block.y, static_cast<void *>(stream));
  return refusal(SLUICE_CUDA_FAILED, what, error);
}

template <typename... Parameters>
result<void> launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, sluice_stream stream,
                    const std::type_identity_t<Parameters> &...arguments) {
  return launch(kernel, grid, block, {}, stream, arguments...);
}

// Lets the kernel have more shared memory and larger clusters than every device grants. Loads its code.
template <typename... Parameters>
result<void> allow(void (*kernel)(Parameters...), launch_extras extras) {
  auto *code = reinterpret_cast<const void *>(kernel);
  auto shared =
      accepted("shared memory of a kernel",
               cudaFuncSetAttribute(code, cudaFuncAttributeMaxDynamicSharedMemorySize, extras.shared_bytes));
  if (!shared || extras.cluster_blocks <= 8) return shared;
  return accepted("clusters of a kernel",
                  cudaFuncSetAttribute(code, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
}

// Loads the kernel's code on the current device, which a first launch would do otherwise.
template <typename... Parameters>
result<void> warm(void (*kernel)(Parameters...)) {
  cudaFuncAttributes facts;
  return accepted("loading a kernel", cudaFuncGetAttributes(&facts, reinterpret_cast<const void *>(kernel)));
}

} // namespace sluice::cuda
