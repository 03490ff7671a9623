// softmax_backward_test.cpp: every gradient of softmax against the float64 reference, in every mode of the driver.
#include "ops/softmax_suite.hpp"

namespace sluice::test {
namespace {

class softmax_backward : public softmax_suite {
 protected:
  const shape_list small = {2, 3, 5, 37}, per_head = {3, 1}, per_batch = {2, 1, 1}, per_row = {2, 3, 5};

  void run(const softmax_backward_spec &spec) {
    check_all_modes(make_backward_case(spec, types()), device());
  }
  // From y, from x and lse, and with y beside them; each with and without a gradient of lse.
  void run_all_ways(softmax_spec forward) {
    for (bool d_lse : {false, true}) {
      if (forward.desc.softcap == 0) {
        run({.forward = forward, .y = true, .x_and_lse = false, .d_lse = d_lse});
        run({.forward = forward, .y = true, .x_and_lse = true, .d_lse = d_lse});
      }
      run({.forward = forward, .d_lse = d_lse});
    }
  }
};

TEST_P(softmax_backward, plain) {
  run_all_ways({.name = "plain", .shape = small});
  run_all_ways({.name = "plain, one axis", .shape = {129}});
  run_all_ways({.name = "plain, wide", .shape = {4, 70}, .spread = 20});
}

TEST_P(softmax_backward, log) {
  run_all_ways({.name = "log", .shape = small, .desc = {.log = 1}});
  run_all_ways({.name = "log, masked", .shape = {4, 70}, .desc = {.log = 1}, .mask = shape_list{70}});
}

TEST_P(softmax_backward, scale_and_softcap) {
  run_all_ways({.name = "scale", .shape = {3, 40}, .desc = {.scale = -0.37}});
  run_all_ways({.name = "softcap", .shape = {3, 40}, .desc = {.scale = 0.5, .softcap = 7}, .spread = 10});
  run_all_ways({.name = "softcap, log", .shape = {3, 40}, .desc = {.softcap = 2, .log = 1}});
}

TEST_P(softmax_backward, exclusions) {
  run_all_ways({.name = "mask", .shape = small, .mask = shape_list{2, 1, 5, 37}});
  run_all_ways({.name = "keep", .shape = small, .keep = shape_list{5, 37}});
  run_all_ways({.name = "lengths", .shape = small, .lengths = per_row});
  for (int32_t diagonal : {SLUICE_DIAGONAL_TOP_LEFT, SLUICE_DIAGONAL_BOTTOM_RIGHT})
    run_all_ways({.name = "causal, window",
                  .shape = {2, 9, 6},
                  .desc = {.causal = 1, .diagonal = diagonal, .diagonal_offset = 1, .window = 4}});
}

TEST_P(softmax_backward, empty_rows) {
  for (int32_t policy : {SLUICE_EMPTY_ROW_NAN, SLUICE_EMPTY_ROW_ZERO, SLUICE_EMPTY_ROW_UNIFORM})
    for (int32_t log : {0, 1}) {
      softmax_spec forward = {.name = "empty rows",
                              .shape = {4, 9},
                              .desc = {.log = log, .empty_row = policy},
                              .lengths = shape_list{4}};
      forward.edit = [](softmax_inputs &in) { in.lengths->values = {0, 4, -1, 9}; };
      if (policy != SLUICE_EMPTY_ROW_UNIFORM) run_all_ways(forward);
      run({.forward = forward});
      if (log == 0) run({.forward = forward, .y = true});
    }
}

TEST_P(softmax_backward, mask) {
  for (const shape_list &shape : {small,
                                  shape_list{2, 1, 5, 37},
                                  {5, 37},
                                  {37},
                                  {1},
                                  {},
                                  {3, 1, 1},
                                  {2, 1, 1, 1},
                                  {5, 1},
                                  {1, 3, 1, 37}})
    for (bool d_lse : {false, true})
      run({.forward = {.name = "d_mask " + text(shape), .shape = small, .mask = shape},
           .d_lse = d_lse,
           .d_mask = true});
}

TEST_P(softmax_backward, slopes) {
  for (const shape_list &shape : {per_head, per_row, per_batch, shape_list{}, {1}, {5}})
    run({.forward = {.name = "d_slopes " + text(shape),
                     .shape = small,
                     .desc = {.causal = 1, .diagonal_offset = 9},
                     .slopes = shape},
         .d_lse = true,
         .d_slopes = true});
}

TEST_P(softmax_backward, sink) {
  for (const shape_list &shape : {per_head, per_row, per_batch, shape_list{}, {1}})
    for (int32_t log : {0, 1})
      run({.forward = {.name = "d_sink " + text(shape), .shape = small, .desc = {.log = log}, .sink = shape},
           .d_lse = true,
           .d_sink = true});
  run({.forward = {.name = "d_sink, sinks of -inf",
                   .shape = {3, 8},
                   .desc = {.empty_row = SLUICE_EMPTY_ROW_ZERO},
                   .lengths = shape_list{3},
                   .sink = shape_list{3},
                   .edit =
                       [](softmax_inputs &in) {
                         in.sink->values = {-infinity, -infinity, 1};
                         in.lengths->values = {5, 0, 0};
                       }},
       .d_lse = true,
       .d_sink = true});
}

TEST_P(softmax_backward, temperature) {
  for (const shape_list &shape : {per_head, per_row, per_batch, shape_list{}, {5}})
    run({.forward = {.name = "d_temperature " + text(shape),
                     .shape = small,
                     .desc = {.scale = 0.8},
                     .temperature = shape},
         .d_lse = true,
         .d_temperature = true});
}

// An x of -inf has a probability of 0, and so takes no part in any sum.
TEST_P(softmax_backward, infinite_logits) {
  softmax_backward_spec spec = {.forward = {.name = "x of -inf",
                                            .shape = {4, 20},
                                            .mask = shape_list{20},
                                            .slopes = shape_list{4},
                                            .temperature = shape_list{4}}};
  spec.forward.edit = [](softmax_inputs &in) {
    in.mask->values.assign(20, 0.25L);
    for (size_t k = 0; k < 80; k += 3) in.x.values[k] = -infinity;
  };
  spec.d_mask = spec.d_slopes = spec.d_temperature = true;
  run(spec);
}

TEST_P(softmax_backward, everything_at_once) {
  sluice_softmax_desc desc = {.scale = 0.7,
                              .softcap = 20,
                              .causal = 1,
                              .diagonal = SLUICE_DIAGONAL_BOTTOM_RIGHT,
                              .diagonal_offset = 2,
                              .window = 30};
  softmax_spec forward = {.name = "everything",
                          .shape = small,
                          .desc = desc,
                          .mask = shape_list{5, 37},
                          .keep = small,
                          .lengths = per_batch,
                          .slopes = per_head,
                          .sink = per_head,
                          .temperature = per_row};
  for (int32_t log : {0, 1}) {
    forward.desc.log = log;
    run({.forward = forward,
         .d_lse = true,
         .d_mask = true,
         .d_slopes = true,
         .d_sink = true,
         .d_temperature = true});
    run({.forward = forward, .dx = false, .d_mask = true, .d_sink = true});
  }
}

TEST_P(softmax_backward, gradient_of_lse_alone) {
  run({.forward = {.name = "d_lse alone", .shape = small}, .dy = false, .d_lse = true});
  run({.forward = {.name = "d_lse alone, from y", .shape = {3, 40}},
       .y = true,
       .x_and_lse = false,
       .dy = false,
       .d_lse = true});
  run({.forward = {.name = "d_lse alone, all", .shape = small, .mask = shape_list{37}, .sink = per_head},
       .dy = false,
       .d_lse = true,
       .d_mask = true,
       .d_sink = true});
}

TEST_P(softmax_backward, single_gradients_without_dx) {
  softmax_spec forward = {.name = "alone",
                          .shape = small,
                          .mask = shape_list{37},
                          .slopes = per_head,
                          .sink = per_head,
                          .temperature = per_row};
  run({.forward = forward, .dx = false, .d_mask = true});
  run({.forward = forward, .dx = false, .d_slopes = true});
  run({.forward = forward, .dx = false, .d_sink = true});
  run({.forward = forward, .dx = false, .d_temperature = true});
}

TEST_P(softmax_backward, nothing_to_do) {
  for (const shape_list &shape : {shape_list{0, 5}, {5, 0}, {2, 0, 3}, {0}}) {
    run_all_ways({.name = "empty", .shape = shape});
    shape_list rows(shape.begin(), shape.end() - 1);
    for (const shape_list &operand : {shape_list{}, {1}}) {
      if (operand.size() > rows.size()) continue;
      run({.forward = {.name = "empty, all gradients",
                       .shape = shape,
                       .mask = shape_list{1},
                       .slopes = operand,
                       .sink = operand,
                       .temperature = operand},
           .d_lse = true,
           .d_mask = true,
           .d_slopes = true,
           .d_sink = true,
           .d_temperature = true});
    }
  }
}

// NaN in whatever belongs to excluded columns.
TEST_P(softmax_backward, excluded_columns_are_not_read) {
  for (auto [from_y, softcap] : {std::pair<bool, double>{false, 0}, {true, 0}, {false, 5}}) {
    softmax_backward_spec spec = {.forward = {.name = "NaN under excluded",
                                              .shape = {6, 40},
                                              .desc = {.softcap = softcap},
                                              .keep = shape_list{6, 40}},
                                  .y = from_y,
                                  .x_and_lse = !from_y,
                                  .d_lse = true};
    op_case c = make_backward_case(spec, types());
    bit_list keep;
    for (const operand &o : c.operands)
      if (o.name == "keep") keep = o.packed;
    for (operand &o : c.operands) {
      if (o.output || (o.name != "x" && o.name != "dy" && o.name != "y")) continue;
      size_t size = size_t(size_of(o.type));
      for (size_t k = 0; k < keep.size(); ++k)
        if (!keep[k]) store(o.type, o.packed.data() + k * size, not_a_number);
    }
    check_all_modes(c, device());
  }
}

TEST_P(softmax_backward, sizes) {
  for (int64_t n : thin<int64_t>({1, 2, 31, 64, 65, 1000, 4096, 4097, 12345, 20000})) {
    for (bool from_y : {false, true}) {
      softmax_backward_spec spec = {
          .forward = {.name = "size", .shape = {2, n}}, .y = from_y, .x_and_lse = !from_y};
      op_case c = make_backward_case(spec, types());
      results base = perform(c, device());
      check_values(c, base);
      check_threads(c, device(), base);
      check_batch(c, device(), base);
      for (size_t i : {size_t(2), size_t(7), size_t(9)})
        check_same(c, base, perform(c, device(), {.layouts = {layouts[i]}}), layouts[i].name);
    }
    op_case c = make_backward_case({.forward = {.name = "size, all",
                                                .shape = {2, n},
                                                .mask = shape_list{n},
                                                .slopes = shape_list{},
                                                .sink = shape_list{1},
                                                .temperature = shape_list{2}},
                                    .d_mask = true,
                                    .d_slopes = true,
                                    .d_sink = true,
                                    .d_temperature = true},
                                   types());
    results base = perform(c, device());
    check_values(c, base);
    check_threads(c, device(), base);
  }
}

TEST_P(softmax_backward, sums_over_many_rows) {
  op_case c = make_backward_case({.forward = {.name = "many rows",
                                              .shape = {500, 7, 9},
                                              .mask = shape_list{9},
                                              .slopes = shape_list{7},
                                              .sink = shape_list{},
                                              .temperature = shape_list{7}},
                                  .d_lse = true,
                                  .d_mask = true,
                                  .d_slopes = true,
                                  .d_sink = true,
                                  .d_temperature = true},
                                 types());
  results base = perform(c, device());
  check_values(c, base);
  check_threads(c, device(), base);
  check_repeat(c, device(), base);
}

INSTANTIATE_TEST_SUITE_P(all, softmax_backward, testing::ValuesIn(on_all_devices(main_types())), name_of);

} // namespace
} // namespace sluice::test
