// replay.cpp: runs the fuzzer's function over files and folders, for builds without libFuzzer. Random inputs that need
// no file follow: as many as SLUICE_FUZZ_RANDOM says, 2000 by default.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int count, char **arguments) {
  namespace fs = std::filesystem;
  std::set<fs::path> files;
  for (int i = 1; i < count; ++i) {
    if (!fs::is_directory(arguments[i]))
      files.insert(arguments[i]);
    else
      for (const auto &entry : fs::directory_iterator(arguments[i])) files.insert(entry.path());
  }
  for (const fs::path &file : files) {
    std::ifstream in(file, std::ios::binary);
    std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(in)), {});
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }

  const char *wanted = std::getenv("SLUICE_FUZZ_RANDOM");
  long random_inputs = wanted ? std::atol(wanted) : 2000;
  std::mt19937_64 r(1);
  for (long i = 0; i < random_inputs; ++i) {
    std::vector<uint8_t> bytes(r() % 400);
    for (uint8_t &b : bytes) b = uint8_t(r() >> 32);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu files and %ld random inputs replayed\n", files.size(), random_inputs);
  return files.empty();
}
