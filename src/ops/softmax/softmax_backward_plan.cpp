// softmax_backward_plan.cpp: make_plan() of the gradient: what is needed for what is wanted, and how the
// gradients of broadcast operands add up.
#include <algorithm>

#include "ops/softmax/layout.hpp"
#include "ops/softmax/softmax.hpp"

namespace sluice::softmax {
namespace {

constexpr int64_t task_bytes = 128 << 10;

struct gradient {
  bool wanted;
  const view *v;
  const char *name, *operand_name;
  operand of;
};

// Why x is needed beside or instead of y; nullptr: y suffices.
const char *reason_for_x(const sluice_softmax_backward_desc &desc, const tensors &t) {
  if (t.wants_mask) return "desc.d_mask";
  if (t.wants_slopes) return "desc.d_slopes";
  if (t.wants_sink) return "desc.d_sink";
  if (t.wants_temperature) return "desc.d_temperature";
  if (desc.softcap != 0) return "dx with desc.softcap";
  if (!t.present[op_y]) return "dx without desc.y";
  return nullptr;
}

result<void> want_inputs(const sluice_softmax_backward_desc &desc, const tensors &t) {
  if (!t.present[op_dy] && !t.present[op_d_lse])
    return fail(SLUICE_INVALID_ARGUMENT, "dy is NULL, want it or desc.d_lse");
  if (!t.present[op_dx] && !t.wants_mask && !t.wants_slopes && !t.wants_sink && !t.wants_temperature)
    return fail(SLUICE_INVALID_ARGUMENT, "dx is NULL, want it or a gradient in desc");
  const char *reason = reason_for_x(desc, t);
  if (reason && !t.present[op_x])
    return fail(SLUICE_INVALID_ARGUMENT, "desc.x is NULL, want it for %s", reason);
  if (reason && !t.present[op_lse])
    return fail(SLUICE_INVALID_ARGUMENT, "desc.lse is NULL, want it for %s", reason);
  if (desc.empty_row == SLUICE_EMPTY_ROW_UNIFORM && !t.present[op_lse])
    return fail(SLUICE_INVALID_ARGUMENT, "desc.lse is NULL, want it where desc.empty_row is uniform");
  return {};
}

// Splits the rows into the axes that the operand has (kept) and those it is broadcast along (shared).
result<reduction> reduce_over(const gradient &g, const view &broadcast_operand, const view &x) {
  reduction r = {};
  if (!g.wanted) return r;
  r.wanted = true;
  r.dtype = g.v->dtype;
  if (auto fits = want_shape(*g.v, g.name, broadcast_operand.shape, broadcast_operand.axes); !fits)
    return fits.error();

  int32_t leading = x.axes - 1;
  // d_mask has a place for every axis of x, the others for every axis but the last.
  int32_t own = g.v->axes, missing = (g.of == op_mask ? x.axes : leading) - own;
  int64_t kept_shape[max_axes], shared_shape[max_axes], row = 1;
  int64_t kept_stride[max_axes][2], shared_stride[max_axes][1];
  for (int a = leading - 1; a >= 0; --a) {
    bool has = a >= missing && g.v->shape[a - missing] != 1;
    kept_shape[a] = has ? x.shape[a] : 1;
    shared_shape[a] = has ? 1 : x.shape[a];
    kept_stride[a][0] = has ? g.v->strides[a - missing] : 0;
    kept_stride[a][1] = shared_stride[a][0] = row;
    row *= x.shape[a];
  }
  if (auto joined = join_axes(leading, kept_shape, kept_stride, r.kept); !joined) return joined.error();
  if (auto joined = join_axes(leading, shared_shape, shared_stride, r.shared); !joined) return joined.error();
  bool has_columns = g.of == op_mask && own > 0 && g.v->shape[own - 1] != 1;
  r.column = has_columns ? g.v->strides[own - 1] : 0;
  return r;
}

// What gradient_row computes.
bool is_plain(const backward_plan &b, const tensors &t) {
  const plan &p = b.rows;
  return b.from_y && !p.wide && !p.shapes_x && !b.reduces() && t.present[op_dy] && t.present[op_dx] &&
         !t.present[op_lse] && same(p.dtype[op_y], p.dtype[op_dy]) && same(p.dtype[op_y], p.dtype[op_dx]);
}

}  // namespace

result<backward_plan> make_plan(const sluice_softmax_backward_desc &desc, const tensors &t, machine on) {
  backward_plan b = {};
  plan &p = b.rows;
  p.wide = computes_in_double(t);
  auto does = read_effects(desc.scale, desc.softcap, desc.log, desc.empty_row, desc.causal, desc.diagonal,
                           desc.diagonal_offset, desc.window, p.wide);
  if (!does) return does.error();
  p.does = *does;

  const gradient wanted[] = {
      {t.wants_mask, &t.d_mask, "desc.d_mask", "desc.mask", op_mask},
      {t.wants_slopes, &t.d_slopes, "desc.d_slopes", "desc.slopes", op_slopes},
      {t.wants_sink, &t.d_sink, "desc.d_sink", "desc.sink", op_sink},
      {t.wants_temperature, &t.d_temperature, "desc.d_temperature", "desc.temperature", op_temperature},
  };
  for (const gradient &g : wanted)
    if (g.wanted && !t.present[g.of])
      return fail(SLUICE_INVALID_ARGUMENT, "%s is NULL, want it beside %s", g.operand_name, g.name);
  if (auto r = want_inputs(desc, t); !r) return r.error();
  b.from_y = reason_for_x(desc, t) == nullptr;

  operand reference = t.present[op_dy] ? op_dy : b.from_y ? op_y : op_x;
  const char *name = reference == op_dy ? "dy" : reference == op_y ? "desc.y" : "desc.x";
  if (auto r = lay_out(t, reference, name, desc.diagonal == SLUICE_DIAGONAL_BOTTOM_RIGHT, p); !r)
    return r.error();
  reduction *reductions[] = {&b.mask, &b.slopes, &b.sink, &b.temperature};
  for (int i = 0; i < 4; ++i) {
    auto r = reduce_over(wanted[i], t.of[wanted[i].of], t.of[reference]);
    if (!r) return r.error();
    *reductions[i] = *r;
  }
  if (auto r = want_outputs_apart(t, {{op_dx, op_dy}, {op_dx, op_x}, {op_dx, op_y}}); !r) return r.error();

  bool in_place = false;
  int64_t row_bytes = 0;
  for (operand k : {op_x, op_y, op_dy, op_dx}) {
    bool used = p.has(k) && !(k == (b.from_y ? op_x : op_y));
    if (used) row_bytes += p.n * bytes_of(p.dtype[k]);
    in_place =
        in_place || (k != op_dx && t.present[k] && t.present[op_dx] && t.of[k].data == t.of[op_dx].data);
  }
  p.bytes = p.space.rows * row_bytes;
  p.past_caches = p.has(op_dx) && !in_place && p.space.rows * p.n * bytes_of(p.dtype[op_dx]) > (4 << 20);
  int64_t balanced = (p.space.rows + 16 * on.width - 1) / (16 * on.width);
  p.per_task = std::max({int64_t(1), task_bytes / std::max<int64_t>(1, row_bytes), balanced});
  p.tasks = (p.space.rows + p.per_task - 1) / p.per_task;
  // With n = 0 a sink's gradient is still d_lse.
  bool nothing = p.space.rows == 0 || (p.n == 0 && !b.reduces());
  p.how = nothing ? variant::nothing : on.cuda ? variant::block_per_wide_row : variant::rows;
  if (on.cuda && !nothing && is_plain(b, t)) {
    b.is_plain = true;
    p.aligned =
        rows_are_aligned(p, t, op_y) && rows_are_aligned(p, t, op_dy) && rows_are_aligned(p, t, op_dx);
    int32_t share =
        p.aligned && bytes_of(p.dtype[op_y]) == 2 ? 3 : 2;  // what two sources leave of the registers
    choose_device_rows(p, p.dtype[op_y], share, 1, on);
  }
  return b;
}

}  // namespace sluice::softmax
