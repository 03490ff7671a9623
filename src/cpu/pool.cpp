// pool.cpp: a list of jobs, threads that take indices from them, and callers that help with their own.
#include "cpu/pool.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/limits.hpp"

namespace sluice {
namespace {

struct job {
  void (*body)(void *, int64_t);
  void *arg;
  int64_t n;
  std::atomic<int64_t> next{0};  // first index that nobody took
  std::atomic<int32_t> helpers{0};  // threads inside; changed under the crew's lock
  job *after = nullptr;          // list of open jobs, under the crew's lock

  void work() {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) body(arg, i);
  }
  bool has_work() const { return next.load(std::memory_order_relaxed) < n; }
};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Long enough to bridge the gap between two calls of a decode loop, short enough not to be seen in a profile.
constexpr auto spin = std::chrono::microseconds(30);

template <typename F>
void spin_while(F &&waiting) {
  auto until = std::chrono::steady_clock::now() + spin;
  while (waiting() && std::chrono::steady_clock::now() < until)
    for (int i = 0; i < 16; ++i) relax();
}

int32_t cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, int32_t(std::thread::hardware_concurrency()));  // more cores than the set holds
}

}  // namespace

// Shared by its threads and the pool, so that the pool may go first.
struct pool::crew {
  pid_t process = getpid();
  std::mutex lock;
  std::condition_variable arrived;   // a job, or the end
  std::condition_variable finished;  // the last helper of some job left
  job *open = nullptr;
  bool ended = false;
  std::atomic<uint32_t> jobs{0};     // counts arrivals, for threads that spin
  std::atomic<int32_t> owners{1};

  void leave() {
    if (owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  job *first_with_work() const {
    job *j = open;
    while (j && !j->has_work()) j = j->after;
    return j;
  }

  void serve() {
    std::unique_lock hold(lock);
    while (!ended) {
      if (job *j = first_with_work()) {
        j->helpers.fetch_add(1, std::memory_order_relaxed);
        hold.unlock();
        j->work();
        hold.lock();
        if (j->helpers.fetch_sub(1, std::memory_order_release) == 1)
          finished.notify_all();  // *j may be gone now
        continue;
      }
      uint32_t seen = jobs.load(std::memory_order_relaxed);
      hold.unlock();
      spin_while([&] { return jobs.load(std::memory_order_acquire) == seen; });
      hold.lock();
      arrived.wait(hold, [&] { return ended || first_with_work(); });
    }
    hold.unlock();
    leave();
  }
};

pool::pool(int32_t threads) : size(std::clamp(threads ? threads : cores(), 1, max_threads)) {}

pool::~pool() {
  crew *c = current.load(std::memory_order_acquire);
  if (!c || c->process != getpid()) return; // a forked child has no threads to end, only a copy of their lock
  {
    std::lock_guard hold(c->lock);
    c->ended = true;
  }
  c->arrived.notify_all();
  c->leave();
}

// The crew of this process, hired at first use. A parent's crew is left alone in a child: its threads are not
// here and its lock may be held by one of them.
pool::crew *pool::hired() const {
  crew *c = current.load(std::memory_order_acquire);
  if (c && c->process == getpid()) return c;
  auto fresh = std::make_unique<crew>();
  crew *mine = fresh.get();
  if (!current.compare_exchange_strong(c, mine, std::memory_order_acq_rel))
    return c; // another thread was first
  fresh.release();
  for (int32_t t = 1; t < size; ++t) {
    mine->owners.fetch_add(1, std::memory_order_relaxed);
    try {
      std::thread([mine] { mine->serve(); }).detach();
    } catch (const std::system_error &) { // as many as the system gives; the caller works in any case
      mine->leave();
      break;
    }
  }
  return mine;
}

void pool::run(int64_t n, void (*body)(void *, int64_t), void *arg) const {
  if (n <= 1 || size == 1) {
    for (int64_t i = 0; i < n; ++i) body(arg, i);
    return;
  }
  crew &c = *hired();
  job mine;
  mine.body = body;
  mine.arg = arg;
  mine.n = n;
  {
    std::lock_guard hold(c.lock);
    mine.after = c.open;
    c.open = &mine;
    c.jobs.fetch_add(1, std::memory_order_release);
  }
  if (n >= size)
    c.arrived.notify_all();
  else
    for (int64_t i = 1; i < n; ++i) c.arrived.notify_one();
  mine.work();

  std::unique_lock hold(c.lock);
  job **at = &c.open;
  while (*at != &mine) at = &(*at)->after;
  *at =
      mine.after; // from here on nobody joins, and whoever leaves touches the job last by counting itself out
  auto helped = [&] { return mine.helpers.load(std::memory_order_acquire) != 0; };
  if (!helped()) return;
  hold.unlock();
  spin_while(helped);
  if (!helped()) return;
  hold.lock();
  c.finished.wait(hold, [&] { return !helped(); });
}

} // namespace sluice
