// thread_test.cpp: when threads start, many threads on one context, the error text of each thread, and contexts on
// both sides of a fork.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sluice/sluice.h"

#if defined(__SANITIZE_THREAD__)
constexpr bool tsan = true;
// A child that starts threads after a fork is what is tested here.
extern "C" const char *__tsan_default_options() { return "die_after_fork=0"; }
#else
constexpr bool tsan = false;
#endif

namespace {

int threads_of_process() {
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  while (dirent *entry = readdir(folder)) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

struct owned {
  explicit owned(int32_t threads) {
    sluice_context_desc desc{};
    desc.struct_size = sizeof desc;
    desc.threads = threads;
    EXPECT_EQ(sluice_context_create(&desc, &made), SLUICE_OK) << sluice_last_error();
  }
  ~owned() { sluice_context_destroy(made); }
  sluice_context *made = nullptr;
};

// Rows of different constants; every result is 1 / n, exact as n is a power of two, whatever the thread that made it.
class job {
 public:
  job(int64_t rows, int64_t n) : rows(rows), n(n), x(size_t(rows * n)), y(x.size(), -1), workspace(1 << 20) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(int64_t(i) / n % 100);
  }
  bool run(const sluice_context *context) {
    std::fill(y.begin(), y.end(), -1.0f);
    int64_t shape[2] = {rows, n};
    sluice_tensor in = {x.data(), {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0}, out = in;
    out.data = y.data();
    void *room = workspace.data();
    size_t bytes = workspace.size();
    if (!std::align(256, bytes - 256, room, bytes)) return false;
    if (sluice_softmax(context, nullptr, &in, &out, room, bytes, nullptr) != SLUICE_OK) return false;
    for (float v : y)
      if (v != 1.0f / float(n)) return false;
    return true;
  }

 private:
  int64_t rows, n;
  std::vector<float> x, y;
  std::vector<char> workspace;
};

// What `body` answers in a child of this process; -1 when it died or hung.
int in_a_child(const std::function<int()> &body) {
  // ThreadSanitizer starts a thread of its own with the first one, and after a fork at once if it had: then it is counted
  // before and after alike.
  if (tsan) std::thread([] {}).join();
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(threads, none_before_the_first_parallel_work) {
  EXPECT_EQ(in_a_child([] {
              int before = threads_of_process();
              owned with(4);
              if (threads_of_process() != before) return 1;
              if (sluice_context_warm(with.made, nullptr) != SLUICE_OK) return 2;
              job small(1, 16), large(5000, 64);
              if (!small.run(with.made)) return 3;
              if (threads_of_process() != before) return 4; // too little to share
              if (!large.run(with.made)) return 5;
              if (threads_of_process() != before + 3) return 6; // the caller works as well
              return 0;
            }),
            0);
}

TEST(threads, one_thread_is_the_caller) {
  EXPECT_EQ(in_a_child([] {
              int before = threads_of_process();
              owned with(1);
              job large(5000, 64);
              if (!large.run(with.made)) return 1;
              return threads_of_process() == before ? 0 : 2;
            }),
            0);
}

TEST(threads, end_after_their_context) {
  EXPECT_EQ(in_a_child([] {
              int before = threads_of_process();
              for (int i = 0; i < 5; ++i) {
                owned with(6);
                job large(3000, 64);
                if (!large.run(with.made)) return 1;
              }
              for (int wait = 0; wait < 2000 && threads_of_process() != before; ++wait) usleep(1000);
              return threads_of_process() == before ? 0 : 2;
            }),
            0);
}

TEST(threads, eight_on_one_context) {
  for (int32_t width : {1, 2, 5}) {
    owned with(width);
    std::atomic<int> wrong{0};
    std::vector<std::thread> all;
    for (int t = 0; t < 8; ++t)
      all.emplace_back([&, t] {
        job rows(100 + 400 * t, 64), wide(1 + t % 3, 16384 << t % 2);
        for (int i = 0; i < 20; ++i) wrong += !rows.run(with.made) + !wide.run(with.made);
      });
    for (auto &t : all) t.join();
    EXPECT_EQ(wrong, 0) << width;
  }
}

TEST(threads, each_makes_and_ends_contexts) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (int t = 0; t < 8; ++t)
    all.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        owned with(1 + (t + i) % 4);
        job rows(1500, 64);
        wrong += !rows.run(with.made);
      }
    });
  for (auto &t : all) t.join();
  EXPECT_EQ(wrong, 0);
}

// Ended by another thread than the one that made it, right after the last call.
TEST(threads, contexts_may_end_elsewhere) {
  for (int i = 0; i < 50; ++i) {
    sluice_context_desc desc{};
    desc.struct_size = sizeof desc;
    desc.threads = 3;
    sluice_context *made = nullptr;
    ASSERT_EQ(sluice_context_create(&desc, &made), SLUICE_OK);
    job rows(800, 64);
    EXPECT_TRUE(rows.run(made));
    std::thread([made] { sluice_context_destroy(made); }).join();
  }
}

TEST(threads, each_has_its_own_error_text) {
  EXPECT_NE(sluice_context_create(nullptr, nullptr), SLUICE_OK);
  const std::string mine = sluice_last_error();
  std::thread([&] {
    EXPECT_STREQ(sluice_last_error(), "");
    EXPECT_NE(sluice_context_warm(nullptr, nullptr), SLUICE_OK);
    EXPECT_STREQ(sluice_last_error(), "context_warm: context is NULL");
  }).join();
  EXPECT_EQ(sluice_last_error(), mine);
}

TEST(fork, a_context_works_on_both_sides) {
  for (int32_t width : {1, 3}) {
    owned with(width);
    job rows(2000, 64);
    ASSERT_TRUE(rows.run(with.made)); // its threads run by now
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(in_a_child([&] {
                  int before = threads_of_process();
                  for (int k = 0; k < 5; ++k)
                    if (!rows.run(with.made)) return 1;
                  if (threads_of_process() != before + width - 1) return 2;
                  sluice_context_destroy(with.made);
                  with.made = nullptr;
                  return 0;
                }),
                0)
          << width;
      EXPECT_TRUE(rows.run(with.made));
    }
  }
}

TEST(fork, a_context_from_before_may_end_in_the_child_unused) {
  owned with(3);
  job rows(2000, 64);
  ASSERT_TRUE(rows.run(with.made));
  EXPECT_EQ(in_a_child([&] {
              sluice_context_destroy(with.made);
              with.made = nullptr;
              owned fresh(3);
              return rows.run(fresh.made) ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(rows.run(with.made));
}

// While other threads compute, so that the child inherits locks in whatever state they were.
TEST(fork, in_the_middle_of_work) {
  if (tsan) GTEST_SKIP() << "ThreadSanitizer cannot follow threads into a child";
  owned with(3);
  std::atomic<bool> stop{false};
  std::vector<std::thread> all;
  for (int t = 0; t < 3; ++t)
    all.emplace_back([&] {
      job rows(1500, 64);
      while (!stop) EXPECT_TRUE(rows.run(with.made));
    });
  job mine(1500, 64);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(in_a_child([&] { return mine.run(with.made) ? 0 : 1; }), 0) << i;
  stop = true;
  for (auto &t : all) t.join();
}

} // namespace
