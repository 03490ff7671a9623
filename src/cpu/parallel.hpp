// parallel.hpp: one loop over independent bodies, on the host's threads where it lends them, else on the
// context's.
#pragma once

#include <sluice/core.h>

#include <cstdint>
#include <type_traits>

#include "cpu/pool.hpp"

namespace sluice {

class workers {
 public:
  workers(const sluice_hooks &hooks, int32_t threads) : hooks(hooks), own(threads) {}

  // How many bodies can be expected to run at once.
  int32_t width() const { return own.threads(); }

  // body(i) for every i in [0, n); returns when all are done.
  template <typename F>
  void each(int64_t n, F &&body) const {
    using plain = std::remove_reference_t<F>;
    auto call = [](void *arg, int64_t i) { (*static_cast<plain *>(arg))(i); };
    void *arg = const_cast<void *>(static_cast<const void *>(&body));
    if (n > 1 && hooks.parallel_for)
      hooks.parallel_for(hooks.self, n, call, arg);
    else
      own.run(n, call, arg);
  }

 private:
  sluice_hooks hooks;
  pool own;
};

}  // namespace sluice
