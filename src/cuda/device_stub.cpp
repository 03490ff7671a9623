// device_stub.cpp: device.hpp for a build without CUDA.
#include "cuda/device.hpp"

namespace sluice::cuda {
namespace {

failure absent() { return fail(SLUICE_NO_DEVICE, "this library was built without CUDA"); }

}  // namespace

result<facts> open(int32_t) { return absent(); }
result<int32_t> enter(const facts &) { return absent(); }
void leave(int32_t) {}
result<void> wait(sluice_stream) { return absent(); }

}  // namespace sluice::cuda
