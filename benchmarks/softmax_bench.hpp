// softmax_bench.hpp: what both halves of softmax_bench are asked for.
#pragma once

#include <sluice/sluice.h>

#include <regex>
#include <string>

namespace bench {

struct options {
  bool list = false, quick = false, json = false;
  std::regex only{""}; // found in every name

  bool wants(const std::string &id) const { return std::regex_search(id, only); }
};

// Each answers how many cases it ran.
int softmax_on_cpu(const options &asked);
int softmax_on_gpu(const options &asked);
bool gpu_present();

} // namespace bench
