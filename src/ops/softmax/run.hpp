// run.hpp: the two halves that do what a plan says.
#pragma once

#include <sluice/core.h>

#include "core/result.hpp"
#include "ops/softmax/softmax.hpp"

namespace sluice::softmax {

result<void> run_cpu(const sluice_context &context, const plan &p, const scratch &s, const addresses &data);
result<void> run_cpu(const sluice_context &context, const backward_plan &p, const backward_scratch &s,
                     const addresses &data, const gradients &out);

// Enqueue on the current device. softmax_cuda_stub.cpp answers where the CUDA half is left out.
result<void> run_cuda(const plan &p, const scratch &s, const addresses &data, sluice_stream stream);
result<void> run_cuda(const backward_plan &p, const backward_scratch &s, const addresses &data,
                      const gradients &out, sluice_stream stream);

// Load the kernels on the current device.
result<void> warm_cuda(const sluice_context &context);
result<void> warm_backward_cuda(const sluice_context &context);

}  // namespace sluice::softmax
