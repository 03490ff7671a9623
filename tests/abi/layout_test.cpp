// layout_test.cpp: the structs that cross the ABI against DLPack's own header, where the machine has it, and against
// the numbers that other languages were built with.
#include <gtest/gtest.h>

#include <cstddef>

#include "sluice/sluice.h"

#ifdef SLUICE_TEST_DLPACK
#include <dlpack/dlpack.h>
#endif

namespace {

#ifdef SLUICE_TEST_DLPACK
TEST(layout, a_tensor_is_a_dl_tensor) {
  EXPECT_EQ(sizeof(sluice_tensor), sizeof(DLTensor));
  EXPECT_EQ(alignof(sluice_tensor), alignof(DLTensor));
  EXPECT_EQ(offsetof(sluice_tensor, data), offsetof(DLTensor, data));
  EXPECT_EQ(offsetof(sluice_tensor, device), offsetof(DLTensor, device));
  EXPECT_EQ(offsetof(sluice_tensor, ndim), offsetof(DLTensor, ndim));
  EXPECT_EQ(offsetof(sluice_tensor, dtype), offsetof(DLTensor, dtype));
  EXPECT_EQ(offsetof(sluice_tensor, shape), offsetof(DLTensor, shape));
  EXPECT_EQ(offsetof(sluice_tensor, strides), offsetof(DLTensor, strides));
  EXPECT_EQ(offsetof(sluice_tensor, byte_offset), offsetof(DLTensor, byte_offset));
  EXPECT_EQ(sizeof(sluice_device), sizeof(DLDevice));
  EXPECT_EQ(offsetof(sluice_device, id), offsetof(DLDevice, device_id));
  EXPECT_EQ(sizeof(sluice_dtype), sizeof(DLDataType));
  EXPECT_EQ(offsetof(sluice_dtype, bits), offsetof(DLDataType, bits));
  EXPECT_EQ(offsetof(sluice_dtype, lanes), offsetof(DLDataType, lanes));
  EXPECT_EQ(kDLCPU, 1);
  EXPECT_EQ(kDLCUDA, 2);
  EXPECT_EQ(kDLCUDAHost, 3);
  EXPECT_EQ(kDLInt, 0u);
  EXPECT_EQ(kDLUInt, 1u);
  EXPECT_EQ(kDLFloat, 2u);
  EXPECT_EQ(kDLBfloat, 4u);
}

TEST(layout, a_dl_tensor_may_be_passed) {
  float x[4] = {0, 0, 0, 0}, y[4] = {};
  int64_t shape[1] = {4};
  DLTensor in = {x, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0}, out = in;
  out.data = y;
  sluice_context *context = nullptr;
  ASSERT_EQ(sluice_context_create(nullptr, &context), SLUICE_OK);
  EXPECT_EQ(sluice_softmax(context, nullptr, reinterpret_cast<const sluice_tensor *>(&in),
                           reinterpret_cast<const sluice_tensor *>(&out), nullptr, 0, nullptr),
            SLUICE_OK);
  EXPECT_EQ(y[3], 0.25f);
  sluice_context_destroy(context);
}
#else
TEST(layout, a_tensor_is_a_dl_tensor) { GTEST_SKIP() << "no dlpack/dlpack.h on this machine"; }
#endif

// The first version of each struct: fields only come after these, so offsets never change and sizes never shrink.
TEST(layout, first_versions) {
  EXPECT_EQ(sizeof(sluice_status), 4u);
  EXPECT_GE(sizeof(sluice_hooks), 48u);
  EXPECT_EQ(offsetof(sluice_hooks, parallel_for), 40u);
  EXPECT_GE(sizeof(sluice_context_desc), 32u);
  EXPECT_EQ(offsetof(sluice_context_desc, hooks), 24u);

  EXPECT_GE(sizeof(sluice_softmax_desc), 128u);
  EXPECT_EQ(offsetof(sluice_softmax_desc, scale), 8u);
  EXPECT_EQ(offsetof(sluice_softmax_desc, log), 24u);
  EXPECT_EQ(offsetof(sluice_softmax_desc, diagonal_offset), 48u);
  EXPECT_EQ(offsetof(sluice_softmax_desc, mask), 64u);
  EXPECT_EQ(offsetof(sluice_softmax_desc, max), 120u);

  EXPECT_GE(sizeof(sluice_softmax_backward_desc), 168u);
  EXPECT_EQ(offsetof(sluice_softmax_backward_desc, diagonal_offset), 40u);
  EXPECT_EQ(offsetof(sluice_softmax_backward_desc, mask), 56u);
  EXPECT_EQ(offsetof(sluice_softmax_backward_desc, d_temperature), 160u);
}

} // namespace
