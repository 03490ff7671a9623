// cuda_thread_test.cpp: many threads on one CUDA context, each with a stream of its own and all at once, and other devices
// than the context's that are current meanwhile. What comes out is compared bit for bit with a call by itself.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "driver/block.hpp"
#include "driver/driver.hpp"
#include "sluice/sluice.h"
#include "testkit/testkit.h"

namespace sluice::test {
namespace {

// Rows of one length in memory of one device, and the bits that a call by itself gave.
class cuda_job {
 public:
  cuda_job(int64_t rows, int64_t n)
      : shape{rows, n}, x(cuda, bytes()), y(cuda, bytes()), want(cuda, bytes()) {
    std::vector<float> host(size_t(rows * n));
    random r{uint64_t(n)};
    for (float &v : host) v = float(r.normal(3));
    copy_bytes(cuda, x.at(), host.data(), bytes());
    y.fill(0xa5);
    enqueue(shared_context(cuda), nullptr);
    copy_bytes(cuda, want.at(), y.at(), bytes());
    y.fill(0xa5);
    finish(cuda);
  }

  void enqueue(const sluice_context *on, void *stream) {
    sluice_tensor in = {x.at(), {cuda, 0}, 2, {2, 32, 1}, shape.data(), nullptr, 0}, out = in;
    out.data = y.at();
    auto q = static_cast<sluice_stream>(stream);
    size_t bytes = 0;
    EXPECT_EQ(sluice_softmax_workspace(on, nullptr, &in, &out, &bytes), SLUICE_OK) << sluice_last_error();
    if (bytes > (room ? room->bytes() : 0)) room = std::make_unique<block>(cuda, bytes);
    EXPECT_EQ(sluice_softmax(on, nullptr, &in, &out, room ? room->at() : nullptr, bytes, q), SLUICE_OK)
        << sluice_last_error();
  }
  // Since the last time; the result is poisoned again.
  bool came_out_right() {
    bool right = differing(cuda, y.at(), want.at(), bytes()) == 0;
    y.fill(0xa5);
    EXPECT_EQ(sluice_testkit_stream_sync(nullptr), 0);
    return right;
  }

 private:
  size_t bytes() const { return size_t(shape[0] * shape[1] * 4); }
  std::array<int64_t, 2> shape;
  block x, y, want;
  std::unique_ptr<block> room;
};

class cuda_threads : public testing::Test {
 protected:
  void SetUp() override { SLUICE_SKIP_WITHOUT(cuda); }
};

// Many short rows, few long ones and one very long: what shares the device's multiprocessors in different ways.
std::unique_ptr<cuda_job> job_of(int i) {
  constexpr int64_t sizes[8][2] = {{3000, 64}, {500, 1000}, {40, 20000}, {3, 300001},
                                   {1, 5},     {133, 8192}, {9, 128256}, {1, 2000003}};
  return std::make_unique<cuda_job>(sizes[i][0], sizes[i][1]);
}

TEST_F(cuda_threads, eight_on_one_context) {
  std::vector<std::unique_ptr<cuda_job>> jobs;
  for (int i = 0; i < 8; ++i) jobs.push_back(job_of(i));
  std::vector<std::thread> all;
  for (int i = 0; i < 8; ++i)
    all.emplace_back([&job = *jobs[size_t(i)], i] {
      void *stream = sluice_testkit_stream_create();
      int wrong = 0;
      for (int turn = 0; turn < 30; ++turn) {
        job.enqueue(shared_context(cuda), stream);
        EXPECT_EQ(sluice_testkit_stream_sync(stream), 0);
        wrong += !job.came_out_right();
      }
      EXPECT_EQ(wrong, 0) << "job " << i;
      EXPECT_EQ(sluice_testkit_current_device(), 0);
      sluice_testkit_stream_destroy(stream);
    });
  for (auto &t : all) t.join();
}

// One thread, and nothing waits until all have been enqueued several times.
TEST_F(cuda_threads, eight_streams_at_once) {
  std::vector<std::unique_ptr<cuda_job>> jobs;
  std::vector<void *> streams;
  for (int i = 0; i < 8; ++i) jobs.push_back(job_of(i)), streams.push_back(sluice_testkit_stream_create());
  for (int turn = 0; turn < 10; ++turn) {
    for (int again = 0; again < 3; ++again)
      for (size_t i = 0; i < 8; ++i) jobs[i]->enqueue(shared_context(cuda), streams[i]);
    ASSERT_EQ(sluice_testkit_sync(0), 0);
    for (size_t i = 0; i < 8; ++i) EXPECT_TRUE(jobs[i]->came_out_right()) << "job " << i << ", turn " << turn;
  }
  for (void *stream : streams) sluice_testkit_stream_destroy(stream);
}

TEST_F(cuda_threads, each_makes_and_ends_contexts) {
  std::vector<std::unique_ptr<cuda_job>> jobs;
  for (int i = 0; i < 8; ++i) jobs.push_back(std::make_unique<cuda_job>(20 + i, 1000 * (i + 1)));
  std::vector<std::thread> all;
  for (auto &job : jobs)
    all.emplace_back([&job = *job] {
      void *stream = sluice_testkit_stream_create();
      for (int turn = 0; turn < 5; ++turn) {
        context own(cuda);
        EXPECT_EQ(own.status, SLUICE_OK) << own.text;
        job.enqueue(own, stream);
        EXPECT_EQ(sluice_testkit_stream_sync(stream), 0);
        EXPECT_TRUE(job.came_out_right());
      }
      sluice_testkit_stream_destroy(stream);
    });
  for (auto &t : all) t.join();
}

// The context works on its own device whichever is current, and the caller's stays current.
TEST_F(cuda_threads, with_another_device_current) {
  if (sluice_testkit_devices() < 2) GTEST_SKIP() << "one CUDA device, want two";
  for (int i = 0; i < 8; ++i) {
    auto job = job_of(i);
    ASSERT_EQ(sluice_testkit_set_device(1), 0);
    job->enqueue(shared_context(cuda), nullptr);
    EXPECT_EQ(sluice_testkit_current_device(), 1);
    sluice_tensor broken{};
    EXPECT_NE(sluice_softmax(shared_context(cuda), nullptr, &broken, &broken, nullptr, 0, nullptr),
              SLUICE_OK);
    EXPECT_EQ(sluice_testkit_current_device(), 1);
    ASSERT_EQ(sluice_testkit_set_device(0), 0);
    ASSERT_EQ(sluice_testkit_sync(0), 0);
    EXPECT_TRUE(job->came_out_right());
  }
}

} // namespace
} // namespace sluice::test
