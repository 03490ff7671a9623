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

double median(std::vector<double> samples) { return quantile(std::move(samples), 0.5); }

timing timing_of(const std::vector<double> &seconds) {
  return {quantile(seconds, 0.5) * 1e6, (quantile(seconds, 0.75) - quantile(seconds, 0.25)) * 1e6};
}

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
  for (size_t i = 0; i < count; ++i) timings[i] = timing_of(taken[i]);
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

void outcome::print(bool json) const {
  auto by_us = [](const timing &a, const timing &b) { return a.us < b.us; };
  size_t fastest =
      size_t(std::min_element(floor_times.begin(), floor_times.end(), by_us) - floor_times.begin());
  double floor_us = floor_times[fastest].us;
  if (!json) {
    std::printf("%-66s %-22s %10.2f %8.2f %10.2f %6.3f %6.2f  %s\n", id.c_str(), variant.c_str(), ours.us,
                ours.us_spread, floor_us, floor_us / ours.us, double(bytes) / ours.us * 1e-6,
                floors[fastest].c_str());
    std::fflush(stdout);
    return;
  }
  for (size_t i = 0; i < floors.size(); ++i)
    record("floor").text("id", id).text("name", floors[i]).number("us", floor_times[i].us).print();
  record("time")
      .text("id", id)
      .text("op", op)
      .text("pass", pass)
      .text("case", name)
      .text("dtype", dtype)
      .numbers("shape", shape)
      .number("axis", double(axis))
      .text("variant", variant)
      .number("buffer_sets", double(buffer_sets))
      .number("bytes", double(bytes))
      .number("declared_bytes", double(declared_bytes))
      .number("us", ours.us)
      .number("us_spread", ours.us_spread)
      .number("floor_us", floor_us)
      .text("floor", floors[fastest])
      .print();
}

void print_head() {
  std::printf("%-66s %-22s %10s %8s %10s %6s %6s  %s\n", "case", "variant", "us", "spread", "floor us",
              "ratio", "TB/s", "floor");
}

}  // namespace bench
