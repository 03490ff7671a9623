// softmax_cpu.cpp: softmax on the CPU: deals a plan's work to threads, in the code of the context's
// instruction set.
#include "cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/softmax/softmax_cpu.cpp"
#include <hwy/foreach_target.h>

#include "ops/softmax/cpu_code.hpp"
#include "ops/softmax/forward-inl.hpp"

#if HWY_ONCE

#include <algorithm>
#include <atomic>

#include "abi/context.hpp"
#include "ops/softmax/run.hpp"

namespace sluice::softmax {
namespace {

const forward_code &code_of(isa set, bool wide) {
  switch (set) {
#if HWY_TARGETS & HWY_AVX3
    case isa::avx3: return N_AVX3::forward(wide);
#endif
#if HWY_TARGETS & HWY_AVX2
    case isa::avx2: return N_AVX2::forward(wide);
#endif
#if HWY_TARGETS & HWY_SSE4
    case isa::sse4: return N_SSE4::forward(wide);
#endif
    default: return HWY_NAMESPACE::forward(wide);
  }
}

// Bodies take items from `next` on until none is left, so that one may be slower than another; each has its
// own scratch.
template <typename F>
void each_body(const sluice_context &context, const plan &p, const scratch &s, F &&f) {
  std::atomic<int64_t> next{0};
  context.threads.each(p.tasks,
                       [&](int64_t task) { f(next, s.bodies ? s.bodies + task * p.body_bytes() : nullptr); });
}

void run_rows(const sluice_context &context, const plan &p, const scratch &s, const addresses &data,
              const forward_code &code) {
  each_body(context, p, s, [&](std::atomic<int64_t> &next, char *room) { code.rows(p, data, next, room); });
}

void run_pieces(const sluice_context &context, const plan &p, const scratch &s, const addresses &data,
                const forward_code &code) {
  int64_t chunks = chunks_of(p.n), tasks_a_row = p.tasks / p.space.rows;
  auto chunks_of_task = [&](int64_t task, auto &&f) {
    int64_t row = task / tasks_a_row, first = task % tasks_a_row * p.per_task;
    f(row, first, std::min(chunks, first + p.per_task));
  };
  context.threads.each(p.tasks, [&](int64_t task) {
    chunks_of_task(task, [&](int64_t row, int64_t first, int64_t last) {
      code.sums(p, data, row, first, last, s.pairs + row * chunks);
    });
  });
  for (int64_t row = 0; row < p.space.rows; ++row)
    s.totals[row] = code.finish(p, data, row, s.pairs + row * chunks);
  if (!p.has(op_y)) return;
  context.threads.each(p.tasks, [&](int64_t task) {
    chunks_of_task(task, [&](int64_t row, int64_t first, int64_t last) {
      code.write(p, data, row, first, last, s.totals[row]);
    });
  });
}

void run_columns(const sluice_context &context, const plan &p, const scratch &s, const addresses &data,
                 const forward_code &code) {
  each_body(context, p, s, [&](std::atomic<int64_t> &next, char *room) { code.tiles(p, data, next, room); });
}

}  // namespace

result<void> run_cpu(const sluice_context &context, const plan &p, const scratch &s, const addresses &data) {
  const forward_code &code = code_of(context.code, p.wide);
  switch (p.how) {
    case variant::nothing: return {};
    case variant::rows: return run_rows(context, p, s, data, code), result<void>();
    case variant::pieces: return run_pieces(context, p, s, data, code), result<void>();
    case variant::columns: return run_columns(context, p, s, data, code), result<void>();
    default: break;
  }
  return fail(SLUICE_INTERNAL, "the plan's variant %s is not one of the CPU's", variant_name(p.how));
}

}  // namespace sluice::softmax

#endif
