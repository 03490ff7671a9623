// softmax_case.cpp: see softmax_case.hpp.
#include "ops/softmax_case.hpp"

#include <utility>

namespace sluice::test {

std::string text(const softmax_types &types) {
  std::string s = facts(types.x).name;
  s += std::string("_to_") + facts(types.y).name;
  if (types.extras != types.x) s += std::string("_with_") + facts(types.extras).name;
  return s;
}

const sluice_tensor *operand_table::operator[](const char *name) const {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return made.operands[i];
  return nullptr;
}

namespace {

tensor filled(dtype type, const shape_list &shape, const std::function<real()> &next) {
  tensor t{type, shape, {}};
  t.values.reserve(size_t(count_of(shape)));
  for (int64_t i = count_of(shape); i-- > 0;) t.values.push_back(round_to(type, next()));
  return t;
}

void round_again(tensor &t) {
  for (real &v : t.values) v = round_to(t.type, v);
}

bool shares_the_batch(const shape_list &operand_shape, const shape_list &full) {
  return operand_shape.size() == full.size() && !full.empty() && operand_shape[0] == full[0];
}

struct builder {
  op_case made;
  shape_list full;  // x's shape

  void add(const char *name, const tensor &t) {
    made.operands.push_back({.name = name, .type = t.type, .shape = t.shape});
    made.operands.back().batched = batched(name, t.shape);
    made.operands.back().packed = pack(t.type, t.values);
  }
  void add(const char *name, const std::optional<tensor> &t) {
    if (t) add(name, *t);
  }
  void add(const char *name, dtype type, const shape_list &shape, with_bound want) {
    made.operands.push_back({.name = name,
                             .type = type,
                             .shape = shape,
                             .values = std::move(want.values),
                             .allowed = std::move(want.allowed),
                             .output = true});
    made.operands.back().batched = batched(name, shape);
  }
  size_t index(const char *name) const {
    for (size_t i = 0; i < made.operands.size(); ++i)
      if (made.operands[i].name == name) return i;
    return made.operands.size();
  }
  void may_share(const char *input, const char *output) {
    if (index(input) < made.operands.size() && index(output) < made.operands.size())
      made.in_place.push_back({index(input), index(output)});
  }

 private:
  // Operands against x's shape have its axes; those per row lack the last.
  bool batched(const std::string &name, const shape_list &shape) const {
    bool per_row = name == "lengths" || name.find("slopes") != name.npos || name.find("sink") != name.npos ||
                   name.find("temperature") != name.npos || name.find("lse") != name.npos || name == "max";
    return shares_the_batch(shape, per_row ? shape_list(full.begin(), full.end() - 1) : full);
  }
};

// Rows know their place along axis 0 only where it is the query axis and something depends on the query.
int64_t batch_of(const softmax_spec &spec) {
  bool looks_at_query = spec.desc.causal || spec.desc.window || spec.slopes;
  return spec.shape.size() < 2 || (spec.shape.size() == 2 && looks_at_query) ? 0 : spec.shape[0];
}

sluice_softmax_desc descriptor(const sluice_softmax_desc &numbers, const operand_table &t) {
  sluice_softmax_desc d = numbers;
  d.struct_size = sizeof d;
  d.mask = t["mask"], d.keep = t["keep"], d.lengths = t["lengths"];
  d.slopes = t["slopes"], d.sink = t["sink"], d.temperature = t["temperature"];
  d.lse = t["lse"], d.max = t["max"];
  return d;
}

sluice_softmax_backward_desc backward_descriptor(const sluice_softmax_desc &numbers, const operand_table &t) {
  sluice_softmax_backward_desc d{};
  d.struct_size = sizeof d;
  d.scale = numbers.scale, d.softcap = numbers.softcap, d.log = numbers.log, d.empty_row = numbers.empty_row;
  d.causal = numbers.causal, d.diagonal = numbers.diagonal, d.diagonal_offset = numbers.diagonal_offset;
  d.window = numbers.window;
  d.mask = t["mask"], d.keep = t["keep"], d.lengths = t["lengths"];
  d.slopes = t["slopes"], d.sink = t["sink"], d.temperature = t["temperature"];
  d.x = t["x"], d.y = t["y"], d.lse = t["lse"], d.d_lse = t["d_lse"];
  d.d_mask = t["d_mask"], d.d_slopes = t["d_slopes"], d.d_sink = t["d_sink"];
  d.d_temperature = t["d_temperature"];
  return d;
}

std::vector<std::string> names_of(const op_case &c) {
  std::vector<std::string> names;
  for (const operand &o : c.operands) names.push_back(o.name);
  return names;
}

}  // namespace

void bind_softmax(op_case &c, const sluice_softmax_desc &numbers) {
  c.run = [numbers, names = names_of(c)](const call &made) {
    operand_table t{names, made};
    sluice_softmax_desc d = descriptor(numbers, t);
    return sluice_softmax(made.context, &d, t["x"], t["y"], made.workspace, made.workspace_bytes,
                          made.stream);
  };
  c.query = [numbers, names = names_of(c)](const call &made, size_t *bytes) {
    operand_table t{names, made};
    sluice_softmax_desc d = descriptor(numbers, t);
    return sluice_softmax_workspace(made.context, &d, t["x"], t["y"], bytes);
  };
}

void bind_softmax_backward(op_case &c, const sluice_softmax_desc &numbers) {
  c.run = [numbers, names = names_of(c)](const call &made) {
    operand_table t{names, made};
    sluice_softmax_backward_desc d = backward_descriptor(numbers, t);
    return sluice_softmax_backward(made.context, &d, t["dy"], t["dx"], made.workspace, made.workspace_bytes,
                                   made.stream);
  };
  c.query = [numbers, names = names_of(c)](const call &made, size_t *bytes) {
    operand_table t{names, made};
    sluice_softmax_backward_desc d = backward_descriptor(numbers, t);
    return sluice_softmax_backward_workspace(made.context, &d, t["dy"], t["dx"], bytes);
  };
}

softmax_inputs draw(const softmax_spec &spec, const softmax_types &types) {
  random r(spec.seed * 1000003 + uint64_t(count_of(spec.shape)));
  int64_t n = spec.shape.back();
  softmax_inputs in;
  in.x = filled(types.x, spec.shape, [&] { return spec.centre + r.normal(spec.spread); });
  if (spec.mask)  // a quarter is -inf, so that whole slices of a row are
    in.mask = filled(types.extras, *spec.mask, [&] { return r.below(4) ? r.normal(2) : -infinity; });
  if (spec.keep) in.keep = filled(types.keep, *spec.keep, [&] { return real(r.below(3) != 0); });
  if (spec.lengths)
    in.lengths =
        filled(types.lengths, *spec.lengths, [&] { return real(r.below(n + 4)) - 2; });  // some are clamped
  if (spec.slopes)
    in.slopes = filled(types.extras, *spec.slopes, [&] { return std::ldexp(real(1), -int(r.below(9))); });
  if (spec.sink) in.sink = filled(types.extras, *spec.sink, [&] { return r.normal(2); });
  if (spec.temperature)
    in.temperature = filled(types.extras, *spec.temperature, [&] { return r.uniform(0.4L, 2.5L); });
  if (spec.edit) {
    spec.edit(in);
    round_again(in.x);
    for (auto *t : {&in.mask, &in.keep, &in.lengths, &in.slopes, &in.sink, &in.temperature})
      if (*t) round_again(**t);
  }
  return in;
}

op_case make_case(const softmax_spec &spec, const softmax_types &types) {
  return make_case(spec, types, draw(spec, types));
}

op_case make_case(const softmax_spec &spec, const softmax_types &types, const softmax_inputs &in) {
  std::vector<dtype> results;
  if (spec.y) results.push_back(types.y);
  if (spec.lse || spec.max) results.push_back(types.results);
  softmax_reference ref{in, spec.desc, compute_type(in, results)};

  builder b{{}, spec.shape};
  b.made.name = spec.name + " " + text(spec.shape) + " " + text(types);
  b.add("x", in.x);
  b.add("mask", in.mask), b.add("keep", in.keep), b.add("lengths", in.lengths);
  b.add("slopes", in.slopes), b.add("sink", in.sink), b.add("temperature", in.temperature);
  softmax_reference::wanted wanted;
  if (spec.y) wanted.y = types.y;
  if (spec.lse) wanted.lse = types.results;
  if (spec.max) wanted.max = types.results;
  softmax_reference::given want;
  if (spec.expect) want = ref.results(wanted);
  if (spec.y) b.add("y", types.y, spec.shape, std::move(want.y));
  if (spec.lse) b.add("lse", types.results, ref.row_shape(), std::move(want.lse));
  if (spec.max) b.add("max", types.results, ref.row_shape(), std::move(want.max));
  b.may_share("x", "y");
  b.made.batch = batch_of(spec);

  bind_softmax(b.made, spec.desc);
  return std::move(b.made);
}

op_case make_backward_case(const softmax_backward_spec &spec, const softmax_types &types) {
  const softmax_spec &forward = spec.forward;
  softmax_backward_inputs in;
  in.forward = draw(forward, types);
  bool beyond_y =
      spec.d_mask || spec.d_slopes || spec.d_sink || spec.d_temperature || forward.desc.softcap != 0;
  in.from_lse = spec.x_and_lse && (beyond_y || !spec.y);
  random r(forward.seed * 7919 + 5);
  shape_list row_shape(forward.shape.begin(), forward.shape.end() - 1);

  std::vector<dtype> used = {types.x};
  if (spec.y) used.push_back(types.y);
  if (spec.x_and_lse || spec.d_lse) used.push_back(types.results);
  dtype compute = compute_type(in.forward, used);
  softmax_reference ref{in.forward, forward.desc, compute};
  auto saved = [](dtype type, const shape_list &shape, with_bound v) {
    tensor t{type, shape, std::move(v.values)};
    round_again(t);
    return t;
  };
  softmax_reference::given result = ref.results({.y = types.y, .lse = types.results});
  if (spec.y) in.y = saved(types.y, forward.shape, std::move(result.y));
  if (spec.x_and_lse) in.lse = saved(types.results, row_shape, std::move(result.lse));
  if (spec.dy) in.dy = filled(types.y, forward.shape, [&] { return r.normal(1); });
  if (spec.d_lse) in.d_lse = filled(types.results, row_shape, [&] { return r.normal(1); });
  gradient_types out = {types.x, types.extras, types.extras, types.extras, types.extras};
  softmax_gradients want = softmax_backward_reference(in, forward.desc, compute, out);

  builder b{{}, forward.shape};
  b.made.name = forward.name + " backward " + text(forward.shape) + " " + text(types) +
                (spec.y ? " from y" : "") + (spec.x_and_lse ? " from lse" : "");
  b.add("dy", in.dy);
  if (spec.x_and_lse) b.add("x", in.forward.x);
  b.add("y", in.y), b.add("lse", in.lse), b.add("d_lse", in.d_lse);
  b.add("mask", in.forward.mask), b.add("keep", in.forward.keep), b.add("lengths", in.forward.lengths);
  b.add("slopes", in.forward.slopes), b.add("sink", in.forward.sink),
      b.add("temperature", in.forward.temperature);
  if (spec.dx) b.add("dx", out.dx, forward.shape, std::move(want.dx));
  if (spec.d_mask) b.add("d_mask", out.d_mask, *forward.mask, std::move(want.d_mask));
  if (spec.d_slopes) b.add("d_slopes", out.d_slopes, *forward.slopes, std::move(want.d_slopes));
  if (spec.d_sink) b.add("d_sink", out.d_sink, *forward.sink, std::move(want.d_sink));
  if (spec.d_temperature)
    b.add("d_temperature", out.d_temperature, *forward.temperature, std::move(want.d_temperature));
  for (const char *input : {"dy", "x", "y"}) b.may_share(input, "dx");
  bool shared_gradients = spec.d_mask || spec.d_slopes || spec.d_sink || spec.d_temperature;
  b.made.batch = shared_gradients ? 0 : batch_of(forward);

  bind_softmax_backward(b.made, forward.desc);
  return std::move(b.made);
}

}  // namespace sluice::test
