// softmax_bench.cpp: softmax and its gradient on the CPU, raced against the kernels of the floor, which move the same
// bytes. Prints lines of JSON for run.py; `softmax_bench --list` names the cases, `--case NAME` runs one of them.
#include <sluice/sluice.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "bench.hpp"
#include "core/dtype.hpp"
#include "core/view.hpp"
#include "cpu_floor.hpp"
#include "ops/softmax/softmax.hpp"

namespace {

// ---- Cases ----------------------------------------------------------------------------------------------------------

enum class work { forward, backward, logsumexp };

struct bench_case {
  std::string name;
  work what;
  sluice_dtype dtype;
  std::vector<int64_t> shape;
  int axis = -1; // of softmax; -1: the last
  bool causal = false; // forward only
  int64_t shift = 0; // bytes by which tensors miss a line of the cache

  std::string pass() const { return what == work::backward ? "backward" : "forward"; }
  std::string dtype_name() const { return sluice::dtype_name(dtype).text; }
  std::string id() const { return pass() + " " + dtype_name() + " " + name; }
  int64_t elements() const {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    return n;
  }
  int64_t columns() const { return axis < 0 ? shape.back() : shape[size_t(axis)]; }
  int64_t tensor_bytes() const { return elements() * sluice::bytes_of(dtype); }
  bench::mix mix() const {
    return what == work::forward    ? bench::mix::copy
           : what == work::backward ? bench::mix::combine
                                    : bench::mix::read_only;
  }
  // What no method can avoid: each input once, each output once.
  int64_t bytes() const {
    int64_t rows = elements() / columns();
    return what == work::logsumexp ? tensor_bytes() + rows * 4
                                   : tensor_bytes() * (what == work::backward ? 3 : 2);
  }
};

constexpr sluice_dtype f32 = sluice::dtype_of<float>, f16 = sluice::dtype_of<sluice::float16>,
                       bf16 = sluice::dtype_of<sluice::bfloat16>;

std::vector<bench_case> all_cases() {
  std::vector<bench_case> cases;
  // A tensor of this size in rows of n; size 0: one row.
  auto add = [&](work what, sluice_dtype dtype, int64_t mib, int64_t n) {
    int64_t rows = mib ? (mib << 20) / (n * sluice::bytes_of(dtype)) : 1;
    std::string size = mib ? std::to_string(mib) + " MiB" : "one row";
    if (what == work::logsumexp) size = "logsumexp only, " + size;
    cases.push_back({size + ", " + std::to_string(n) + " columns", what, dtype, {rows, n}});
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
  int mantissa = dtype.code == sluice::kind_bfloat ? 7 : dtype.bits == 16 ? 10 : 23;
  int bias = dtype.bits == 16 && dtype.code == sluice::kind_float ? 15 : 127;
  for (int64_t i = 0; i < elements; ++i) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15u); // splitmix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    uint64_t exponent = uint64_t(bias - 2) + ((z >> 40) * 5 >> 24);
    uint64_t bits =
        (z >> 39 & 1) << (dtype.bits - 1) | exponent << mantissa | (z & ((uint64_t(1) << mantissa) - 1));
    std::memcpy(to + i * sluice::bytes_of(dtype), &bits, size_t(sluice::bytes_of(dtype)));
  }
}

double element(const char *from, int64_t i, sluice_dtype dtype) {
  if (dtype.bits == 32) return reinterpret_cast<const float *>(from)[i];
  if (dtype.code == sluice::kind_bfloat)
    return sluice::to_float(reinterpret_cast<const sluice::bfloat16 *>(from)[i]);
  return sluice::to_float(reinterpret_cast<const sluice::float16 *>(from)[i]);
}

// ---- One case -------------------------------------------------------------------------------------------------------

void must(sluice_status status, const bench_case &c) {
  if (status == SLUICE_OK) return;
  std::fprintf(stderr, "softmax_bench: %s: %s\n", c.id().c_str(), sluice_last_error());
  std::exit(1);
}

// The case's tensors: x, y, dy and dx are alike but for the address, with the axis of softmax last.
struct operands {
  explicit operands(const bench_case &c) : dtype(c.dtype), shape(c.shape), strides(c.shape.size(), 1) {
    for (size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
    if (c.axis >= 0) {
      std::swap(shape[size_t(c.axis)], shape.back());
      std::swap(strides[size_t(c.axis)], strides.back());
    }
  }
  sluice_tensor at(void *data) {
    return {data, {1, 0}, int32_t(shape.size()), dtype, shape.data(), strides.data(), 0};
  }
  // Without the last axis.
  sluice_tensor rows_at(void *data) {
    return {data, {1, 0}, int32_t(shape.size()) - 1, f32, shape.data(), nullptr, 0};
  }

  int64_t offset(int64_t row, int64_t column) const {
    int64_t sum = column * strides.back();
    for (size_t i = shape.size() - 1; i-- > 0; row /= shape[i]) sum += row % shape[i] * strides[i];
    return sum;
  }

  sluice_dtype dtype;
  std::vector<int64_t> shape, strides;
};

// Three rows of the result against float64: nothing wrong is timed.
void check(const bench_case &c, const operands &o, const char *a, const char *b, const char *z) {
  int64_t n = c.columns(), rows = c.elements() / n;
  double allowed = c.dtype.bits == 32 ? 1e-5 : c.dtype.code == sluice::kind_bfloat ? 5e-3 : 6e-4;
  for (int64_t row : {int64_t(0), rows / 2, rows - 1}) {
    int64_t counted = c.causal ? row + 1 : n;
    auto in = [&](const char *from, int64_t j) { return element(from, o.offset(row, j), c.dtype); };
    double m = -INFINITY, s = 0, dot = 0;
    for (int64_t j = 0; j < counted; ++j) m = std::fmax(m, in(a, j));
    for (int64_t j = 0; j < counted; ++j) s += std::exp(in(a, j) - m);
    if (c.what == work::backward)
      for (int64_t j = 0; j < n; ++j) dot += in(a, j) * in(b, j);
    double worst = 0;
    if (c.what == work::logsumexp) worst = std::fabs(element(z, row, f32) - (m + std::log(s)));
    for (int64_t j = 0; c.what != work::logsumexp && j < n; ++j) {
      double p = in(a, j), want = c.what == work::backward ? p * (in(b, j) - dot) : std::exp(p - m) / s;
      if (j >= counted) want = 0;
      double size = c.what == work::backward ? p * (std::fabs(in(b, j)) + std::fabs(dot)) : want;
      // 2^-24 is the smallest step of a half.
      worst = std::fmax(worst, std::fabs(in(z, j) - want) /
                                   (size + (c.dtype.bits == 16 ? 0x1p-24 / allowed : 1e-30)));
    }
    if (!(worst <= allowed)) {
      std::fprintf(stderr, "softmax_bench: %s: row %lld is off by %g\n", c.id().c_str(), (long long)row,
                   worst);
      std::exit(1);
    }
  }
}

// The plan that the call makes for itself, asked for its name.
std::string variant(const bench_case &c, const sluice_softmax_desc &desc,
                    const sluice_softmax_backward_desc &back, const sluice_tensor &a, const sluice_tensor &b,
                    const sluice_tensor &z) {
  using namespace sluice::softmax;
  tensors t;
  auto give = [&](operand k, const sluice_tensor &tensor) {
    t.present[k] = bool(sluice::read_view(&tensor, "operand", {1, 0}, t.of[k]));
  };
  machine here = {false, int32_t(bench::cores())};
  if (c.what == work::backward) {
    give(op_y, a), give(op_dy, b), give(op_dx, z);
    auto p = make_plan(back, t, here);
    return p ? variant_name(p->rows.how) : p.error().text;
  }
  give(op_x, a);
  give(c.what == work::logsumexp ? op_lse : op_y, z);
  auto p = make_plan(desc, t, here);
  return p ? variant_name(p->how) : p.error().text;
}

void run_case(const bench_case &c, const sluice_context *context, const bench::budget &allowed) {
  bool backward = c.what == work::backward, reduces = c.what == work::logsumexp;
  int64_t result_bytes = reduces ? c.elements() / c.columns() * 4 : c.tensor_bytes();
  int64_t sets = bench::buffer_sets(c.bytes());
  region a(c.tensor_bytes(), sets, c.shift), b(backward ? c.tensor_bytes() : 0, sets, c.shift);
  region z(result_bytes, sets, c.shift);
  operands o(c);

  fill(a.of(0), c.elements(), c.dtype, 1);
  if (backward) {
    sluice_tensor x = o.at(a.of(0)); // becomes y
    size_t bytes = 0;
    must(sluice_softmax_workspace(context, nullptr, &x, &x, &bytes), c);
    region scratch(int64_t(bytes), 1);
    must(sluice_softmax(context, nullptr, &x, &x, scratch.of(0), bytes, nullptr), c);
    fill(b.of(0), c.elements(), c.dtype, 2);
  }
  for (int64_t set = 1; set < sets; ++set) {
    std::memcpy(a.of(set), a.of(0), size_t(c.tensor_bytes()));
    if (backward) std::memcpy(b.of(set), b.of(0), size_t(c.tensor_bytes()));
  }

  // Views are made once, as a caller's own would be; only addresses change from call to call.
  sluice_tensor in = o.at(a.of(0)), dy = o.at(b.of(0)), out = reduces ? o.rows_at(z.of(0)) : o.at(z.of(0));
  sluice_softmax_desc desc = {};
  desc.struct_size = sizeof desc;
  if (reduces) desc.lse = &out;
  desc.causal = c.causal;
  sluice_softmax_backward_desc back = {};
  back.struct_size = sizeof back;
  back.y = &in;

  size_t scratch_bytes = 0;
  must(backward ? sluice_softmax_backward_workspace(context, &back, &dy, &out, &scratch_bytes)
                : sluice_softmax_workspace(context, &desc, &in, reduces ? nullptr : &out, &scratch_bytes),
       c);
  region scratch(int64_t(scratch_bytes), 1);
  auto ours = [&](int64_t set) {
    in.data = a.of(set), dy.data = b.of(set), out.data = z.of(set);
    return backward
               ? sluice_softmax_backward(context, &back, &dy, &out, scratch.of(0), scratch_bytes, nullptr)
               : sluice_softmax(context, &desc, &in, reduces ? nullptr : &out, scratch.of(0), scratch_bytes,
                                nullptr);
  };
  must(ours(0), c);
  check(c, o, a.of(0), b.of(0), z.of(0));

  std::vector<bench::floor_kernel> floor = bench::floor_kernels(c.mix(), bench::cores());
  std::vector<bench::contestant> contestants = {{"sluice", [&](int64_t set) { ours(set); }}};
  for (const bench::floor_kernel &kernel : floor)
    contestants.push_back({kernel.name, [&](int64_t set) {
                             bench::run(kernel, z.line_of(set), a.line_of(set), b.line_of(set),
                                        size_t(c.tensor_bytes()));
                           }});
  std::vector<bench::timing> taken = bench::race(contestants, sets, allowed);

  size_t fastest = 1;
  for (size_t i = 1; i < taken.size(); ++i) {
    bench::record("floor")
        .text("id", c.id())
        .text("name", contestants[i].name)
        .number("us", taken[i].us)
        .print();
    if (taken[i].us < taken[fastest].us) fastest = i;
  }
  bench::record("time")
      .text("id", c.id())
      .text("op", "softmax")
      .text("pass", c.pass())
      .text("case", c.name)
      .text("dtype", c.dtype_name())
      .numbers("shape", c.shape)
      .number("axis", c.axis < 0 ? double(c.shape.size() - 1) : c.axis)
      .text("variant", variant(c, desc, back, in, dy, out))
      .number("buffer_sets", double(sets))
      .number("bytes", double(c.bytes()))
      .number("us", taken[0].us)
      .number("us_spread", taken[0].us_spread)
      .number("floor_us", taken[fastest].us)
      .text("floor", contestants[fastest].name)
      .print();
}

// What a call from Python is compared with: one small row, the same buffers every time.
void run_call(const sluice_context *context, const bench::budget &allowed) {
  bench_case c = {"call, one row of 256", work::forward, f32, {1, 256}};
  operands o(c);
  region a(c.tensor_bytes(), 1), z(c.tensor_bytes(), 1);
  fill(a.of(0), c.elements(), c.dtype, 1);
  sluice_tensor x = o.at(a.of(0)), y = o.at(z.of(0));
  auto call = [&](int64_t) { must(sluice_softmax(context, nullptr, &x, &y, nullptr, 0, nullptr), c); };
  bench::timing taken = bench::race({{"sluice", call}}, 1, allowed)[0];
  bench::record("call")
      .text("id", "call")
      .number("us", taken.us)
      .number("us_spread", taken.us_spread)
      .print();
}

} // namespace

int main(int count, char **arguments) {
  bool list = false, quick = false;
  std::string only;
  for (int i = 1; i < count; ++i) {
    std::string argument = arguments[i];
    if (argument == "--list")
      list = true;
    else if (argument == "--quick")
      quick = true;
    else if (argument == "--case" && i + 1 < count)
      only = arguments[++i];
    else {
      std::fprintf(stderr, "usage: softmax_bench [--list | --case NAME] [--quick]\n");
      return 2;
    }
  }

  std::vector<bench_case> cases = all_cases();
  if (list) {
    for (const bench_case &c : cases)
      bench::record("case").text("id", c.id()).number("bytes", double(c.bytes())).print();
    bench::record("case").text("id", "call").number("bytes", 0).print();
    return 0;
  }

  sluice_context *context = nullptr;
  if (sluice_context_create(nullptr, &context) != SLUICE_OK) {
    std::fprintf(stderr, "softmax_bench: %s\n", sluice_last_error());
    return 1;
  }
  bench::record("machine").text("library", sluice_build_info()).number("threads", bench::cores()).print();
  bench::budget allowed = quick ? bench::budget{60, 5, 9} : bench::budget{400, 7, 41};
  bool found = false;
  for (const bench_case &c : cases)
    if (only.empty() || only == c.id()) run_case(c, context, allowed), found = true;
  if (only.empty() || only == "call") run_call(context, allowed), found = true;
  if (!found) std::fprintf(stderr, "softmax_bench: no case \"%s\"; --list names them\n", only.c_str());
  sluice_context_destroy(context);
  return found ? 0 : 2;
}
