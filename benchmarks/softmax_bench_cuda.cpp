// softmax_bench_cuda.cpp: the cases on a GPU.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "bench.hpp"
#include "gpu_floor.hpp"
#include "gpu_race.hpp"
#include "softmax_bench.hpp"
#include "softmax_case.hpp"

namespace bench {

namespace {

std::vector<softmax_case> all_cases() {
  std::vector<softmax_case> cases;
  constexpr int64_t mib = 256;
  for (sluice_dtype dtype : {f32, bf16, f16}) {
    for (int64_t n : {32, 128, 512, 1000, 1024, 4096, 4097, 8192, 16384, 32768, 65536, 128255, 128256, 262144,
                      524288, 1048576})
      cases.push_back(in_rows(work::forward, dtype, mib, 0, n));
    for (int64_t rows : {1, 32}) cases.push_back(in_rows(work::forward, dtype, 0, rows, 128256));
    for (int64_t n : {512, 1024, 4096, 16384, 32768, 65536, 128256, 262144, 1048576})
      cases.push_back(in_rows(work::backward, dtype, mib, 0, n));
    for (int64_t n : {4096, 128256}) cases.push_back(in_rows(work::logsumexp, dtype, mib, 0, n));
  }
  for (sluice_dtype dtype : {f32, bf16})
    cases.push_back({"dim 1 of (32, 1024, 2048)", work::forward, dtype, {32, 1024, 2048}, 1});

  softmax_case attention = {"(32, 16, 1024, 1024)", work::forward, bf16, {32, 16, 1024, 1024}};
  cases.push_back(attention);
  cases.push_back(attention);
  cases.back().name += ", scale, mask and lengths";
  cases.back().masked = true;
  cases.push_back(attention);
  cases.back().name += ", causal";
  cases.back().causal = true;
  return cases;
}

void fill(void *to, int64_t elements, sluice_dtype dtype, uint32_t seed, cudaStream_t stream) {
  bits_of_float bits = bits_of(dtype);
  gpu_fill(to, elements, dtype.bits, bits.mantissa, bits.bias, seed, stream);
}

std::vector<double> read(const void *from, int64_t offset, int64_t count, int64_t stride,
                         sluice_dtype dtype) {
  size_t size = size_t(sluice::bytes_of(dtype));
  std::vector<char> bytes(size_t(count) * size);
  const char *first = static_cast<const char *>(from) + size_t(offset) * size;
  if (stride == 1)
    must_cuda(cudaMemcpy(bytes.data(), first, bytes.size(), cudaMemcpyDeviceToHost));
  else
    must_cuda(cudaMemcpy2D(bytes.data(), size, first, size_t(stride) * size, size, size_t(count),
                           cudaMemcpyDeviceToHost));
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(element(bytes.data(), i, dtype));
  return values;
}

// ---- One case -------------------------------------------------------------------------------------------------------

void run_case(const softmax_case &c, const sluice_context *context, const gpu &device, gpu_memory &memory,
              const budget &allowed, bool json) {
  memory.clear();
  bool backward = c.what == work::backward;
  int64_t tensor_bytes = c.tensor_bytes(), sets = device.buffer_sets(c.bytes());
  softmax_call ours(c, context, {2, 0});

  // The mask is one for all sets: beside x it is small, and alone it exceeds the cache.
  char *mask = memory.take(c.mask_elements() * sluice::bytes_of(c.dtype));
  char *lengths = memory.take(c.masked ? c.shape[0] * 4 : 0);
  if (c.masked) {
    std::vector<int32_t> values;
    for (int64_t batch = 0; batch < c.shape[0]; ++batch) values.push_back(int32_t(c.length(batch)));
    must_cuda(cudaMemcpy(lengths, values.data(), values.size() * 4, cudaMemcpyHostToDevice));
    fill(mask, c.mask_elements(), c.dtype, 0, device.stream);
    ours.use_effects(mask, lengths);
  }

  struct buffers {
    char *a, *b, *z;
  };
  std::vector<buffers> of;
  for (int64_t set = 0; set < sets; ++set) {
    buffers s = {memory.take(tensor_bytes), memory.take(backward ? tensor_bytes : 0),
                 memory.take(c.result_bytes())};
    fill(s.a, c.elements(), c.dtype, uint32_t(2 * set + 1), device.stream);
    if (backward) fill(s.b, c.elements(), c.dtype, uint32_t(2 * set + 2), device.stream);
    of.push_back(s);
  }
  ours.use(of[0].a, of[0].b, of[0].z);
  if (backward) {
    size_t bytes = ours.workspace_of_make_y();
    char *scratch = memory.take(int64_t(bytes));
    for (const buffers &s : of) ours.make_y(s.a, scratch, bytes, device.stream);
  }

  size_t scratch_bytes = ours.workspace();
  char *scratch = memory.take(int64_t(scratch_bytes));
  must_cuda(cudaMemsetAsync(of[0].z, 0xff, size_t(c.result_bytes()),
                            device.stream)); // NaN where nothing is written
  ours.run(scratch, scratch_bytes, device.stream);
  must_cuda(cudaStreamSynchronize(device.stream));
  ours.check(read);
  softmax_call::planned plan = ours.plan(device.multiprocessors);

  std::vector<gpu_floor_kernel> floor = gpu_floor_kernels(c.moved());
  std::vector<contestant> contestants = {{"sluice", [&](int64_t set) {
                                            ours.use(of[size_t(set)].a, of[size_t(set)].b, of[size_t(set)].z);
                                            ours.run(scratch, scratch_bytes, device.stream);
                                          }}};
  for (const gpu_floor_kernel &kernel : floor)
    contestants.push_back({kernel.name, [&](int64_t set) {
                             const buffers &s = of[size_t(set)];
                             kernel.move(s.z, s.a, c.masked ? mask : s.b, device.stream);
                           }});
  print(c, plan, sets, contestants, device.race(contestants, sets, allowed), json);
}

// Time of the host: one small row on a stream, beside a bare launch. Fewer calls at once than a stream takes before it
// makes the host wait.
void run_call(const sluice_context *context, const gpu &device, gpu_memory &memory, bool json) {
  memory.clear();
  softmax_case c = in_rows(work::forward, f32, 0, 1, 256);
  softmax_call ours(c, context, {2, 0});
  ours.use(memory.take(c.tensor_bytes()), nullptr, memory.take(c.tensor_bytes()));
  auto host_time_of = [&](auto call) {
    constexpr int calls = 256;
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    must_cuda(cudaStreamSynchronize(device.stream));
    return seconds / calls;
  };
  std::vector<double> call, bare;
  for (int sample = 0; sample < 41; ++sample) {
    call.push_back(host_time_of([&] { ours.run(nullptr, 0, device.stream); }));
    bare.push_back(host_time_of([&] { gpu_launch_nothing(device.stream); }));
  }
  timing taken = timing_of(call), launch = timing_of(bare);
  if (json)
    record("call")
        .text("id", "call")
        .number("us", taken.us)
        .number("us_spread", taken.us_spread)
        .number("launch_us", launch.us)
        .print();
  else
    std::printf(
        "call of one row of 256 columns: %.2f us of the host's time, a bare launch %.2f, over it %.2f\n",
        taken.us, launch.us, taken.us - launch.us);
}

} // namespace

bool gpu_present() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

int softmax_on_gpu(const options &asked) {
  std::vector<softmax_case> cases = all_cases();
  if (asked.list) {
    for (const softmax_case &c : cases) record("case").text("id", c.id()).print();
    record("case").text("id", "call").print();
    return int(cases.size()) + 1;
  }

  sluice_context_desc desc = {};
  desc.struct_size = sizeof desc;
  desc.device_type = 2;
  sluice_context *context = nullptr;
  if (sluice_context_create(&desc, &context) != SLUICE_OK ||
      sluice_context_warm(context, nullptr) != SLUICE_OK) {
    std::fprintf(stderr, "softmax_bench: %s\n", sluice_last_error());
    std::exit(1);
  }
  gpu device(0);
  gpu_memory memory(size_t(5) << 30); // two sets of the largest case, 1 GiB a tensor, and its mask
  if (asked.json)
    record("machine").text("library", sluice_build_info()).text("cuda", device.runtime).print();
  else
    print_head();
  budget allowed = asked.quick ? budget{6, 5, 9} : budget{25, 9, 31};
  int ran = 0;
  for (const softmax_case &c : cases)
    if (asked.wants(c.id())) run_case(c, context, device, memory, allowed, asked.json), ++ran;
  if (asked.wants("call")) run_call(context, device, memory, asked.json), ++ran;
  sluice_context_destroy(context);
  return ran;
}

} // namespace bench
