// softmax_test.cpp: every feature of softmax, alone and combined, in every mode of the driver.
#include "ops/softmax_suite.hpp"

namespace sluice::test {
namespace {

class softmax : public softmax_suite {
 protected:
  // batch, heads, queries, columns: small, and no extent equal to another.
  const shape_list small = {2, 3, 5, 37};
  const shape_list full = {2, 3, 5, 37}, per_head = {3, 1}, per_batch = {2, 1, 1}, per_row = {2, 3, 5};

  void run(const softmax_spec &spec) { check_all_modes(make_case(spec, types()), device()); }
};

TEST_P(softmax, plain) {
  run({.name = "plain", .shape = small});
  run({.name = "plain, one axis", .shape = {129}, .lse = true, .max = true});
  run({.name = "plain, wide spread", .shape = {7, 64}, .lse = true, .max = true, .spread = 30});
}

TEST_P(softmax, scale) {
  for (double scale : {0.125, 0.1, -1.0, 1000.1, 1e-30})
    run({.name = "scale " + std::to_string(scale),
         .shape = {3, 70},
         .desc = {.scale = scale},
         .lse = true,
         .max = true});
}

TEST_P(softmax, softcap) {
  run({.name = "softcap", .shape = small, .desc = {.softcap = 5}, .lse = true, .max = true});
  run({.name = "softcap, scale",
       .shape = {4, 33},
       .desc = {.scale = 0.3, .softcap = 30},
       .lse = true,
       .spread = 40});
}

TEST_P(softmax, log) {
  run({.name = "log", .shape = small, .desc = {.log = 1}, .lse = true, .max = true});
  run({.name = "log, far from zero",
       .shape = {4, 65},
       .desc = {.log = 1},
       .lse = true,
       .spread = 2,
       .centre = -200});
}

TEST_P(softmax, high_accuracy) {
  run({.name = "high", .shape = small, .desc = {.accuracy = SLUICE_ACCURACY_HIGH}, .lse = true, .max = true});
  run({.name = "high, wide", .shape = {5, 200}, .desc = {.accuracy = SLUICE_ACCURACY_HIGH}, .spread = 25});
  run({.name = "high, far from zero",
       .shape = {5, 200},
       .desc = {.accuracy = SLUICE_ACCURACY_HIGH},
       .centre = 3000});
  run({.name = "high, log",
       .shape = {5, 70},
       .desc = {.log = 1, .accuracy = SLUICE_ACCURACY_HIGH},
       .lse = true});
}

TEST_P(softmax, causal) {
  for (int32_t diagonal : {SLUICE_DIAGONAL_TOP_LEFT, SLUICE_DIAGONAL_BOTTOM_RIGHT})
    for (int64_t offset : {0, 3, -2, 100, -100})
      for (const shape_list &shape : {shape_list{2, 3, 5, 9}, {2, 9, 5}, {6, 6}, {11}}) {
        sluice_softmax_desc desc = {.causal = 1, .diagonal = diagonal, .diagonal_offset = offset};
        desc.empty_row = SLUICE_EMPTY_ROW_ZERO;
        run({.name = "causal, diagonal " + std::to_string(diagonal) + " + " + std::to_string(offset),
             .shape = shape,
             .desc = desc,
             .lse = true,
             .max = true});
      }
}

TEST_P(softmax, far_diagonals) {
  const int64_t far = int64_t(1) << 61;
  for (int32_t causal : {0, 1})
    for (int64_t offset : {far, -far, far - 1, 1 - far})
      for (int64_t window : {int64_t(0), int64_t(1), far})
        check_value_mode(make_case({.name = "far diagonal",
                                    .shape = {2, 3, 5},
                                    .desc = {.causal = causal, .diagonal_offset = offset, .window = window},
                                    .lse = true},
                                   types()),
                         device());
}

TEST_P(softmax, window) {
  for (int64_t window : {1, 2, 7, 1000})
    for (int32_t causal : {0, 1})
      for (int32_t diagonal : {SLUICE_DIAGONAL_TOP_LEFT, SLUICE_DIAGONAL_BOTTOM_RIGHT}) {
        sluice_softmax_desc desc = {
            .causal = causal, .diagonal = diagonal, .diagonal_offset = 1, .window = window};
        for (const shape_list &shape : {shape_list{2, 5, 21}, {2, 21, 5}})
          run({.name = "window " + std::to_string(window), .shape = shape, .desc = desc, .lse = true});
      }
}

TEST_P(softmax, alibi) {
  run({.name = "slopes per head", .shape = small, .slopes = per_head, .lse = true, .max = true});
  run({.name = "slopes per row, bottom right",
       .shape = small,
       .desc = {.diagonal = SLUICE_DIAGONAL_BOTTOM_RIGHT},
       .slopes = per_row,
       .lse = true,
       .max = true});
  run({.name = "one slope for all",
       .shape = {4, 30},
       .desc = {.causal = 1},
       .slopes = shape_list{},
       .lse = true});
  run({.name = "slopes that no power of two is",
       .shape = {4, 30},
       .slopes = shape_list{4},
       .max = true,
       .edit = [](softmax_inputs &in) { in.slopes->values = {0.1L, -0.3L, 7.7L, 0}; }});
}

TEST_P(softmax, mask) {
  for (const shape_list &shape : {full,
                                  shape_list{2, 1, 5, 37},
                                  {1, 1, 1, 37},
                                  {5, 37},
                                  {37},
                                  {1},
                                  {},
                                  {3, 1, 1},
                                  {2, 1, 1, 1},
                                  {3, 5, 1},
                                  {1, 3, 1, 37}})
    run({.name = "mask " + text(shape), .shape = small, .mask = shape, .lse = true, .max = true});
}

TEST_P(softmax, keep) {
  for (const shape_list &shape : {full, shape_list{2, 1, 5, 37}, {1, 1, 1, 37}, {5, 37}, {37}, {3, 1, 1}})
    run({.name = "keep " + text(shape), .shape = small, .keep = shape, .lse = true, .max = true});
}

TEST_P(softmax, keep_takes_every_nonzero_byte) {
  softmax_types t = types();
  for (dtype keep : {dtype::u8, dtype::i8}) {
    t.keep = keep;
    check_value_mode(make_case({.name = "keep",
                                .shape = {3, 70},
                                .keep = shape_list{70},
                                .edit =
                                    [&](softmax_inputs &in) {
                                      for (size_t j = 0; j < 70; ++j)
                                        in.keep->values[j] = real((j * 37) % 100);
                                      in.keep->values[1] = keep == dtype::u8 ? 255 : -1;
                                      in.keep->values[2] = keep == dtype::u8 ? 128 : -128;
                                    }},
                               t),
                     device());
  }
}

TEST_P(softmax, lengths) {
  for (const shape_list &shape : {per_row, per_batch, per_head, shape_list{}, {1}, {5}})
    run({.name = "lengths " + text(shape), .shape = small, .lengths = shape, .lse = true, .max = true});
  run({.name = "lengths beyond int32, and far below zero",
       .shape = {4, 9},
       .lengths = shape_list{4},
       .lse = true,
       .edit = [this](softmax_inputs &in) {
         bool wide = types().lengths == dtype::i64;
         in.lengths->values = {wide ? 9e18L : 2147483647.0L, wide ? -9e18L : -2147483648.0L, 4294967297.0L,
                               3};
         if (!wide) in.lengths->values[2] = 9;
       }});
}

TEST_P(softmax, temperature) {
  run({.name = "temperature per row", .shape = small, .temperature = per_row, .lse = true, .max = true});
  run({.name = "temperature per batch", .shape = small, .temperature = per_batch, .lse = true, .max = true});
  run({.name = "low temperatures",
       .shape = {4, 300},
       .temperature = shape_list{1},
       .max = true,
       .edit = [](softmax_inputs &in) { in.temperature->values = {0.013L}; }});
}

TEST_P(softmax, sink) {
  run({.name = "sink per head", .shape = small, .sink = per_head, .lse = true, .max = true});
  run({.name = "sink, log", .shape = small, .desc = {.log = 1}, .sink = per_row, .lse = true, .max = true});
  run({.name = "sinks of every kind",
       .shape = {6, 8},
       .desc = {.empty_row = SLUICE_EMPTY_ROW_UNIFORM},
       .sink = shape_list{6},
       .lse = true,
       .max = true,
       .edit = [](softmax_inputs &in) {
         in.sink->values = {-infinity, 100, -1000, not_a_number, 0, infinity};
       }});
  run({.name = "sink in rows that are empty without it",
       .shape = {2, 8},
       .keep = shape_list{8},
       .sink = shape_list{},
       .lse = true,
       .max = true,
       .edit = [](softmax_inputs &in) { in.keep->values.assign(8, 0); }});
}

TEST_P(softmax, everything_at_once) {
  sluice_softmax_desc desc = {.scale = 0.7,
                              .softcap = 20,
                              .causal = 1,
                              .diagonal = SLUICE_DIAGONAL_BOTTOM_RIGHT,
                              .diagonal_offset = 2,
                              .window = 30};
  softmax_spec spec = {.name = "everything",
                       .shape = small,
                       .desc = desc,
                       .mask = shape_list{5, 37},
                       .keep = full,
                       .lengths = per_batch,
                       .slopes = per_head,
                       .sink = per_head,
                       .temperature = per_row,
                       .lse = true,
                       .max = true};
  for (int32_t log : {0, 1})
    for (int32_t policy : {SLUICE_EMPTY_ROW_NAN, SLUICE_EMPTY_ROW_ZERO, SLUICE_EMPTY_ROW_UNIFORM}) {
      spec.desc.log = log, spec.desc.empty_row = policy;
      run(spec);
    }
  spec.sink.reset();
  spec.desc.accuracy = SLUICE_ACCURACY_HIGH;
  run(spec);
}

TEST_P(softmax, results_without_probabilities) {
  softmax_spec spec = {
      .name = "lse alone", .shape = small, .mask = full, .temperature = per_row, .y = false, .lse = true};
  run(spec);
  spec.max = true, spec.name = "lse and max";
  run(spec);
  spec.lse = false, spec.name = "max alone";
  run(spec);
}

// Rows long enough to be cut among threads, with every operand that has a last axis.
TEST_P(softmax, long_rows) {
  run({.name = "long row", .shape = {1, 20011}, .lse = true, .max = true});
  run({.name = "long rows, masked",
       .shape = {2, 9001},
       .desc = {.scale = 0.5, .causal = 1, .diagonal_offset = 8000},
       .mask = shape_list{9001},
       .keep = shape_list{2, 9001},
       .lengths = shape_list{2},
       .lse = true});
  run({.name = "long rows, log, sink",
       .shape = {3, 8200},
       .desc = {.log = 1},
       .slopes = shape_list{3},
       .sink = shape_list{3},
       .temperature = shape_list{3},
       .lse = true,
       .max = true});
}

INSTANTIATE_TEST_SUITE_P(all, softmax, testing::ValuesIn(on_all_devices(main_types())), name_of);

}  // namespace
}  // namespace sluice::test
