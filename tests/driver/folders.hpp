// folders.hpp: where a test finds its files: from where its program lies, since a built tree may be carried elsewhere.
#pragma once

#include <filesystem>

namespace sluice::test {

inline std::filesystem::path program_folder() {
  return std::filesystem::canonical("/proc/self/exe").parent_path();
}

// tests/ of the checkout. The build says how it lies to the program.
inline std::filesystem::path test_folder() {
  return (program_folder() / SLUICE_TEST_FOLDER).lexically_normal();
}

} // namespace sluice::test
