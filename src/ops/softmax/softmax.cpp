// softmax.cpp: the exported calls. Check, plan, carve, hand over; _workspace ends at carve.
#include "ops/softmax/softmax.hpp"

#include <sluice/ops/softmax.h>

#include "abi/context.hpp"
#include "abi/descriptor.hpp"
#include "abi/guard.hpp"
#include "abi/op.hpp"
#include "ops/softmax/layout.hpp"
#include "ops/softmax/run.hpp"

namespace sluice::softmax {
namespace {

struct argument {
  operand which;
  const sluice_tensor *tensor;
};

result<void> take(const sluice_context &context, std::initializer_list<argument> given, tensors &t) {
  const sluice_tensor *tensor[operands] = {};
  for (const argument &a : given) tensor[a.which] = a.tensor;
  for (const operand_rule &rule : rules) {
    if (!tensor[rule.which]) continue;
    view &v = t.of[rule.which];
    const char *name = name_of(rule, t);
    if (auto r = read_view(tensor[rule.which], name, context.device, v); !r) return r;
    result<void> fits = rule.what == holds::floats  ? want_float(v, name)
                        : rule.what == holds::flags ? want_flag(v, name)
                                                    : want_index(v, name);
    if (!fits) return fits;
    t.present[rule.which] = true;
  }
  return {};
}

result<void> take_gradient(const sluice_context &context, const sluice_tensor *given, const char *name,
                           view &v, bool &wanted) {
  if (!given) return {};
  wanted = true;
  if (auto r = read_view(given, name, context.device, v); !r) return r;
  return want_float(v, name);
}

// What both forward calls do first: everything but the work.
struct prepared {
  plan how;
  addresses data;
  size_t bytes;
};

result<void> prepare(const sluice_context *context, const sluice_softmax_desc *user, const sluice_tensor *x,
                     const sluice_tensor *y, sluice_stream stream, prepared &ready) {
  if (auto r = want_usable(context, stream); !r) return r;
  auto desc = read_descriptor(user, "desc", offsetof(sluice_softmax_desc, max) + sizeof(void *));
  if (!desc) return desc.error();
  if (!x) return fail(SLUICE_INVALID_ARGUMENT, "x is NULL");
  tensors t;
  if (auto r = take(*context,
                    {{op_x, x},
                     {op_y, y},
                     {op_mask, desc->mask},
                     {op_keep, desc->keep},
                     {op_lengths, desc->lengths},
                     {op_slopes, desc->slopes},
                     {op_sink, desc->sink},
                     {op_temperature, desc->temperature},
                     {op_lse, desc->lse},
                     {op_max, desc->max}},
                    t);
      !r)
    return r;
  auto how = make_plan(*desc, t, machine_of(*context));
  if (!how) return how.error();
  ready.how = *how;
  ready.data = t.addresses_of();
  arena counting;
  carve(counting, ready.how);
  ready.bytes = counting.used;
  return {};
}

struct prepared_backward {
  backward_plan how;
  addresses data;
  gradients out;
  size_t bytes;
};

result<void> prepare_backward(const sluice_context *context, const sluice_softmax_backward_desc *user,
                              const sluice_tensor *dy, const sluice_tensor *dx, sluice_stream stream,
                              prepared_backward &ready) {
  if (auto r = want_usable(context, stream); !r) return r;
  if (!user) return fail(SLUICE_INVALID_ARGUMENT, "desc is NULL, want one with y or x");
  auto desc =
      read_descriptor(user, "desc", offsetof(sluice_softmax_backward_desc, d_temperature) + sizeof(void *));
  if (!desc) return desc.error();
  tensors t;
  t.backward = true;
  if (auto r = take(*context,
                    {{op_dy, dy},
                     {op_dx, dx},
                     {op_x, desc->x},
                     {op_y, desc->y},
                     {op_mask, desc->mask},
                     {op_keep, desc->keep},
                     {op_lengths, desc->lengths},
                     {op_slopes, desc->slopes},
                     {op_sink, desc->sink},
                     {op_temperature, desc->temperature},
                     {op_lse, desc->lse},
                     {op_d_lse, desc->d_lse}},
                    t);
      !r)
    return r;
  if (auto r = first_failure(
          [&] { return take_gradient(*context, desc->d_mask, "desc.d_mask", t.d_mask, t.wants_mask); },
          [&] {
            return take_gradient(*context, desc->d_slopes, "desc.d_slopes", t.d_slopes, t.wants_slopes);
          },
          [&] { return take_gradient(*context, desc->d_sink, "desc.d_sink", t.d_sink, t.wants_sink); },
          [&] {
            return take_gradient(*context, desc->d_temperature, "desc.d_temperature", t.d_temperature,
                                 t.wants_temperature);
          });
      !r)
    return r;
  auto how = make_plan(*desc, t, machine_of(*context));
  if (!how) return how.error();
  ready.how = *how;
  ready.data = t.addresses_of();
  ready.out = t.gradients_of();
  arena counting;
  carve(counting, ready.how);
  ready.bytes = counting.used;
  return {};
}

result<void> want_dtypes(const sluice_dtype *dtypes, int32_t count) {
  if (count != 2) return fail(SLUICE_INVALID_ARGUMENT, "count is %d, want 2", count);
  for (int i = 0; i < 2; ++i)
    if (!is_float(dtypes[i]))
      return fail(SLUICE_UNSUPPORTED_DTYPE, "dtypes[%d] is %s, want float32, float64, float16 or bfloat16", i,
                  dtype_name(dtypes[i]).text);
  return {};
}

result<void> supports(const sluice_context &, const sluice_dtype *dtypes, int32_t count) {
  return want_dtypes(dtypes, count);
}

constexpr op_facts calls[] = {
    {"softmax", supports, warm_cuda},
    {"softmax_backward", supports, warm_backward_cuda},
};

}  // namespace

machine machine_of(const sluice_context &context) {
  if (!context.is_cuda()) return {false, context.threads.width(), {}};
  return {true, context.facts.multiprocessors, context.facts.clusters};
}

std::span<const op_facts> ops() { return calls; }

}  // namespace sluice::softmax

using namespace sluice;

extern "C" sluice_status sluice_softmax_workspace(const sluice_context *context,
                                                  const sluice_softmax_desc *desc, const sluice_tensor *x,
                                                  const sluice_tensor *y, size_t *bytes) {
  return guard("softmax_workspace", [&]() -> result<void> {
    if (!bytes) return fail(SLUICE_INVALID_ARGUMENT, "bytes is NULL");
    softmax::prepared ready;
    if (auto r = softmax::prepare(context, desc, x, y, nullptr, ready); !r) return r;
    *bytes = ready.bytes;
    return {};
  });
}

extern "C" sluice_status sluice_softmax(const sluice_context *context, const sluice_softmax_desc *desc,
                                        const sluice_tensor *x, const sluice_tensor *y, void *workspace,
                                        size_t workspace_bytes, sluice_stream stream) {
  return guard("softmax", [&]() -> result<void> {
    softmax::prepared ready;
    if (auto r = softmax::prepare(context, desc, x, y, stream, ready); !r) return r;
    if (ready.how.how == softmax::variant::nothing) return {};
    auto room = room::of(*context, ready.bytes, workspace, workspace_bytes, stream);
    if (!room) return room.error();
    arena pieces(room->base());
    auto scratch = carve(pieces, ready.how);
    if (!context->is_cuda()) return softmax::run_cpu(*context, ready.how, scratch, ready.data);
    return on_device(*context, stream,
                     [&] { return softmax::run_cuda(ready.how, scratch, ready.data, stream); });
  });
}

extern "C" sluice_status sluice_softmax_backward_workspace(const sluice_context *context,
                                                           const sluice_softmax_backward_desc *desc,
                                                           const sluice_tensor *dy, const sluice_tensor *dx,
                                                           size_t *bytes) {
  return guard("softmax_backward_workspace", [&]() -> result<void> {
    if (!bytes) return fail(SLUICE_INVALID_ARGUMENT, "bytes is NULL");
    softmax::prepared_backward ready;
    if (auto r = softmax::prepare_backward(context, desc, dy, dx, nullptr, ready); !r) return r;
    *bytes = ready.bytes;
    return {};
  });
}

extern "C" sluice_status sluice_softmax_backward(const sluice_context *context,
                                                 const sluice_softmax_backward_desc *desc,
                                                 const sluice_tensor *dy, const sluice_tensor *dx,
                                                 void *workspace, size_t workspace_bytes,
                                                 sluice_stream stream) {
  return guard("softmax_backward", [&]() -> result<void> {
    softmax::prepared_backward ready;
    if (auto r = softmax::prepare_backward(context, desc, dy, dx, stream, ready); !r) return r;
    if (ready.how.rows.how == softmax::variant::nothing && !ready.how.reduces()) return {};
    auto room = room::of(*context, ready.bytes, workspace, workspace_bytes, stream);
    if (!room) return room.error();
    arena pieces(room->base());
    auto scratch = carve(pieces, ready.how);
    if (!context->is_cuda()) return softmax::run_cpu(*context, ready.how, scratch, ready.data, ready.out);
    return on_device(*context, stream,
                     [&] { return softmax::run_cuda(ready.how, scratch, ready.data, ready.out, stream); });
  });
}
