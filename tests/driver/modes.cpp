// modes.cpp: the ways in which driver.hpp repeats a case.
#include <gtest/gtest.h>

#include <array>
#include <iterator>
#include <memory>
#include <thread>

#include "driver/driver.hpp"
#include "testkit/testkit.h"

namespace sluice::test {

// Each layout for all operands at once, and a few mixtures in which no two operands agree.
void check_layouts(const op_case &c, int32_t device, const results &base) {
  constexpr size_t count = std::size(layouts);
  for (size_t i = 0; i < count; i += size_t(thinning()))
    check_same(c, base, perform(c, device, {.layouts = {layouts[i]}}),
               std::string("layout ") + layouts[i].name);
  for (size_t first : {size_t(0), count / 3, 2 * count / 3}) {
    setting mixed;
    mixed.layouts.clear();
    for (size_t i = 0; i < c.operands.size(); ++i) mixed.layouts.push_back(layouts[(first + 5 * i) % count]);
    check_same(c, base, perform(c, device, mixed), "mixed layouts from " + std::to_string(first));
  }
}

void check_in_place(const op_case &c, int32_t device, const results &base) {
  for (auto [input, output] : c.in_place) {
    if (c.operands[input].type != c.operands[output].type) continue;
    for (const layout &how : {compact, layouts[5], layouts[9]}) {
      setting s;
      s.layouts = {how};
      s.in_place = {input, output};
      check_same(c, base, perform(c, device, s), "in place over " + c.operands[input].name + ", " + how.name);
    }
  }
}

// Short by a byte, absent, or of no size: refused with outputs untouched, unless nothing is wanted.
void check_workspace(const op_case &c, int32_t device) {
  SCOPED_TRACE(c.name + ", workspace");
  std::vector<std::unique_ptr<placed>> memories;
  call made;
  made.context = shared_context(device);
  for (const operand &o : c.operands) {
    memories.push_back(std::make_unique<placed>(device, o, compact));
    made.operands.push_back(memories.back()->view());
  }
  size_t wanted = 0, again = 1;
  ASSERT_EQ(c.query(made, &wanted), SLUICE_OK) << sluice_last_error();
  ASSERT_EQ(c.query(made, &again), SLUICE_OK);
  EXPECT_EQ(wanted, again) << "the query is not a pure function";
  if (wanted == 0) return;

  memory room(device, wanted, 0xff);
  room.upload();
  struct attempt {
    void *workspace;
    size_t bytes;
  };
  for (attempt a : {attempt{room.address(), wanted - 1}, attempt{room.address(), 0}, attempt{nullptr, 0}}) {
    made.workspace = a.workspace;
    made.workspace_bytes = a.bytes;
    EXPECT_EQ(c.run(made), SLUICE_WORKSPACE_TOO_SMALL) << a.bytes << " of " << wanted << " bytes";
    for (auto &m : memories) {
      m->store.download();
      EXPECT_TRUE(m->store.untouched());
    }
  }
}

namespace {

using body = void (*)(void *, int64_t);

// The orders that a host's own thread pool might choose.
void one_by_one(void *, int64_t n, body run, void *arg) {
  for (int64_t i = 0; i < n; ++i) run(arg, i);
}
void backwards(void *, int64_t n, body run, void *arg) {
  for (int64_t i = n; i-- > 0;) run(arg, i);
}
void odd_then_even_on_two_threads(void *, int64_t n, body run, void *arg) {
  std::thread other([&] {
    for (int64_t i = 1; i < n; i += 2) run(arg, i);
  });
  for (int64_t i = 0; i < n; i += 2) run(arg, i);
  other.join();
}

const context &context_with(int32_t threads) {
  static const std::array<context, 4> made = {context(cpu, 1), context(cpu, 2), context(cpu, 3),
                                              context(cpu, 5)};
  return made[size_t(threads == 5 ? 3 : threads - 1)];
}

context context_over(void (*parallel_for)(void *, int64_t, body, void *)) {
  sluice_hooks hooks{};
  hooks.struct_size = sizeof hooks;
  hooks.parallel_for = parallel_for;
  return context(cpu, 0, &hooks);
}

}  // namespace

void check_threads(const op_case &c, int32_t device, const results &base) {
  if (device != cpu) return;
  for (int32_t threads : {1, 2, 3, 5})
    check_same(c, base, perform(c, device, {.context = context_with(threads)}),
               std::to_string(threads) + " threads");

  static const context hooked[] = {context_over(one_by_one), context_over(backwards),
                                   context_over(odd_then_even_on_two_threads)};
  static const char *const names[] = {"hook one by one", "hook backwards", "hook on two threads"};
  for (size_t i = 0; i < std::size(hooked); ++i)
    check_same(c, base, perform(c, device, {.context = hooked[i]}), names[i]);
}

// Part of the batch alone gives the bits that it has inside the whole.
void check_batch(const op_case &c, int32_t device, const results &base) {
  if (c.batch < 2 || base.empty()) return;
  for (auto [first, count] :
       {std::pair<int64_t, int64_t>{0, 1}, {c.batch - 1, 1}, {c.batch / 2, c.batch - c.batch / 2}}) {
    setting s;
    s.rows = {first, count};
    results part(base.size());
    for (size_t k = 0; k < base.size(); ++k) {
      size_t each = base[k].size() / size_t(c.operands[k].batched ? c.batch : 1);
      auto from = base[k].begin() + ptrdiff_t(c.operands[k].batched ? size_t(first) * each : 0);
      part[k].assign(from, from + ptrdiff_t(c.operands[k].batched ? size_t(count) * each : each));
    }
    check_same(c, part, perform(c, device, s),
               "rows " + std::to_string(first) + " to " + std::to_string(first + count));
  }
}

void check_repeat(const op_case &c, int32_t device, const results &base) {
  for (int i = 0; i < 2; ++i) check_same(c, base, perform(c, device), "again");
}

// Captured in global mode, into a graph that is launched over poisoned outputs time after time.
void check_capture(const op_case &c, int32_t device, const results &base, int replays) {
  if (device != cuda || base.empty()) return;
  SCOPED_TRACE(c.name + ", captured");
  std::vector<std::unique_ptr<placed>> memories;
  call made;
  made.context = shared_context(device);
  for (const operand &o : c.operands) {
    memories.push_back(std::make_unique<placed>(device, o, compact));
    made.operands.push_back(memories.back()->view());
  }
  size_t bytes = 0;
  ASSERT_EQ(c.query(made, &bytes), SLUICE_OK);
  memory workspace(device, bytes, 0xff);
  workspace.upload();
  made.workspace = bytes ? workspace.address() : nullptr;
  made.workspace_bytes = bytes;

  void *stream = sluice_testkit_stream_create();
  made.stream = static_cast<sluice_stream>(stream);
  ASSERT_EQ(sluice_testkit_capture_begin(stream), 0);
  EXPECT_EQ(c.run(made), SLUICE_OK) << sluice_last_error();
  void *graph = sluice_testkit_capture_end(stream);
  ASSERT_NE(graph, nullptr);
  for (int replay = 0; replay < replays; ++replay) {
    for (auto &m : memories) m->store.upload();
    ASSERT_EQ(sluice_testkit_sync(0), 0);  // an upload may return before its last bytes are there
    ASSERT_EQ(sluice_testkit_graph_launch(graph, stream), 0);
    ASSERT_EQ(sluice_testkit_sync(0), 0);
    results got(c.operands.size());
    for (size_t k = 0; k < c.operands.size(); ++k) {
      memories[k]->store.download();
      if (c.operands[k].output) got[k] = memories[k]->found();
    }
    check_same(c, base, got, "replay " + std::to_string(replay));
  }
  sluice_testkit_graph_destroy(graph);
  sluice_testkit_stream_destroy(stream);
}

void check_value_mode(const op_case &c, int32_t device) { check_values(c, perform(c, device)); }

void check_all_modes(const op_case &c, int32_t device) {
  results base = perform(c, device);
  check_values(c, base);
  check_layouts(c, device, base);
  check_in_place(c, device, base);
  check_workspace(c, device);
  check_threads(c, device, base);
  check_batch(c, device, base);
  check_repeat(c, device, base);
  check_capture(c, device, base);
}

}  // namespace sluice::test
