// driver_calls.cpp: see driver_calls.hpp.
#include "driver/driver_calls.hpp"

#include <sstream>

#include "testkit/testkit.h"

namespace sluice::test {

driver_calls::driver_calls() {
  if (const char *why = sluice_testkit_listen()) reason = why;
}

driver_calls::~driver_calls() {
  if (listening()) sluice_testkit_stop_listening();
}

std::vector<std::string> driver_calls::names() const {
  std::vector<std::string> list;
  std::istringstream lines(sluice_testkit_heard());
  for (std::string line; std::getline(lines, line);) list.push_back(line);
  return list;
}

bool allocates_or_waits(const std::string &name) {
  auto has = [&](const char *part) { return name.find(part) != name.npos; };
  for (const char *part : {"Alloc", "Free", "Synchronize", "Create", "Destroy", "Register", "MemMap", "Load"})
    if (has(part)) return true;
  return (has("Memcpy") || has("Memset")) && !has("Async");
}

}  // namespace sluice::test
