// device.cu: device.hpp's answers. No call here waits for the device but wait().
#include "cuda/device.hpp"

#include <cuda_runtime.h>

#include "cuda/launch.cuh"
#include "cuda/refusal.cuh"

namespace sluice::cuda {
namespace {

// Asks for nothing; that it loads shows that this library holds code for the device.
__global__ void probe() {}

result<void> want_ordinal(int32_t ordinal) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    int driver = 0;  // 0: there is none, which the runtime itself calls too old
    bool absent = cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
    return refusal(SLUICE_NO_DEVICE, absent ? "no CUDA driver" : "no CUDA device", error);
  }
  if (ordinal < 0 || ordinal >= count)
    return fail(SLUICE_NO_DEVICE, "desc.device_id is %d, want less than %d, the number of CUDA devices",
                ordinal, count);
  return {};
}

// The device's partitions differ from one device to the next of the same kind, so it is asked.
int32_t clusters_at_once(int blocks, int threads, int64_t shared_bytes) {
  if (cudaFuncSetAttribute(probe, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes)) !=
          cudaSuccess ||
      cudaFuncSetAttribute(probe, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {unsigned(blocks), 1, 1};
  cudaLaunchConfig_t how = {};
  how.gridDim = dim3(unsigned(blocks));
  how.blockDim = dim3(unsigned(threads));
  how.dynamicSmemBytes = size_t(shared_bytes);
  how.attrs = &cluster;
  how.numAttrs = 1;
  int count = 0;
  if (cudaOccupancyMaxActiveClusters(&count, probe, &how) == cudaSuccess) return count;
  (void)cudaGetLastError();
  return 0;
}

void count_clusters(facts &device) {
  if (device.major < 9) return;
  for (int share = 1; share <= most_share; ++share)
    for (int i = 0; i < cluster_sizes; ++i)
      device.clusters.of_share[share][i] = clusters_at_once(1 << i, 256, device.shared_bytes / share - 2048);
}

// Creates the device's context where the process has none yet, which the first launch would do otherwise.
result<void> want_code(facts &device) {
  auto current = enter(device);
  if (!current) return fail(SLUICE_NO_DEVICE, "%s", current.error().text);
  auto loaded = warm(probe);
  if (loaded) count_clusters(device);
  leave(*current);
  if (loaded) return {};
  return fail(SLUICE_NO_DEVICE, "CUDA device %d (sm_%d%d): %s", device.ordinal, device.major, device.minor,
              loaded.error().text);
}

}  // namespace

result<facts> open(int32_t ordinal) {
  if (auto fine = want_ordinal(ordinal); !fine) return fine.error();
  facts device = {};
  device.ordinal = ordinal;
  int shared_bytes = 0, l2_bytes = 0;
  const struct {
    int *value;
    cudaDeviceAttr which;
  } wanted[] = {
      {&device.major, cudaDevAttrComputeCapabilityMajor},
      {&device.minor, cudaDevAttrComputeCapabilityMinor},
      {&device.multiprocessors, cudaDevAttrMultiProcessorCount},
      {&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin},
      {&l2_bytes, cudaDevAttrL2CacheSize},
  };
  for (auto [value, which] : wanted)
    if (cudaError_t error = cudaDeviceGetAttribute(value, which, ordinal); error != cudaSuccess)
      return refusal(SLUICE_NO_DEVICE, "facts of the CUDA device", error);
  device.shared_bytes = shared_bytes;
  device.l2_bytes = l2_bytes;
  if (auto fine = want_code(device); !fine) return fine.error();
  return device;
}

result<int32_t> enter(const facts &device) {
  int previous = 0;
  if (auto r = accepted("the current device", cudaGetDevice(&previous)); !r) return r.error();
  if (previous == device.ordinal) return int32_t(nothing_to_leave);
  if (auto r = accepted("making the device current", cudaSetDevice(device.ordinal)); !r) return r.error();
  return int32_t(previous);
}

void leave(int32_t previous) {
  if (previous == nothing_to_leave) return;
  if (cudaSetDevice(previous) != cudaSuccess) (void)cudaGetLastError();
}

result<void> wait(sluice_stream stream) {
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cudaError_t error = cudaStreamIsCapturing(stream, &capturing);
  // The legacy default stream may not even be asked while another stream captures in global mode.
  if (error == cudaErrorStreamCaptureImplicit) {
    (void)cudaGetLastError();
    return {};
  }
  if (auto r = accepted("asking whether the stream captures", error); !r) return r;
  if (capturing != cudaStreamCaptureStatusNone) return {};
  return accepted("waiting for the stream", cudaStreamSynchronize(stream));
}

}  // namespace sluice::cuda
