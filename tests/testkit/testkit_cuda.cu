// testkit_cuda.cu: the testkit over CUDA's runtime, with a cudart of its own (static), beside the library's.
#include <cuda_runtime.h>

#include "testkit/testkit.h"

namespace {

// Makes a device current and gives the caller's back at the end of the scope.
struct device_scope {
  int before = -1;
  cudaError_t error;
  explicit device_scope(int device) {
    cudaGetDevice(&before);
    error = cudaSetDevice(device);
  }
  ~device_scope() {
    if (before >= 0) cudaSetDevice(before);
  }
};

}  // namespace

extern "C" {

int32_t sluice_testkit_devices(void) {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void *sluice_testkit_alloc(int32_t device_type, int32_t device_id, size_t bytes) {
  device_scope scope(device_id);
  void *memory = nullptr;
  cudaError_t error = scope.error;
  if (error == cudaSuccess) {
    switch (device_type) {
      case 2: error = cudaMalloc(&memory, bytes); break;
      case 3: error = cudaMallocHost(&memory, bytes); break;
      case 13: error = cudaMallocManaged(&memory, bytes); break;
      default: error = cudaErrorInvalidValue;
    }
  }
  return error == cudaSuccess ? memory : nullptr;
}

void sluice_testkit_free(int32_t device_type, int32_t device_id, void *memory) {
  device_scope scope(device_id);
  device_type == 3 ? cudaFreeHost(memory) : cudaFree(memory);
}

int32_t sluice_testkit_copy(void *to, const void *from, size_t bytes) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}

int32_t sluice_testkit_sync(int32_t device_id) {
  device_scope scope(device_id);
  return scope.error == cudaSuccess ? cudaDeviceSynchronize() : scope.error;
}

int32_t sluice_testkit_current_device(void) {
  int device = -1;
  return cudaGetDevice(&device) == cudaSuccess ? device : -1;
}

int32_t sluice_testkit_set_device(int32_t device_id) { return cudaSetDevice(device_id); }

void *sluice_testkit_stream_create(void) {
  cudaStream_t stream = nullptr;
  return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess ? stream : nullptr;
}

void sluice_testkit_stream_destroy(void *stream) { cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }

int32_t sluice_testkit_capture_begin(void *stream) {
  return cudaStreamBeginCapture(static_cast<cudaStream_t>(stream), cudaStreamCaptureModeGlobal);
}

void *sluice_testkit_capture_end(void *stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  if (cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &graph) != cudaSuccess) return nullptr;
  if (cudaGraphInstantiate(&executable, graph, 0) != cudaSuccess) executable = nullptr;
  cudaGraphDestroy(graph);
  return executable;
}

int32_t sluice_testkit_graph_launch(void *graph, void *stream) {
  return cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), static_cast<cudaStream_t>(stream));
}

void sluice_testkit_graph_destroy(void *graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }
}
