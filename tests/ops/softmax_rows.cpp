// softmax_rows.cpp: see softmax_rows.hpp.
#include "ops/softmax_rows.hpp"

#include <sluice/sluice.h>

#include <algorithm>

namespace sluice::test {
namespace {

// A tensor with shape and strides of its own.
struct tensor_of_rows {
  explicit tensor_of_rows(int32_t device, const rows_view &v)
      : shape{v.rows, v.n}, strides{v.row_step, v.column_step} {
    tensor.data = v.data;
    tensor.device = {device, 0};
    tensor.ndim = 2;
    tensor.dtype = abi(v.type);
    tensor.shape = shape;
    tensor.strides = strides;
  }
  tensor_of_rows(const tensor_of_rows &) = delete;

  int64_t shape[2], strides[2];
  sluice_tensor tensor{};
};

}  // namespace

void run_rows(int32_t device, direction way, const rows_views &views, void *lse, scratch_room &room,
              const sluice_context *context, sluice_stream stream) {
  const sluice_context *on = context ? context : static_cast<const sluice_context *>(shared_context(device));
  tensor_of_rows first(device, views[0]), second(device, views[1]), third(device, views.back()),
      per_row(device, {lse, dtype::f32, views[0].rows, 1, 1});
  per_row.tensor.ndim = 1;

  auto call = [&](size_t *asked) {
    void *at = room.memory ? room.memory->at() : nullptr;
    size_t bytes = room.memory ? room.memory->bytes() : 0;
    if (way == direction::backward) {
      sluice_softmax_backward_desc desc{};
      desc.struct_size = sizeof desc;
      desc.y = &second.tensor;
      return asked ? sluice_softmax_backward_workspace(on, &desc, &first.tensor, &third.tensor, asked)
                   : sluice_softmax_backward(on, &desc, &first.tensor, &third.tensor, at, bytes, stream);
    }
    sluice_softmax_desc desc{};
    desc.struct_size = sizeof desc;
    if (way == direction::forward_with_lse) desc.lse = &per_row.tensor;
    return asked ? sluice_softmax_workspace(on, &desc, &first.tensor, &second.tensor, asked)
                 : sluice_softmax(on, &desc, &first.tensor, &second.tensor, at, bytes, stream);
  };
  size_t wanted = 0;
  ASSERT_EQ(call(&wanted), SLUICE_OK) << sluice_last_error();
  if (wanted > (room.memory ? room.memory->bytes() : 0))
    room.memory = std::make_unique<block>(device, wanted);
  ASSERT_EQ(call(nullptr), SLUICE_OK) << sluice_last_error();
}

std::unique_ptr<block> drawn_rows(int32_t device, direction way, size_t k, dtype type, int64_t elements,
                                  int64_t period) {
  random r(uint64_t(k) + 77);
  bool probabilities = way == direction::backward && k == 1;
  size_t size = size_t(size_of(type)), drawn = size_t(std::min(elements, period)) * size;
  std::vector<uint8_t> bits(drawn);
  for (size_t at = 0; at < drawn; at += size)
    store(type, &bits[at], probabilities ? r.uniform(0, 1) : r.normal(4));
  auto made = std::make_unique<block>(device, size_t(elements) * size);
  if (!made->at()) return made;
  copy_bytes(device, made->at(), bits.data(), drawn);
  made->repeat(drawn);
  return made;
}

}  // namespace sluice::test
