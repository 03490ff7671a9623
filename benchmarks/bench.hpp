// bench.hpp: how anything here is timed and reported. It knows no operation and no device.
//
// Everything that is compared runs in one race: the contestants take turns, one sample each, so that a drift of the
// machine (another load, a lower clock) meets all of them. Each call works on the next of several sets of buffers, so
// that no call finds the previous one's data in a cache.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

struct contestant {
  std::string name;
  std::function<void(int64_t)> call; // works on the set of buffers with this index
};

struct timing {
  double us = 0; // median of one call
  double us_spread = 0; // distance of the quartiles
};

struct budget {
  double ms = 500; // about this long for each contestant
  int least = 7, most = 41; // samples
};

double median(std::vector<double> samples);
timing timing_of(const std::vector<double> &seconds); // of one call each

std::vector<timing> race(const std::vector<contestant> &contestants, int64_t buffer_sets,
                         const budget &allowed);

// Bytes that a case moves, and that the kernels of its floor move.
struct traffic {
  int64_t read, written;
};

// How many sets of buffers of this size a call rotates through: twice the last-level cache in all. At most 1024, so
// that short rows stay in a cache as they do behind the layer that made them.
int64_t buffer_sets(int64_t bytes_of_one);

// One line of JSON, {"kind": "time", ...}, in the order of the calls.
class record {
 public:
  explicit record(const char *kind) { text("kind", kind); }
  record &text(const char *key, const std::string &value);
  record &number(const char *key, double value);
  record &numbers(const char *key, const std::vector<int64_t> &values);
  void print() const;

 private:
  std::string line;
};

// What was found for one case: lines of JSON for run.py, or a line of a table to read.
struct outcome {
  std::string id, op, pass, name, dtype;
  std::vector<int64_t> shape;
  int64_t axis;
  std::string variant;
  int64_t buffer_sets, bytes, declared_bytes; // declared: by the plan
  timing ours;
  std::vector<std::string> floors; // names
  std::vector<timing> floor_times;

  void print(bool json) const;
};

void print_head(); // of the table

} // namespace bench
