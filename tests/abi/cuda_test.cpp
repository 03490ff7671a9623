// cuda_test.cpp: what a CUDA context promises beside results: the caller's device, memory that host and device share,
// streams, forks. Skipped where there is no device.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "driver/driver.hpp"
#include "sluice/sluice.h"
#include "testkit/testkit.h"

namespace sluice::test {
namespace {

class cuda_context : public testing::Test {
 protected:
  void SetUp() override { SLUICE_SKIP_WITHOUT(cuda); }

  operand zeros{.name = "x", .shape = {2, 4}, .packed = pack(dtype::f32, std::vector<real>(8, 0))};
  operand result{.name = "y", .shape = {2, 4}, .output = true};
  const bit_list quarter = pack(dtype::f32, std::vector<real>(8, 0.25L));
};

TEST_F(cuda_context, leaves_the_callers_device) {
  for (int32_t device = 0; device < sluice_testkit_devices(); ++device) {
    ASSERT_EQ(sluice_testkit_set_device(device), 0);
    placed x(cuda, zeros, compact), y(cuda, result, compact);
    EXPECT_EQ(sluice_softmax(shared_context(cuda), nullptr, x.view(), y.view(), nullptr, 0, nullptr),
              SLUICE_OK)
        << sluice_last_error();
    EXPECT_EQ(sluice_testkit_current_device(), device);
  }
  ASSERT_EQ(sluice_testkit_set_device(0), 0);
}

TEST_F(cuda_context, every_ordinal_works) {
  for (int32_t device = 0; device < sluice_testkit_devices(); ++device) {
    sluice_context_desc desc{};
    desc.struct_size = sizeof desc;
    desc.device_type = cuda, desc.device_id = device;
    sluice_context *made = nullptr;
    ASSERT_EQ(sluice_context_create(&desc, &made), SLUICE_OK) << sluice_last_error();
    float *memory = static_cast<float *>(sluice_testkit_alloc(cuda, device, 32));
    float host[8] = {};
    ASSERT_EQ(sluice_testkit_copy(memory, host, 32), 0);
    int64_t shape[1] = {8};
    sluice_tensor t = {memory, {cuda, device}, 1, {2, 32, 1}, shape, nullptr, 0};
    EXPECT_EQ(sluice_softmax(made, nullptr, &t, &t, nullptr, 0, nullptr), SLUICE_OK) << sluice_last_error();
    EXPECT_EQ(sluice_testkit_sync(device), 0);
    ASSERT_EQ(sluice_testkit_copy(host, memory, 32), 0);
    EXPECT_EQ(host[7], 0.125f);
    sluice_testkit_free(cuda, device, memory);
    sluice_context_destroy(made);
  }
}

TEST_F(cuda_context, takes_pinned_and_managed_memory) {
  for (int32_t type : {3, 13}) {
    float *memory = static_cast<float *>(sluice_testkit_alloc(type, 0, 32));
    ASSERT_NE(memory, nullptr) << type;
    std::memset(memory, 0, 32);
    int64_t shape[1] = {8};
    sluice_tensor t = {memory, {type, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
    EXPECT_EQ(sluice_softmax(shared_context(cuda), nullptr, &t, &t, nullptr, 0, nullptr), SLUICE_OK)
        << sluice_last_error();
    EXPECT_EQ(sluice_testkit_sync(0), 0);
    EXPECT_EQ(memory[3], 0.125f);
    sluice_testkit_free(type, 0, memory);
  }
}

TEST_F(cuda_context, refuses_host_memory) {
  placed x(cpu, zeros, compact), y(cpu, result, compact);
  EXPECT_EQ(sluice_softmax(shared_context(cuda), nullptr, x.view(), y.view(), nullptr, 0, nullptr),
            SLUICE_INVALID_DEVICE);
  EXPECT_STREQ(sluice_last_error(), "softmax: x.device is (1, 0), want (2, 0)");
}

TEST_F(cuda_context, takes_streams_and_special_handles) {
  void *own = sluice_testkit_stream_create();
  for (void *stream : {static_cast<void *>(nullptr), reinterpret_cast<void *>(uintptr_t(1)),
                       reinterpret_cast<void *>(uintptr_t(2)), own}) {
    placed x(cuda, zeros, compact), y(cuda, result, compact);
    EXPECT_EQ(sluice_softmax(shared_context(cuda), nullptr, x.view(), y.view(), nullptr, 0,
                             static_cast<sluice_stream>(stream)),
              SLUICE_OK)
        << sluice_last_error();
    EXPECT_EQ(sluice_testkit_sync(0), 0);
    y.store.download();
    EXPECT_EQ(y.found(), quarter);
  }
  sluice_testkit_stream_destroy(own);
}

TEST_F(cuda_context, debug_sync_waits) {
  sluice_context_desc desc{};
  desc.struct_size = sizeof desc;
  desc.device_type = cuda, desc.debug_sync = 1;
  sluice_context *made = nullptr;
  ASSERT_EQ(sluice_context_create(&desc, &made), SLUICE_OK) << sluice_last_error();
  placed x(cuda, zeros, compact), y(cuda, result, compact);
  EXPECT_EQ(sluice_softmax(made, nullptr, x.view(), y.view(), nullptr, 0, nullptr), SLUICE_OK)
      << sluice_last_error();
  y.store.download();
  EXPECT_EQ(y.found(), quarter);
  sluice_context_destroy(made);
}

TEST_F(cuda_context, is_refused_after_a_fork) {
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    sluice_tensor t{};
    sluice_status status = sluice_softmax(shared_context(cuda), nullptr, &t, &t, nullptr, 0, nullptr);
    const char *want = "softmax: context was created before fork, want one made in this process";
    _exit(status == SLUICE_NO_DEVICE && std::strcmp(sluice_last_error(), want) == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

} // namespace
} // namespace sluice::test
