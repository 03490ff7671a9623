// cases.hpp: a conformance case read from a .cases file; README.md documents the format.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "driver/driver.hpp"

namespace sluice::test {

struct conformance_case {
  std::string op, name;
  std::map<std::string, std::string> desc;         // numbers by field, as text
  op_case call;                                    // operands, results with what they should hold
  std::map<std::string, std::vector<int64_t>>
      at;  // positions of the values that a result is compared at; else all
  std::map<std::string, sluice_device> devices;    // of operands that claim another than they are on
  std::optional<size_t> workspace;                 // bytes to lend, where not what the query asks for
  std::string status, text;

  double number(const char *field) const;  // 0 where absent
};

std::vector<conformance_case> read_cases(const std::string &path);

}  // namespace sluice::test
