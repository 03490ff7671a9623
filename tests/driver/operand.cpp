// operand.cpp: see operand.hpp.
#include "driver/operand.hpp"

#include <cstring>

#include "driver/device.hpp"

namespace sluice::test {

bit_list pack(dtype type, const std::vector<real> &values) {
  size_t size = size_t(size_of(type));
  bit_list bits(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) store(type, bits.data() + i * size, values[i]);
  return bits;
}

namespace {

// Storage is rounded up to nothing: the last element ends where the guard band begins.
size_t storage_bytes(const operand &o, const layout &how) {
  return size_t(place(how, o.shape).elements * size_of(o.type));
}

}  // namespace

placed::placed(int32_t device, const operand &o, const layout &how)
    : store(device, storage_bytes(o, how), o.output ? 0xa5 : 0xff), size(size_of(o.type)), shape(o.shape) {
  placement p = place(how, o.shape);
  strides = p.strides;
  start = (how.shift + how.offset + p.first) * size;

  tensor.data = store.bytes() ? store.address() + how.shift * size : nullptr;
  tensor.device = {device, 0};
  tensor.ndim = int32_t(shape.size());
  tensor.dtype = abi(o.type);
  tensor.shape = shape.empty() ? nullptr : shape.data();
  tensor.strides = how.null_strides || shape.empty() ? nullptr : strides.data();
  tensor.byte_offset = uint64_t((how.offset + p.first) * size);

  if (!o.output)
    for_each_byte_run([&](int64_t flat, int64_t at) {
      std::memcpy(store.before() + at, o.packed.data() + flat * size, size_t(size));
    });
  store.upload();
}

template <typename F>
void placed::for_each_byte_run(F &&f) const {
  for_each_element(shape, strides, [&](int64_t flat, int64_t offset) { f(flat, start + offset * size); });
}

void placed::narrow(int64_t first, int64_t count) {
  start += first * strides[0] * size;
  tensor.byte_offset += uint64_t(first * strides[0] * size);
  shape[0] = count;
}

bit_list placed::found() const {
  bit_list bits(size_t(count_of(shape) * size));
  for_each_byte_run([&](int64_t flat, int64_t at) {
    std::memcpy(bits.data() + flat * size, store.after() + at, size_t(size));
  });
  return bits;
}

bool placed::only_elements_changed() const {
  if (!store.guards_untouched()) return false;
  bit_list expected(store.before(), store.before() + store.bytes());
  for_each_byte_run(
      [&](int64_t, int64_t at) { std::memcpy(expected.data() + at, store.after() + at, size_t(size)); });
  return expected.empty() || std::memcmp(expected.data(), store.after(), expected.size()) == 0;
}

}  // namespace sluice::test
