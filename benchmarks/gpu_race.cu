// gpu_race.cu: the race on a GPU, its memory and its numbers.
#include "gpu_race.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace bench {

void must_cuda(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

namespace {

template <typename T>
__global__ void fill(T *to, int64_t elements, int mantissa, int bias, uint32_t seed) {
  int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += step) {
    uint64_t z = (uint64_t(i) + (uint64_t(seed) << 40)) * 0x9e3779b97f4a7c15u;  // splitmix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    uint64_t exponent = uint64_t(bias - 2) + ((z >> 40) * 5 >> 24);
    to[i] = T((z >> 39 & 1) << (8 * sizeof(T) - 1) | exponent << mantissa |
              (z & ((uint64_t(1) << mantissa) - 1)));
  }
}

__global__ void nothing() {}

// A graph of several calls, and the events around its replays.
struct replay {
  replay(const contestant &who, int64_t calls, int64_t sets, cudaStream_t stream) : calls(calls) {
    cudaGraph_t graph;
    must_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int64_t call = 0; call < calls; ++call) who.call(call % sets);
    must_cuda(cudaStreamEndCapture(stream, &graph));
    must_cuda(cudaGraphInstantiate(&ready, graph, 0));
    must_cuda(cudaGraphDestroy(graph));
    must_cuda(cudaEventCreate(&begin));
    must_cuda(cudaEventCreate(&end));
  }
  replay(const replay &) = delete;
  ~replay() {
    cudaGraphExecDestroy(ready);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
  }

  void enqueue(cudaStream_t stream) {
    must_cuda(cudaEventRecord(begin, stream));
    must_cuda(cudaGraphLaunch(ready, stream));
    must_cuda(cudaEventRecord(end, stream));
  }
  double seconds_of_one() const {
    float ms = 0;
    must_cuda(cudaEventElapsedTime(&ms, begin, end));
    return ms * 1e-3 / double(calls);
  }

  int64_t calls;
  cudaGraphExec_t ready;
  cudaEvent_t begin, end;
};

// Long enough that what a graph's launch itself takes, a few us, does not count.
constexpr double sample_seconds = 1e-3;

}  // namespace

gpu::gpu(int ordinal) {
  must_cuda(cudaSetDevice(ordinal));
  cudaDeviceProp facts;
  must_cuda(cudaGetDeviceProperties(&facts, ordinal));
  name = facts.name;
  multiprocessors = facts.multiProcessorCount;
  l2_bytes = facts.l2CacheSize;
  must_cuda(cudaStreamCreate(&stream));
  int version = 0;
  must_cuda(cudaRuntimeGetVersion(&version));
  runtime = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);

  gpu_memory some(size_t(1) << 30);
  char *p = some.take(1 << 30);
  for (int i = 0; i < 1000; ++i)  // 0.3 s
    must_cuda(cudaMemcpyAsync(p, p + (1 << 29), 1 << 29, cudaMemcpyDeviceToDevice, stream));
  must_cuda(cudaStreamSynchronize(stream));
}

gpu::~gpu() { cudaStreamDestroy(stream); }

int64_t gpu::buffer_sets(int64_t bytes_of_one) const {
  return std::clamp<int64_t>(2 * l2_bytes / std::max<int64_t>(bytes_of_one, 1) + 1, 2, 1024);
}

std::vector<timing> gpu::race(const std::vector<contestant> &contestants, int64_t sets,
                              const budget &allowed) const {
  std::vector<std::unique_ptr<replay>> replays;
  double turn = 0;
  for (const contestant &who : contestants) {
    who.call(0);
    replay few(who, 2, sets, stream);
    for (int i = 0; i < 2; ++i) few.enqueue(stream);
    must_cuda(cudaStreamSynchronize(stream));
    double once = few.seconds_of_one();
    int64_t calls = std::clamp<int64_t>(int64_t(std::ceil(sample_seconds / once)), sets, 4096);
    replays.push_back(std::make_unique<replay>(who, calls, sets, stream));
    replays.back()->enqueue(stream);  // uploads it
    turn += once * double(calls);
  }
  must_cuda(cudaStreamSynchronize(stream));

  size_t count = contestants.size();
  double affordable = allowed.ms * 1e-3 * double(count) / turn;
  size_t samples = size_t(std::clamp(affordable, double(allowed.least), double(allowed.most)));
  std::vector<std::vector<double>> taken(count);
  for (size_t sample = 0; sample < samples; ++sample) {
    // One after the other without a pause, each time in another order: nobody always follows the same one.
    for (size_t i = 0; i < count; ++i)
      replays[(i * (sample % 2 ? count - 1 : 1) + sample) % count]->enqueue(stream);
    must_cuda(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < count; ++i) taken[i].push_back(replays[i]->seconds_of_one());
  }

  std::vector<timing> timings;
  for (const std::vector<double> &seconds : taken) timings.push_back(timing_of(seconds));
  return timings;
}

gpu_memory::gpu_memory(size_t bytes) : size(bytes) {
  void *p = nullptr;
  must_cuda(cudaMalloc(&p, bytes));
  base.reset(static_cast<char *>(p));
}

char *gpu_memory::take(int64_t bytes) {
  char *p = base.get() + used;
  used += (size_t(bytes) + 511) / 512 * 512;
  if (used <= size) return p;
  std::fprintf(stderr, "a case needs %zu bytes of device memory, more than the %zu set aside\n", used, size);
  std::exit(1);
}

void gpu_fill(void *to, int64_t elements, int bits, int mantissa, int bias, uint32_t seed,
              cudaStream_t stream) {
  if (bits == 32)
    fill<<<2048, 256, 0, stream>>>(static_cast<uint32_t *>(to), elements, mantissa, bias, seed);
  else
    fill<<<2048, 256, 0, stream>>>(static_cast<uint16_t *>(to), elements, mantissa, bias, seed);
  must_cuda(cudaGetLastError());
}

void gpu_launch_nothing(cudaStream_t stream) {
  nothing<<<1, 32, 0, stream>>>();
  must_cuda(cudaGetLastError());
}

}  // namespace bench
