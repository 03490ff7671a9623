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

constexpr int blocks = 1024, threads = 256;

template <typename F>
__device__ void for_each_of(int64_t count, F &&f) {
  for (int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x; i < count; i += int64_t(blocks) * threads)
    f(i);
}

template <typename T>
__global__ void copy_elements(T *to, int64_t to_step, const T *from, int64_t from_step, int64_t count) {
  for_each_of(count, [&](int64_t i) { to[i * to_step] = from[i * from_step]; });
}

// W: what one thread compares at a time, where both stretches are aligned to it.
template <typename W>
__global__ void count_differing(const W *a, const W *b, int64_t words, unsigned long long *sum) {
  unsigned long long mine = 0;
  for_each_of(words, [&](int64_t i) {
    if (a[i] == b[i]) return;
    for (unsigned byte = 0; byte < sizeof(W); ++byte) mine += ((a[i] ^ b[i]) >> (8 * byte) & W(0xff)) != 0;
  });
  if (mine) atomicAdd(sum, mine);
}

template <typename T>
__global__ void find_most_apart(const T *a, const T *b, int64_t count, unsigned long long *most) {
  unsigned long long mine = 0;
  for_each_of(count, [&](int64_t i) {
    auto apart = static_cast<unsigned long long>(llabs(static_cast<long long>(a[i]) - b[i]));
    mine = apart > mine ? apart : mine;
  });
  if (mine) atomicMax(most, mine);
}

// What `fill`, given a number on the device that is 0, made of it; -1 on failure.
template <typename F>
int64_t found_by(F &&fill) {
  static thread_local unsigned long long *on_device = nullptr; // of the device that is current first
  if (!on_device && cudaMalloc(&on_device, sizeof *on_device) != cudaSuccess) return -1;
  if (cudaMemset(on_device, 0, sizeof *on_device) != cudaSuccess) return -1;
  fill(on_device);
  unsigned long long found = 0;
  if (cudaGetLastError() != cudaSuccess) return -1;
  if (cudaMemcpy(&found, on_device, sizeof found, cudaMemcpyDefault) != cudaSuccess) return -1;
  return int64_t(found);
}

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

int32_t sluice_testkit_fill(void *to, uint8_t byte, size_t bytes) {
  return cudaMemsetAsync(to, byte, bytes, nullptr);
}

int32_t sluice_testkit_copy_steps(void *to, int64_t to_step, const void *from, int64_t from_step,
                                  int64_t count, int32_t size) {
  auto copy = [&]<typename T>(T) {
    copy_elements<<<blocks, threads>>>(static_cast<T *>(to), to_step, static_cast<const T *>(from), from_step,
                                       count);
  };
  switch (size) {
    case 1: copy(uint8_t()); break;
    case 2: copy(uint16_t()); break;
    case 4: copy(uint32_t()); break;
    case 8: copy(uint64_t()); break;
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

int64_t sluice_testkit_differing(const void *a, const void *b, size_t bytes) {
  return found_by([=](unsigned long long *sum) {
    auto count = [=]<typename W>(W) {
      count_differing<<<blocks, threads>>>(static_cast<const W *>(a), static_cast<const W *>(b),
                                           int64_t(bytes / sizeof(W)), sum);
    };
    uintptr_t bits = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) | bytes;
    bits % 8 == 0 ? count(uint64_t()) : bits % 2 == 0 ? count(uint16_t()) : count(uint8_t());
  });
}

int64_t sluice_testkit_most_apart(const void *a, const void *b, int64_t count, int32_t size) {
  if (size != 2 && size != 4) return -1;
  return found_by([=](unsigned long long *most) {
    auto find = [=]<typename T>(T) {
      find_most_apart<<<blocks, threads>>>(static_cast<const T *>(a), static_cast<const T *>(b), count, most);
    };
    size == 2 ? find(int16_t()) : find(int32_t());
  });
}

size_t sluice_testkit_free_bytes(void) {
  size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
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

int32_t sluice_testkit_stream_sync(void *stream) {
  return cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
}

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
