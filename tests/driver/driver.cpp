// driver.cpp: see driver.hpp. One call and what must hold after it; the modes are in modes.cpp.
#include "driver/driver.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "testkit/testkit.h"

namespace sluice::test {

const context &shared_context(int32_t device) {
  static const context on_cpu(cpu), on_cuda(cuda);
  return device == cpu ? on_cpu : on_cuda;
}

namespace {

// testkit/any_isa.cpp gives the library the instruction set that was asked for, if the machine has it.
std::optional<std::string> absent_isa() {
  const char *wanted = std::getenv("SLUICE_TEST_ISA");
  const std::string chosen = sluice_build_info();
  if (!wanted || chosen.ends_with(std::string("cpu=") + wanted)) return std::nullopt;
  EXPECT_STRNE(wanted, "baseline") << "which every machine has; the library says " << chosen;
  return std::string("no instruction set ") + wanted + " here";
}

}  // namespace

std::optional<std::string> absent(int32_t device) {
  if (auto reason = absent_isa()) return reason;
  const context &c = shared_context(device);
  if (c.status == SLUICE_OK) return std::nullopt;
  if (device == cuda && c.status == SLUICE_NO_DEVICE) return "no CUDA device: " + c.text;
  ADD_FAILURE() << "context on " << device_name(device) << ": " << sluice_status_name(c.status) << ", "
                << c.text;
  return c.text;
}

int64_t thinning() {
  const char *text = std::getenv("SLUICE_TEST_THIN");
  int64_t k = text ? std::atoll(text) : 1;
  return k > 1 ? k : 1;
}

results perform(const op_case &c, int32_t device, const setting &s) {
  SCOPED_TRACE(c.name);
  std::vector<std::unique_ptr<placed>> memories;
  call made;
  made.context = s.context ? s.context : static_cast<const sluice_context *>(shared_context(device));
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const operand &o = c.operands[i];
    bool shares = s.in_place && s.in_place->second == i;
    if (!shares) {
      const layout &how = s.layouts[i % s.layouts.size()];
      memories.push_back(std::make_unique<placed>(device, o, how));
      if (s.rows && o.batched) memories.back()->narrow(s.rows->first, s.rows->second);
    } else {
      memories.push_back(nullptr);
    }
    made.operands.push_back(shares ? made.operands[s.in_place->first] : memories.back()->view());
  }

  size_t bytes = 0;
  sluice_status status = c.query(made, &bytes);
  EXPECT_EQ(status, SLUICE_OK) << "_workspace: " << sluice_last_error();
  if (status != SLUICE_OK) return {};
  memory workspace(device, bytes, 0xff);  // whatever an op expects to find zeroed is NaN
  workspace.upload();
  made.workspace = bytes ? workspace.address() : nullptr;
  made.workspace_bytes = bytes;
  status = c.run(made);
  EXPECT_EQ(status, SLUICE_OK) << sluice_last_error();
  EXPECT_EQ(device == cpu ? 0 : sluice_testkit_sync(0), 0);
  workspace.download();
  EXPECT_TRUE(workspace.guards_untouched()) << "wrote outside its workspace of " << bytes << " bytes";
  if (status != SLUICE_OK) return {};

  results got(c.operands.size());
  for (size_t i = 0; i < c.operands.size(); ++i)
    if (memories[i]) memories[i]->store.download();
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const operand &o = c.operands[i];
    placed &at = *memories[memories[i] ? i : s.in_place->first];
    bool written = o.output || (s.in_place && s.in_place->first == i);
    EXPECT_TRUE(written || at.store.untouched()) << "wrote into the input " << o.name;
    if (!o.output) continue;
    EXPECT_TRUE(at.only_elements_changed()) << "wrote beside the elements of " << o.name;
    got[i] = at.found();
  }
  return got;
}

namespace {

// How far off an element is in units of what is allowed; infinite where NaN, infinity or sign of it differ.
real excess(real got, real want, real allowed) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : infinity;
  if (got == want) return 0;
  if (std::isinf(want) || std::isinf(got)) return infinity;
  real error = std::fabs(got - want);
  return allowed > 0 ? error / allowed : infinity;
}

}  // namespace

void check_values(const op_case &c, const results &got) {
  if (got.empty()) return;  // perform() has said why
  for (size_t k = 0; k < c.operands.size(); ++k) {
    const operand &o = c.operands[k];
    if (!o.output) continue;
    ASSERT_EQ(got[k].size(), o.values.size() * size_t(size_of(o.type))) << c.name << ": " << o.name;
    int64_t wrong = 0;
    size_t worst = 0;
    real most = 0;
    for (size_t i = 0; i < o.values.size(); ++i) {
      real e = excess(load(o.type, got[k].data() + i * size_t(size_of(o.type))), o.values[i], o.allowed[i]);
      wrong += e > 1;
      if (e > most) most = e, worst = i;
    }
    if (wrong == 0) continue;
    real value = load(o.type, got[k].data() + worst * size_t(size_of(o.type)));
    ADD_FAILURE() << c.name << ": " << o.name << " " << facts(o.type).name << text(o.shape) << " is wrong in "
                  << wrong << " of " << o.values.size() << " elements; worst, element " << worst << ", is "
                  << double(value) << ", want " << double(o.values[worst]) << " within "
                  << double(o.allowed[worst]) << ", off by " << double(std::fabs(value - o.values[worst]));
  }
}

void check_same(const op_case &c, const results &first, const results &second, const std::string &what) {
  if (first.empty() || second.empty()) return;
  for (size_t k = 0; k < c.operands.size(); ++k) {
    if (first[k] == second[k]) continue;
    const operand &o = c.operands[k];
    size_t size = size_t(size_of(o.type)), at = 0, differing = 0;
    ASSERT_EQ(first[k].size(), second[k].size()) << c.name << ", " << what << ": " << o.name;
    for (size_t i = first[k].size() / size; i-- > 0;)
      if (std::memcmp(&first[k][i * size], &second[k][i * size], size) != 0) at = i, ++differing;
    ADD_FAILURE() << c.name << ", " << what << ": other bits in " << differing << " elements of " << o.name
                  << " " << text(o.shape) << "; first, element " << at << ", "
                  << double(load(o.type, &first[k][at * size])) << " and "
                  << double(load(o.type, &second[k][at * size]));
  }
}

}  // namespace sluice::test
