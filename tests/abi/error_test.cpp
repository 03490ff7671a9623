// error_test.cpp: runs the tables of error_table.hpp, and requires that every error text in the sources is among what
// they saw.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "abi/error_table.hpp"
#include "driver/driver_calls.hpp"
#include "driver/folders.hpp"

namespace sluice::test {
namespace {

const std::vector<error_row> &all_rows() {
  static const std::vector<error_row> rows = [] {
    std::vector<error_row> all;
    for (auto table : {core_errors(), softmax_errors(cpu), softmax_backward_errors(cpu)})
      for (error_row &row : table) all.push_back(std::move(row));
    return all;
  }();
  return rows;
}

// One test per function: a test each would be thousands of names.
class errors : public testing::TestWithParam<const char *> {};

TEST_P(errors, have_status_and_text) {
  for (const error_row &row : all_rows()) {
    // "softmax_backward" is not a kind of "softmax": the longest name of the list that starts the row's owns it.
    const char *const owners[] = {"context_create", "context_warm", "op_supports", "softmax_backward",
                                  "softmax"};
    const char *owner = "workspace";
    for (const char *name : owners)
      if (row.name.rfind(name, 0) == 0) {
        owner = name;
        break;
      }
    if (std::string(owner) != GetParam()) continue;
    SCOPED_TRACE(row.name);
    std::string want;
    sluice_status status = row.call(want);
    EXPECT_EQ(sluice_status_name(status), std::string(sluice_status_name(row.status)));
    EXPECT_EQ(std::string(sluice_last_error()), want);
    EXPECT_EQ(want.find('\n'), want.npos);
  }
}

INSTANTIATE_TEST_SUITE_P(all, errors,
                         testing::Values("context_create", "context_warm", "op_supports", "softmax_backward",
                                         "softmax", "workspace"),
                         [](const auto &info) { return std::string(info.param); });

class cuda_errors : public testing::Test {
 protected:
  void SetUp() override { SLUICE_SKIP_WITHOUT(cuda); }

  static void check_all() {
    for (const auto &table : {softmax_errors(cuda), softmax_backward_errors(cuda)})
      for (const error_row &row : table) {
        SCOPED_TRACE(row.name);
        std::string want;
        sluice_status status = row.call(want);
        EXPECT_EQ(sluice_status_name(status), std::string(sluice_status_name(row.status)));
        EXPECT_EQ(std::string(sluice_last_error()), want);
      }
  }
};

TEST_F(cuda_errors, have_status_and_text) { check_all(); }

TEST_F(cuda_errors, come_before_any_launch) {
  driver_calls heard;
  if (!heard.listening()) GTEST_SKIP() << heard.why_not();
  check_all();
  for (const std::string &name : heard.names()) EXPECT_EQ(name.find("Launch"), name.npos) << name;
}

struct source_text {
  std::string file, status, format;
};

// Every `fail(SLUICE_..., "...")` of the sources, adjacent literals joined.
std::vector<source_text> texts_in_sources() {
  namespace fs = std::filesystem;
  std::vector<source_text> found;
  const std::regex call(R"re(\bfail\(\s*(SLUICE_[A-Z_]+),\s*((?:"(?:[^"\\]|\\.)*"\s*)+))re"),
      literal(R"re("((?:[^"\\]|\\.)*)")re");
  fs::path root = test_folder().parent_path() / "src";
  for (const auto &entry : fs::recursive_directory_iterator(root)) {
    std::string kind = entry.path().extension();
    if (kind != ".cpp" && kind != ".hpp" && kind != ".cu" && kind != ".cuh") continue;
    std::stringstream all;
    all << std::ifstream(entry.path()).rdbuf();
    std::string source = all.str();
    for (std::sregex_iterator at(source.begin(), source.end(), call), end; at != end; ++at) {
      std::string joined, parts = (*at)[2];
      for (std::sregex_iterator part(parts.begin(), parts.end(), literal); part != end; ++part)
        joined += (*part)[1];
      found.push_back({fs::relative(entry.path(), root), (*at)[1], joined});
    }
  }
  return found;
}

// A printf format as a pattern: conversions match what they can print, all else itself.
std::regex pattern_of(const std::string &text) {
  static const std::regex special(R"([.^$|()\[\]{}*+?\\])"), conversion("%(\\.[0-9]+)?(ll|z)?[dsugpx]");
  std::string escaped, plain;
  std::sregex_iterator at(text.begin(), text.end(), conversion), end;
  size_t from = 0;
  auto copy = [&](size_t to) {
    plain = text.substr(from, to - from);
    size_t quote;
    while ((quote = plain.find("\\\"")) != plain.npos) plain.erase(quote, 1);
    escaped += std::regex_replace(plain, special, "\\$&");
  };
  for (; at != end; ++at) {
    copy(size_t(at->position()));
    escaped += ".*";
    from = size_t(at->position() + at->length());
  }
  copy(text.size());
  return std::regex(".*: " + escaped);
}

// What no call on a CPU context can reach, and why.
bool needs_more_than_a_call(const source_text &t) {
  auto in = [&](const char *part) { return t.file.find(part) != t.file.npos; };
  if (t.status == "SLUICE_INTERNAL") return true; // a defect of sluice
  if (in("cuda/") || in("_cuda")) return true; // the driver's answers
  if (t.format.find("before fork") != t.format.npos) return true; // a CUDA context in a child
  if (t.format == "the host has no memory left") return true; // has a test of its own
  return false;
}

TEST(errors_in_the_sources, are_all_reached) {
  std::set<std::string> seen;
  for (const error_row &row : all_rows()) {
    std::string ignored;
    row.call(ignored);
    seen.insert(sluice_last_error());
  }
  auto texts = texts_in_sources();
  EXPECT_GT(texts.size(), size_t(40)) << "the sources were not read";
  for (const source_text &t : texts) {
    if (needs_more_than_a_call(t)) continue;
    std::regex pattern = pattern_of(t.format);
    bool reached =
        std::any_of(seen.begin(), seen.end(), [&](const auto &s) { return std::regex_match(s, pattern); });
    EXPECT_TRUE(reached) << "no row of the error tables reaches this text of " << t.file << ": " << t.format;
  }
}

} // namespace
} // namespace sluice::test
