// conformance_test.cpp: the conformance cases in C++, on every device, and bit for bit against the program in C.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>

#include "conformance/cases.hpp"
#include "driver/folders.hpp"
#include "ops/softmax_case.hpp"
#include "testkit/testkit.h"

namespace sluice::test {
namespace {

const std::vector<conformance_case> &all_cases() {
  static const std::vector<conformance_case> cases = [] {
    std::vector<conformance_case> all;
    std::set<std::filesystem::path> files;
    for (const auto &entry : std::filesystem::directory_iterator(test_folder() / "conformance"))
      if (entry.path().extension() == ".cases") files.insert(entry.path());
    for (const auto &path : files)
      for (conformance_case &c : read_cases(path)) all.push_back(std::move(c));
    return all;
  }();
  return cases;
}

void bind(conformance_case &c) {
  sluice_softmax_desc d{};
  d.scale = c.number("scale"), d.softcap = c.number("softcap"), d.log = int32_t(c.number("log"));
  d.accuracy = int32_t(c.number("accuracy")), d.empty_row = int32_t(c.number("empty_row"));
  d.causal = int32_t(c.number("causal")), d.diagonal = int32_t(c.number("diagonal"));
  d.diagonal_offset = int64_t(c.number("diagonal_offset")), d.window = int64_t(c.number("window"));
  if (c.op == "softmax") return bind_softmax(c.call, d);
  if (c.op == "softmax_backward") return bind_softmax_backward(c.call, d);
  FAIL() << "no operation " << c.op;
}

// Values at the listed positions, or of whole results.
void compare(const conformance_case &c, const results &got) {
  for (size_t k = 0; k < got.size(); ++k) {
    const operand &o = c.call.operands[k];
    if (!o.output) continue;
    auto listed = c.at.find(o.name);
    ASSERT_EQ(o.values.size(), o.allowed.size()) << c.name << ": no tolerance for " << o.name;
    for (size_t i = 0; i < o.values.size(); ++i) {
      size_t at = listed == c.at.end() ? i : size_t(listed->second[i]);
      real value = load(o.type, &got[k].at(at * size_t(size_of(o.type)))), want = o.values[i];
      bool fine =
          std::isnan(want) ? std::isnan(value) : value == want || std::fabs(value - want) <= o.allowed[i];
      EXPECT_TRUE(fine) << o.name << "[" << at << "] is " << double(value) << ", want " << double(want);
    }
  }
}

// A call that has to fail: status, text, and no output touched.
void expect_failure(const conformance_case &c, int32_t device) {
  std::vector<std::unique_ptr<placed>> memories;
  std::vector<sluice_tensor> views;
  for (const operand &o : c.call.operands) {
    memories.push_back(std::make_unique<placed>(device, o, compact));
    views.push_back(*memories.back()->view());
    if (auto claimed = c.devices.find(o.name); claimed != c.devices.end())
      views.back().device = claimed->second;
  }
  call made;
  made.context = shared_context(device);
  for (const sluice_tensor &view : views) made.operands.push_back(&view);
  memory room(device, 1 << 16, 0);
  room.upload();
  made.workspace = c.workspace == 0 ? nullptr : room.address();
  made.workspace_bytes = c.workspace.value_or(room.bytes());
  EXPECT_EQ(sluice_status_name(c.call.run(made)), c.status);
  EXPECT_EQ(c.text.empty() ? "" : sluice_last_error(), c.text);
  for (auto &m : memories) {
    m->store.download();
    EXPECT_TRUE(m->store.untouched());
  }
}

class conformance : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override { SLUICE_SKIP_WITHOUT(GetParam()); }
};

TEST_P(conformance, every_case) {
  EXPECT_GT(all_cases().size(), size_t(60));
  for (conformance_case c : all_cases()) {
    SCOPED_TRACE(c.op + " " + c.name);
    bind(c);
    if (c.status == "SLUICE_OK")
      compare(c, perform(c.call, GetParam()));
    else if (c.devices.empty() || GetParam() == cpu) // the texts that name a device are those of the CPU
      expect_failure(c, GetParam());
  }
}

// FNV-1a of a result's bytes, as the program in C prints it.
std::string digest(const bit_list &bits) {
  uint64_t h = 0xcbf29ce484222325u;
  for (uint8_t byte : bits) h = (h ^ byte) * 0x100000001b3u;
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  return text;
}

TEST_P(conformance, gives_the_same_bits_in_c) {
  std::string command = "'" + (program_folder() / "conformance_c").string() + "' --digests";
  if (GetParam() == cuda) command += " --cuda";
  std::set<std::string> files, ours, theirs;
  for (const auto &entry : std::filesystem::directory_iterator(test_folder() / "conformance"))
    if (entry.path().extension() == ".cases") files.insert(entry.path());
  for (const std::string &file : files) command += " '" + file + "'";
  FILE *pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char line[256];
  while (std::fgets(line, sizeof line, pipe)) theirs.insert(std::string(line, std::strcspn(line, "\n")));
  EXPECT_EQ(pclose(pipe), 0);

  for (conformance_case c : all_cases()) {
    if (c.status != "SLUICE_OK") continue;
    bind(c);
    results got = perform(c.call, GetParam());
    for (size_t k = 0; k < got.size(); ++k)
      if (c.call.operands[k].output)
        ours.insert(c.op + " " + c.name + " " + c.call.operands[k].name + " " + digest(got[k]));
  }
  EXPECT_EQ(ours, theirs);
}

INSTANTIATE_TEST_SUITE_P(all, conformance, testing::Values(cpu, cuda),
                         [](const auto &info) { return device_name(info.param); });

} // namespace
} // namespace sluice::test
