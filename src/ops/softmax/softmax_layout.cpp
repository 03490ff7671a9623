// softmax_layout.cpp: the checks of layout.hpp that look at outputs and inputs together.
#include "ops/softmax/layout.hpp"

namespace sluice::softmax {
namespace {

struct named_view {
  const view *v;
  const char *name;
  operand which;  // `operands` for the gradient of a broadcast operand
};

bool allowed_in_place(const named_view &out, const named_view &in, std::initializer_list<in_place> allowed) {
  for (const in_place &pair : allowed)
    if (out.which == pair.output && in.which == pair.input && same_view(*out.v, *in.v)) return true;
  return false;
}

}  // namespace

result<void> want_outputs_apart(const tensors &t, std::initializer_list<in_place> allowed) {
  named_view outputs[8], inputs[operands];
  int writes = 0, reads = 0;
  for (const operand_rule &rule : rules) {
    if (!t.present[rule.which]) continue;
    bool written =
        t.backward ? rule.which == op_dx : rule.which == op_y || rule.which == op_lse || rule.which == op_max;
    (written ? outputs[writes++] : inputs[reads++]) = {&t.of[rule.which], name_of(rule, t), rule.which};
  }
  if (t.wants_mask) outputs[writes++] = {&t.d_mask, "desc.d_mask", operands};
  if (t.wants_slopes) outputs[writes++] = {&t.d_slopes, "desc.d_slopes", operands};
  if (t.wants_sink) outputs[writes++] = {&t.d_sink, "desc.d_sink", operands};
  if (t.wants_temperature) outputs[writes++] = {&t.d_temperature, "desc.d_temperature", operands};

  for (int o = 0; o < writes; ++o) {
    const named_view &out = outputs[o];
    if (auto r = want_distinct_elements(*out.v, out.name); !r) return r;
    for (int i = 0; i < reads; ++i) {
      if (allowed_in_place(out, inputs[i], allowed)) continue;
      if (auto r = want_apart(*out.v, out.name, *inputs[i].v, inputs[i].name); !r) return r;
    }
    for (int i = 0; i < o; ++i)
      if (auto r = want_apart(*out.v, out.name, *outputs[i].v, outputs[i].name); !r) return r;
  }
  return {};
}

}  // namespace sluice::softmax
