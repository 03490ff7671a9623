// bench.cpp: the race, its statistics, and the lines that run.py reads.
#include "bench.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace bench {

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  double position = share * double(values.size() - 1);
  size_t below = size_t(position), above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (position - double(below));
}

std::string quoted(const std::string &value) {
  std::string out = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

std::vector<timing> race(const std::vector<contestant> &contestants, int64_t buffer_sets,
                         const budget &allowed) {
  size_t count = contestants.size();
  std::vector<int64_t> batch(count);            // calls in one sample
  std::vector<std::vector<double>> taken(count);  // seconds of one call, sample by sample
  int64_t turn = 0;

  // Warm up, and find how many calls make a sample of at least 200 us: the clock's own cost is 0.02 us.
  int samples = allowed.most;
  for (size_t i = 0; i < count; ++i) {
    double once = 1;
    for (int warm = 0; warm < 3; ++warm) {
      double start = seconds_now();
      contestants[i].call(turn++ % buffer_sets);
      once = std::min(once, seconds_now() - start);
    }
    batch[i] = std::clamp<int64_t>(int64_t(std::ceil(200e-6 / std::max(once, 1e-9))), 1, 100000);
    int affordable = int(allowed.ms * 1e-3 / (once * double(batch[i])));
    samples = std::min(samples, std::max(affordable, allowed.least));
  }

  for (int sample = 0; sample < samples; ++sample)
    for (size_t i = 0; i < count; ++i) {
      // Its threads may have gone to sleep while the others ran: waking them is not what a long call is asked for.
      if (batch[i] > 1) contestants[i].call(turn++ % buffer_sets);
      double start = seconds_now();
      for (int64_t call = 0; call < batch[i]; ++call) contestants[i].call(turn++ % buffer_sets);
      taken[i].push_back((seconds_now() - start) / double(batch[i]));
    }

  std::vector<timing> timings(count);
  for (size_t i = 0; i < count; ++i)
    timings[i] = {quantile(taken[i], 0.5) * 1e6, (quantile(taken[i], 0.75) - quantile(taken[i], 0.25)) * 1e6};
  return timings;
}

int64_t buffer_sets(int64_t bytes_of_one) {
  int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (cache <= 0) cache = int64_t(64) << 20;  // a machine that does not tell
  return std::clamp<int64_t>(2 * cache / std::max<int64_t>(bytes_of_one, 1) + 1, 1, 1024);
}

record &record::text(const char *key, const std::string &value) {
  line += (line.empty() ? "" : ", ") + quoted(key) + ": " + quoted(value);
  return *this;
}

record &record::number(const char *key, double value) {
  char digits[40];
  std::snprintf(digits, sizeof digits, value == std::floor(value) ? "%.0f" : "%.6g", value);
  line += ", " + quoted(key) + ": " + digits;
  return *this;
}

record &record::numbers(const char *key, const std::vector<int64_t> &values) {
  line += ", " + quoted(key) + ": [";
  for (size_t i = 0; i < values.size(); ++i) line += (i ? ", " : "") + std::to_string(values[i]);
  line += "]";
  return *this;
}

void record::print() const {
  std::printf("{%s}\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace bench
