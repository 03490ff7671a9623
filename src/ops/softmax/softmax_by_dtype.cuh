// softmax_by_dtype.cuh: softmax for one dtype of x. Each is compiled in a file of its own, as its kernels take a
// minute.
#pragma once

#include "ops/softmax/softmax_forward.cuh"
#include "ops/softmax/softmax_launch.cuh"

namespace sluice::softmax {

template <typename X>
result<void> run_cuda_of(const plan &p, const scratch &s, const addresses &data, sluice_stream stream) {
  const row_task task = {p, data};
  auto run = [&]<rows_are kind>() {
    return launches::all<forward_row, X, kind>(task, s.device_pairs, s.device_rows, data.at[op_y], stream);
  };
  if (p.shaped) return run.template operator()<rows_are::shaped>();
  return p.aligned ? run.template operator()<rows_are::aligned>()
                   : run.template operator()<rows_are::plain>();
}

template <typename X>
result<void> warm_cuda_of() {
  return first_failure([] { return launches::warm<forward_row, X, rows_are::aligned>(); },
                       [] { return launches::warm<forward_row, X, rows_are::plain>(); },
                       [] { return launches::warm<forward_row, X, rows_are::shaped>(); });
}

} // namespace sluice::softmax
