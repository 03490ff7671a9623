// driver_calls.hpp: what this process asks of the CUDA driver while an object of this class lives.
#pragma once

#include <string>
#include <vector>

namespace sluice::test {

class driver_calls {
 public:
  driver_calls();
  ~driver_calls();
  driver_calls(const driver_calls &) = delete;
  driver_calls &operator=(const driver_calls &) = delete;

  bool listening() const { return reason.empty(); }
  const std::string &why_not() const { return reason; }
  std::vector<std::string> names() const;  // of the driver's functions that were called, each once

 private:
  std::string reason;
};

// A function of the driver that takes, gives back or needs memory, or that waits: not for a call that only enqueues.
bool allocates_or_waits(const std::string &driver_function);

}  // namespace sluice::test
