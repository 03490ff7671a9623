// softmax_backward_cpu.cpp: the gradient on the CPU: deals rows to threads, then adds up what rows share.
#include "cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/softmax/softmax_backward_cpu.cpp"
#include <hwy/foreach_target.h>

#include "ops/softmax/backward-inl.hpp"
#include "ops/softmax/cpu_code.hpp"

#if HWY_ONCE

#include <algorithm>

#include "abi/context.hpp"
#include "ops/softmax/run.hpp"

namespace sluice::softmax {
namespace {

const backward_code &code_of(isa set, bool wide) {
  switch (set) {
#if HWY_TARGETS & HWY_AVX3
    case isa::avx3: return N_AVX3::backward(wide);
#endif
#if HWY_TARGETS & HWY_AVX2
    case isa::avx2: return N_AVX2::backward(wide);
#endif
#if HWY_TARGETS & HWY_SSE4
    case isa::sse4: return N_SSE4::backward(wide);
#endif
    default: return HWY_NAMESPACE::backward(wide);
  }
}

void put_gradient(double v, sluice_dtype dtype, void *base, int64_t offset) {
  char *to = static_cast<char *>(base) + offset * bytes_of(dtype);
  if (same(dtype, dtype_of<float>))
    *reinterpret_cast<float *>(to) = float(v);
  else if (same(dtype, dtype_of<double>))
    *reinterpret_cast<double *>(to) = v;
  else if (same(dtype, dtype_of<bfloat16>))
    *reinterpret_cast<bfloat16 *>(to) = from_double<bfloat16>(v);
  else
    *reinterpret_cast<float16 *>(to) = from_double<float16>(v);
}

// Each element: the shares of the rows that have it in common, in their order. No shares (nothing was there
// to add up) makes zeros.
void reduce(const sluice_context &context, const reduction &r, const double *shares, int64_t columns,
            void *out) {
  if (!r.wanted || !out) return;  // no memory: an extent of 0
  int64_t per_task = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, r.shared.rows));
  context.threads.each((r.kept.rows + per_task - 1) / per_task, [&](int64_t task) {
    for (int64_t k = task * per_task; k < std::min(r.kept.rows, (task + 1) * per_task); ++k) {
      int64_t at[2];
      r.kept.locate(k, at);
      double sum = 0;
      for (int64_t i = 0; shares && i < r.shared.rows; ++i) sum += shares[at[1] + r.shared.locate(i, 0)];
      for (int64_t j = 0; j < columns; ++j) put_gradient(sum, r.dtype, out, at[0] + j * r.column);
    }
  });
}

}  // namespace

result<void> run_cpu(const sluice_context &context, const backward_plan &p, const backward_scratch &s,
                     const addresses &data, const gradients &out) {
  bool has_mask_columns = p.mask.wanted && p.mask.column != 0, nothing = p.rows.how == variant::nothing;
  const backward_code &code = code_of(context.code, p.rows.wide);
  auto each_task = [&](auto &&f) {
    context.threads.each(p.rows.tasks, [&](int64_t task) {
      f(task * p.rows.per_task, std::min(p.rows.space.rows, (task + 1) * p.rows.per_task));
    });
  };
  if (!nothing && has_mask_columns) {
    // dx may lie over dy or x, which d_mask reads in its own order: first everything that only reads.
    each_task([&](int64_t begin, int64_t end) { code.dots(p, data, s.dots, begin, end); });
    int64_t pieces = code.mask_pieces(p.rows.n);
    context.threads.each(p.mask.kept.rows * pieces,
                         [&](int64_t i) { code.mask(p, s, data, out, i / pieces, i % pieces); });
    each_task([&](int64_t begin, int64_t end) { code.rows(p, s, data, begin, end); });
  } else if (!nothing) {
    each_task([&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {  // the second reading finds the row in a cache
        code.dots(p, data, s.dots, row, row + 1);
        code.rows(p, s, data, row, row + 1);
      }
    });
  }
  if (!has_mask_columns || nothing)
    reduce(context, p.mask, s.mask, has_mask_columns ? p.rows.n : 1, out.mask);
  reduce(context, p.slopes, s.slopes, 1, out.slopes);
  reduce(context, p.sink, s.sink, 1, out.sink);
  reduce(context, p.temperature, s.temperature, 1, out.temperature);
  return {};
}

}  // namespace sluice::softmax

#endif
