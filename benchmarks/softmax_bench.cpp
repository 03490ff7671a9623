// softmax_bench.cpp: softmax and its gradient, raced against the kernels of the floor, which move the same bytes. Prints
// a table, or lines of JSON for run.py; `softmax_bench --list` names the cases, `--case REGEX` runs some of them.
#include "softmax_bench.hpp"

#include <cstdio>

using bench::options;

#if !SLUICE_WITH_CUDA
bool bench::gpu_present() { return false; }
int bench::softmax_on_gpu(const options &) {
  std::fprintf(stderr, "softmax_bench: built without its CUDA half\n");
  return 0;
}
#endif

int main(int count, char **arguments) {
  options asked;
  std::string device;
  bool understood = true;
  for (int i = 1; i < count && understood; ++i) {
    std::string argument = arguments[i];
    if (argument == "--list")
      asked.list = true;
    else if (argument == "--quick")
      asked.quick = true;
    else if (argument == "--json")
      asked.json = true;
    else if (argument == "--case" && i + 1 < count)
      asked.only = std::regex(arguments[++i]);
    else if (argument == "--device" && i + 1 < count)
      device = arguments[++i];
    else
      understood = false;
  }
  if (!understood || (device != "" && device != "cpu" && device != "cuda")) {
    std::fprintf(stderr,
                 "usage: softmax_bench [--device cpu|cuda] [--list] [--case REGEX] [--quick] [--json]\n");
    return 2;
  }

  bool on_gpu = device == "cuda" || (device == "" && bench::gpu_present());
  int ran = on_gpu ? bench::softmax_on_gpu(asked) : bench::softmax_on_cpu(asked);
  if (ran == 0) std::fprintf(stderr, "softmax_bench: ran no case; --list names them\n");
  return ran ? 0 : 2;
}
