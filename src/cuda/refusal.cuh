// refusal.cuh: an error code of the CUDA runtime as a failure that carries the driver's words.
#pragma once

#include <cuda_runtime.h>

#include "core/result.hpp"

namespace sluice::cuda {

// The runtime also keeps an error in a slot of its own, which a later call of ours might answer again: it is
// emptied. The slot is that of our own static runtime, so the host's pending errors stay where they are.
inline failure refusal(sluice_status status, const char *what, cudaError_t error) {
  (void)cudaGetLastError();
  return fail(status, "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

inline result<void> accepted(const char *what, cudaError_t error) {
  if (error == cudaSuccess) return {};
  return refusal(SLUICE_CUDA_FAILED, what, error);
}

}  // namespace sluice::cuda
