// error_table.hpp: one row per way to call an exported function wrongly. A row breaks a call that would be right and
// says which status and which line must come of it; the tables run as tests, and once more to see that no error text
// in the sources stays unreached.
#pragma once

#include <sluice/sluice.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/driver.hpp"

namespace sluice::test {

// A call's tensors by name, each valid, with shape and strides of its own to be broken.
class scene {
 public:
  struct slot {
    sluice_tensor tensor;
    int64_t shape[70], strides[70];
    dtype type;
    bool output, given = true;
    std::unique_ptr<placed> at;
  };

  explicit scene(int32_t device = cpu) : device(device) {}

  void add(const std::string &name, dtype type, const shape_list &shape, bool output);
  slot &operator[](const std::string &name);
  sluice_tensor *view(const std::string &name); // nullptr where the slot is absent or not given
  std::vector<std::string> names() const { return order; }
  bool untouched(); // no byte of any tensor changed

 private:
  int32_t device;
  std::map<std::string, slot> slots;
  std::vector<std::string> order;
};

struct error_row {
  std::string name; // of the test
  sluice_status status;
  std::function<sluice_status(std::string &want)> call; // sets the line that it wants, "op: " included
};

// What an operation lends to the rows that all operations share: views that cannot be right.
struct operand_facts {
  const char *name; // in the scene
  const char *text; // in error texts
  enum class holds { floats, flags, indices } what;
  enum class fits { reference, like, against } how; // its shape: everyone's measure, the same, or broadcast
  const char *measure; // what the shape is compared with, in texts
  bool output;
};

// Breaks the scene and gives the text that must follow, without "op: ".
using breakage = std::function<std::string(scene &)>;
struct broken_view {
  std::string name;
  sluice_status status;
  breakage apply;
};
// `device`: the context's, of which the texts of a wrong one speak.
std::vector<broken_view> broken_views(const operand_facts &o, const shape_list &measure, int32_t device);

std::string format(const char *text, ...) __attribute__((format(printf, 1, 2)));

// The tables, one per file of the exported functions; those of operations for contexts of either device.
std::vector<error_row> core_errors();
std::vector<error_row> softmax_errors(int32_t device);
std::vector<error_row> softmax_backward_errors(int32_t device);

} // namespace sluice::test
