// cpu_code.hpp: what an instruction set offers softmax: one thread's share of the work.
#pragma once

#include <atomic>
#include <cstdint>

#include "cpu/isa.hpp"
#include "ops/softmax/softmax.hpp"

namespace sluice::softmax {

struct forward_code {
  // Rows from `next` on until none is left. room: where the plan keeps exponentials, the body's own; else
  // nullptr.
  void (*rows)(const plan &p, const addresses &data, std::atomic<int64_t> &next, char *room);
  void (*sums)(const plan &p, const addresses &data, int64_t row, int64_t first, int64_t last, pair *chunks);
  void (*write)(const plan &p, const addresses &data, int64_t row, int64_t first, int64_t last,
                const total &t);
  total (*finish)(const plan &p, const addresses &data, int64_t row, const pair *chunks);
  // Tiles likewise.
  void (*tiles)(const plan &p, const addresses &data, std::atomic<int64_t> &next, char *room);
};

struct backward_code {
  void (*dots)(const backward_plan &p, const addresses &data, double *dots, int64_t begin, int64_t end);
  // dx and the rows' shares of the gradients that add up over rows, given dots.
  void (*rows)(const backward_plan &p, const backward_scratch &s, const addresses &data, int64_t begin,
               int64_t end);
  // One piece of one row of d_mask, summed over the rows that share it.
  void (*mask)(const backward_plan &p, const backward_scratch &s, const addresses &data, const gradients &out,
               int64_t kept, int64_t piece);
  int64_t (*mask_pieces)(int64_t n);
};

}  // namespace sluice::softmax
