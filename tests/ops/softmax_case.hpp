// softmax_case.hpp: from a few words to a case of softmax or softmax_backward that the driver can run.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "driver/driver.hpp"
#include "ops/softmax_reference.hpp"

namespace sluice::test {

// What a case is made of, before numbers are drawn. An operand is there when its shape is.
struct softmax_spec {
  std::string name;
  shape_list shape;
  sluice_softmax_desc desc = {};  // numbers only
  std::optional<shape_list> mask = {}, keep = {}, lengths = {}, slopes = {}, sink = {}, temperature = {};
  bool y = true, lse = false, max = false;
  real spread = 3;  // standard deviation of x
  real centre = 0;
  uint64_t seed = 1;
  bool expect = true;  // false: results are compared with each other alone, and the reference is not asked
  // Changes the drawn numbers; whatever it leaves is rounded to its dtype.
  std::function<void(softmax_inputs &)> edit = {};
};

// The dtypes of one run of a list of specs.
struct softmax_types {
  dtype x = dtype::f32, y = dtype::f32;
  dtype extras = dtype::f32;   // mask, slopes, sink, temperature
  dtype results = dtype::f32;  // lse and max
  dtype keep = dtype::boolean, lengths = dtype::i32;
};
std::string text(const softmax_types &types);

softmax_inputs draw(const softmax_spec &spec, const softmax_types &types);
op_case make_case(const softmax_spec &spec, const softmax_types &types);
op_case make_case(const softmax_spec &spec, const softmax_types &types, const softmax_inputs &in);

struct softmax_backward_spec {
  softmax_spec forward;
  bool y = false, x_and_lse = true;  // what was saved
  bool dy = true, d_lse = false;
  bool dx = true, d_mask = false, d_slopes = false, d_sink = false, d_temperature = false;
};
op_case make_backward_case(const softmax_backward_spec &spec, const softmax_types &types);

// A call's views by the names that the header gives the operands.
struct operand_table {
  const sluice_tensor *operator[](const char *name) const;  // nullptr when the case has no such operand
  const std::vector<std::string> &names;
  const call &made;
};

// Gives a case whose operands carry the header's names its calls; `numbers` lacks tensors.
void bind_softmax(op_case &c, const sluice_softmax_desc &numbers);
void bind_softmax_backward(op_case &c, const sluice_softmax_desc &numbers);

}  // namespace sluice::test
