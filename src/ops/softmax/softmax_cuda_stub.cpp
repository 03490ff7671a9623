// softmax_cuda_stub.cpp: run.hpp's CUDA half for a build without it. No CUDA context exists there, so none of
// these is reached.
#include "ops/softmax/run.hpp"

namespace sluice::softmax {
namespace {

failure absent() { return fail(SLUICE_INTERNAL, "a CUDA plan in a library built without CUDA"); }

} // namespace

result<void> run_cuda(const plan &, const scratch &, const addresses &, sluice_stream) { return absent(); }
result<void> run_cuda(const backward_plan &, const backward_scratch &, const addresses &, const gradients &,
                      sluice_stream) {
  return absent();
}
result<void> warm_cuda(const sluice_context &) { return absent(); }
result<void> warm_backward_cuda(const sluice_context &) { return absent(); }

} // namespace sluice::softmax
