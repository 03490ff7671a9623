// softmax_bench_cpu.cpp: the cases on the CPU.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "bench.hpp"
#include "cpu_floor.hpp"
#include "softmax_bench.hpp"
#include "softmax_case.hpp"

namespace bench {

namespace {

std::vector<softmax_case> all_cases() {
  std::vector<softmax_case> cases;
  // A tensor of this size in rows of n; size 0: one row.
  auto add = [&](work what, sluice_dtype dtype, int64_t mib, int64_t n) {
    cases.push_back(in_rows(what, dtype, mib, mib ? 0 : 1, n));
    if (!mib) cases.back().name = "one row, " + std::to_string(n) + " columns";
  };
  for (int64_t n : {256, 1000, 4096, 32768, 128256}) add(work::forward, f32, 64, n);
  for (int64_t n : {256, 1000, 4096, 32768, 128256}) add(work::forward, f32, 0, n);
  for (int64_t n : {4096, 128256}) add(work::forward, f32, 256, n);
  // numpy's large arrays begin 16 bytes into a line.
  cases.push_back({"64 MiB, 256 columns, 16 bytes off a line", work::forward, f32, {65536, 256}});
  cases.back().shift = 16;
  cases.push_back({"64 MiB, 4096 columns, causal", work::forward, f32, {4096, 4096}});
  cases.back().causal = true;
  cases.push_back({"dim 1 of (32, 1024, 2048)", work::forward, f32, {32, 1024, 2048}, 1});
  for (sluice_dtype dtype : {bf16, f16}) add(work::forward, dtype, 256, 128256);
  for (int64_t n : {4096, 128256}) add(work::logsumexp, f32, 256, n);
  for (int64_t n : {256, 4096, 128256}) add(work::backward, f32, 64, n);
  add(work::backward, f32, 0, 128256);
  for (int64_t n : {4096, 128256}) add(work::backward, f32, 256, n);
  for (sluice_dtype dtype : {bf16, f16}) add(work::backward, dtype, 256, 128256);
  return cases;
}

mix mix_of(const softmax_case &c) {
  return c.what == work::forward ? mix::copy : c.what == work::backward ? mix::combine : mix::read_only;
}

// ---- Buffers --------------------------------------------------------------------------------------------------------

// `sets` buffers of `bytes` in huge pages, as numpy's large arrays are.
struct region {
  region(int64_t bytes, int64_t sets, int64_t shift = 0)
      : shift(shift), stride((bytes + shift + 63) / 64 * 64) {
    constexpr int64_t huge = 2 << 20;
    size_t total = size_t((stride * sets / huge + 1) * huge); // never 0
    base.reset(static_cast<char *>(std::aligned_alloc(huge, total)));
    if (!base) {
      std::fprintf(stderr, "softmax_bench: no memory for %zu bytes\n", total);
      std::exit(1);
    }
    madvise(base.get(), total, MADV_HUGEPAGE);
    std::memset(base.get(), 0, total);
  }
  char *line_of(int64_t set) const { return base.get() + set * stride; }
  char *of(int64_t set) const { return line_of(set) + shift; }

  struct give_back {
    void operator()(char *p) const { std::free(p); }
  };
  int64_t shift, stride;
  std::unique_ptr<char, give_back> base;
};

// Numbers of either sign and magnitudes from 1/4 to 8, written as bits of the dtype.
void fill(char *to, int64_t elements, sluice_dtype dtype, uint64_t seed) {
  bits_of_float bits = bits_of(dtype);
  for (int64_t i = 0; i < elements; ++i) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15u); // splitmix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    uint64_t exponent = uint64_t(bits.bias - 2) + ((z >> 40) * 5 >> 24);
    uint64_t value = (z >> 39 & 1) << (dtype.bits - 1) | exponent << bits.mantissa |
                     (z & ((uint64_t(1) << bits.mantissa) - 1));
    std::memcpy(to + i * sluice::bytes_of(dtype), &value, size_t(sluice::bytes_of(dtype)));
  }
}

std::vector<double> read(const void *from, int64_t offset, int64_t count, int64_t stride,
                         sluice_dtype dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(element(from, offset + i * stride, dtype));
  return values;
}

// ---- One case -------------------------------------------------------------------------------------------------------

void run_case(const softmax_case &c, const sluice_context *context, const budget &allowed, bool json) {
  bool backward = c.what == work::backward;
  int64_t tensor_bytes = c.tensor_bytes(), sets = buffer_sets(c.bytes());
  region a(tensor_bytes, sets, c.shift), b(backward ? tensor_bytes : 0, sets, c.shift);
  region z(c.result_bytes(), sets, c.shift);
  softmax_call ours(c, context, {1, 0});
  ours.use(a.of(0), b.of(0), z.of(0));

  fill(a.of(0), c.elements(), c.dtype, 1);
  if (backward) {
    size_t bytes = ours.workspace_of_make_y();
    region scratch(int64_t(bytes), 1);
    ours.make_y(a.of(0), scratch.of(0), bytes, nullptr);
    fill(b.of(0), c.elements(), c.dtype, 2);
  }
  for (int64_t set = 1; set < sets; ++set) {
    std::memcpy(a.of(set), a.of(0), size_t(tensor_bytes));
    if (backward) std::memcpy(b.of(set), b.of(0), size_t(tensor_bytes));
  }

  size_t scratch_bytes = ours.workspace();
  region scratch(int64_t(scratch_bytes), 1);
  ours.run(scratch.of(0), scratch_bytes, nullptr);
  ours.check(read);
  softmax_call::planned plan = ours.plan(cores());

  std::vector<floor_kernel> floor = floor_kernels(mix_of(c), cores());
  std::vector<contestant> contestants = {{"sluice", [&](int64_t set) {
                                            ours.use(a.of(set), b.of(set), z.of(set));
                                            ours.run(scratch.of(0), scratch_bytes, nullptr);
                                          }}};
  for (const floor_kernel &kernel : floor)
    contestants.push_back({kernel.name, [&](int64_t set) {
                             run(kernel, z.line_of(set), a.line_of(set), b.line_of(set),
                                 size_t(tensor_bytes));
                           }});
  print(c, plan, sets, contestants, race(contestants, sets, allowed), json);
}

// What a call from Python is compared with: one small row, the same buffers every time.
void run_call(const sluice_context *context, const budget &allowed) {
  softmax_case c = in_rows(work::forward, f32, 0, 1, 256);
  region a(c.tensor_bytes(), 1), z(c.tensor_bytes(), 1);
  fill(a.of(0), c.elements(), c.dtype, 1);
  softmax_call ours(c, context, {1, 0});
  ours.use(a.of(0), nullptr, z.of(0));
  timing taken = race({{"sluice", [&](int64_t) { ours.run(nullptr, 0, nullptr); }}}, 1, allowed)[0];
  record("call").text("id", "call").number("us", taken.us).number("us_spread", taken.us_spread).print();
}

} // namespace

int softmax_on_cpu(const options &asked) {
  std::vector<softmax_case> cases = all_cases();
  if (asked.list) {
    for (const softmax_case &c : cases) record("case").text("id", c.id()).print();
    record("case").text("id", "call").print();
    return int(cases.size()) + 1;
  }

  sluice_context *context = nullptr;
  if (sluice_context_create(nullptr, &context) != SLUICE_OK) {
    std::fprintf(stderr, "softmax_bench: %s\n", sluice_last_error());
    std::exit(1);
  }
  if (asked.json)
    record("machine").text("library", sluice_build_info()).number("threads", cores()).print();
  else
    print_head();
  budget allowed = asked.quick ? budget{60, 5, 9} : budget{400, 7, 41};
  int ran = 0;
  for (const softmax_case &c : cases)
    if (asked.wants(c.id())) run_case(c, context, allowed, asked.json), ++ran;
  if (asked.wants("call")) run_call(context, allowed), ++ran;
  sluice_context_destroy(context);
  return ran;
}

} // namespace bench
