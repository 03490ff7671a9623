// softmax_driver_calls_test.cpp: a call asks the CUDA driver for launches, and never for memory or to wait: CUPTI listens,
// and where it is not found, the tests are skipped. And what a process asks first may be captured.
#include <algorithm>

#include "driver/driver.hpp"
#include "driver/driver_calls.hpp"
#include "ops/softmax_rows.hpp"
#include "testkit/testkit.h"

namespace sluice::test {
namespace {

class cuda_driver_calls : public testing::TestWithParam<direction> {
 protected:
  void SetUp() override { SLUICE_SKIP_WITHOUT(cuda); }
};

TEST_P(cuda_driver_calls, are_neither_for_memory_nor_to_wait) {
  constexpr int64_t elements = 4 << 20;
  block first(cuda, elements * 4), second(cuda, elements * 4), third(cuda, elements * 4), lse(cuda, 4096);
  for (block *b : {&first, &second, &third}) b->fill(0);
  finish(cuda);
  scratch_room room{std::make_unique<block>(cuda, size_t(64) << 20)};
  void *stream = sluice_testkit_stream_create();
  // What warming loads is all that a first call may need.
  ASSERT_EQ(sluice_context_warm(shared_context(cuda), nullptr), SLUICE_OK) << sluice_last_error();

  driver_calls heard;
  if (!heard.listening()) GTEST_SKIP() << heard.why_not();
  int64_t calls = 0;
  for (dtype type : {dtype::f32, dtype::bf16, dtype::f16, dtype::f64})
    for (int64_t n : {1, 33, 128, 1000, 1025, 2049, 4096, 4097, 8192, 8193, 16385, 20000, 32768, 65536,
                      100000, 262145, 600000, 1500000})
      for (int64_t rows : {1, 3, 300}) {
        if (type == dtype::f64 && rows * n > elements / 2) continue;
        struct way_to_lie {
          int64_t row_step, column_step, shift;
        };
        for (way_to_lie lies : {way_to_lie{n, 1, 0}, {n + 1, 1, 1}, {2 * n, 2, 0}, {1, rows, 0}}) {
          int64_t reach = (rows - 1) * lies.row_step + (n - 1) * lies.column_step + lies.shift + 1;
          if (reach > elements * 4 / size_of(type)) continue;
          rows_views views;
          for (block *b : {&first, &second, &third}) {
            views.push_back(
                {b->at(size_t(lies.shift * size_of(type))), type, rows, n, lies.row_step, lies.column_step});
            if (b == &second && GetParam() != direction::backward) break;
          }
          run_rows(cuda, GetParam(), views, lse.at(), room, nullptr, static_cast<sluice_stream>(stream));
          ++calls;
        }
      }
  std::vector<std::string> names = heard.names();
  EXPECT_GT(calls, 100);
  EXPECT_TRUE(std::any_of(names.begin(), names.end(), [](auto &name) {
    return name.find("Launch") != name.npos;
  })) << "heard no launch";
  std::string all;
  for (const std::string &name : names) {
    EXPECT_FALSE(allocates_or_waits(name)) << name << " in " << calls << " calls";
    all += name + " ";
  }
  RecordProperty("driver_calls", all);
  finish(cuda);
  sluice_testkit_stream_destroy(stream);
}

INSTANTIATE_TEST_SUITE_P(all, cuda_driver_calls,
                         testing::Values(direction::forward, direction::forward_with_lse,
                                         direction::backward),
                         [](const auto &info) { return std::string(name_of(info.param)); });

// What a call must not do is heard when somebody does it.
TEST(cuda_listener, hears_memory_and_waiting) {
  SLUICE_SKIP_WITHOUT(cuda);
  driver_calls heard;
  if (!heard.listening()) GTEST_SKIP() << heard.why_not();
  EXPECT_TRUE(heard.names().empty());
  ASSERT_EQ(sluice_testkit_allocate_and_wait(), 0);
  std::vector<std::string> names = heard.names();
  for (const char *planted : {"cuMemAlloc", "cuStreamSynchronize", "cuMemFree"}) {
    auto found =
        std::find_if(names.begin(), names.end(), [=](auto &name) { return name.find(planted) == 0; });
    ASSERT_NE(found, names.end()) << planted;
    EXPECT_TRUE(allocates_or_waits(*found));
  }
}

// Run alone in its process, nothing is loaded or warmed before it captures.
TEST(cuda_cold, a_first_call_may_be_captured) {
  SLUICE_SKIP_WITHOUT(cuda);
  constexpr int64_t most = 1 << 20;
  void *stream = sluice_testkit_stream_create();
  auto drawn = drawn_rows(cuda, direction::forward, 0, dtype::f32, most);
  block y(cuda, most * 4), captured(cuda, most * 4), lse(cuda, 4);
  scratch_room room{std::make_unique<block>(cuda, size_t(64) << 20)};
  finish(cuda);
  std::vector<void *> graphs;
  const int64_t lengths[] = {5, 1000, 5000, 70000, 300001, most};
  auto call = [&](block &out, int64_t n, void *on) {
    run_rows(cuda, direction::forward_with_lse,
             {{drawn->at(), dtype::f32, 1, n, n}, {out.at(), dtype::f32, 1, n, n}}, lse.at(), room, nullptr,
             static_cast<sluice_stream>(on));
  };
  for (int64_t n : lengths) {
    ASSERT_EQ(sluice_testkit_capture_begin(stream), 0);
    call(captured, n, stream);
    graphs.push_back(sluice_testkit_capture_end(stream));
    ASSERT_NE(graphs.back(), nullptr) << "n = " << n;
  }
  for (size_t i = 0; i < graphs.size(); ++i) {
    captured.fill(0xa5);
    y.fill(0xa5);
    finish(cuda);
    ASSERT_EQ(sluice_testkit_graph_launch(graphs[i], stream), 0);
    ASSERT_EQ(sluice_testkit_stream_sync(stream), 0);
    call(y, lengths[i], nullptr);
    EXPECT_EQ(differing(cuda, y.at(), captured.at(), y.bytes()), 0) << "n = " << lengths[i];
    sluice_testkit_graph_destroy(graphs[i]);
  }
  sluice_testkit_stream_destroy(stream);
}

} // namespace
} // namespace sluice::test
