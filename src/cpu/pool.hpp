// pool.hpp: the threads of one CPU context. Started at the first parallel work, started anew in a forked
// child, and ended without anybody waiting for them.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

class pool {
 public:
  // threads: 0 one per core of the affinity mask; 1 the caller alone.
  explicit pool(int32_t threads);
  ~pool();
  pool(const pool &) = delete;
  pool &operator=(const pool &) = delete;

  int32_t threads() const { return size; }

  // body(arg, i) for every i in [0, n), on the caller and the pool's threads; returns when all are done. Any
  // number of callers at once. Bodies must not wait for each other.
  void run(int64_t n, void (*body)(void *arg, int64_t i), void *arg) const;

 private:
  struct crew;  // the threads of one process
  crew *hired() const;

  int32_t size;
  mutable std::atomic<crew *> current{nullptr};
};

}  // namespace sluice
