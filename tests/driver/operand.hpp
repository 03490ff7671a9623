// operand.hpp: one tensor of a case, and the same tensor laid into a device's memory.
#pragma once

#include <sluice/core.h>

#include <string>
#include <vector>

#include "driver/layout.hpp"
#include "driver/memory.hpp"
#include "driver/numbers.hpp"

namespace sluice::test {

using bit_list = std::vector<uint8_t>;  // elements in row-major order, each in its dtype's bytes

struct operand {
  std::string name;
  dtype type = dtype::f32;
  shape_list shape = {};
  std::vector<real> values = {};   // what goes in, or what should come out, in row-major order
  std::vector<real> allowed = {};  // of a result: the largest error of each value
  bool output = false;
  bool batched = false;   // axis 0 is the case's batch
  bit_list packed = {};   // an input's values as bits
};

bit_list pack(dtype type, const std::vector<real> &values);

// Elements that count are set; every other byte of an input is 0xff, NaN in each float dtype, and every byte of an
// output is 0xa5, a small odd number: a result that was not written, or came from a gap, cannot pass.
class placed {
 public:
  placed(int32_t device, const operand &o, const layout &how);

  // The whole tensor, or `count` indices of axis 0 from `first` on.
  const sluice_tensor *view() const { return &tensor; }
  void narrow(int64_t first, int64_t count);

  bit_list found() const;               // the elements of view() after the call
  bool only_elements_changed() const;   // and not a byte beside them
  memory store;

 private:
  template <typename F>
  void for_each_byte_run(F &&f) const;  // f(flat index, byte position in the storage)

  int64_t size;
  shape_list shape, strides;
  int64_t start;  // bytes from the storage to the first element of view()
  sluice_tensor tensor{};
};

}  // namespace sluice::test
