// context_test.cpp: what contexts, hooks, descriptors of every size and introspection do when the call is right. Wrong
// calls are in the error tables.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "driver/driver.hpp"
#include "sluice/sluice.h"

namespace sluice::test {
namespace {

TEST(library, says_what_it_is) {
  EXPECT_EQ(sluice_version(), SLUICE_VERSION);
  std::string info = sluice_build_info();
  EXPECT_EQ(info.rfind("0.1.0 cuda=", 0), 0u) << info;
  EXPECT_NE(info.find(" cpu="), info.npos) << info;
  EXPECT_EQ(sluice_build_info(), sluice_build_info()) << "not static";
}

TEST(library, names_every_status) {
  const std::pair<sluice_status, const char *> names[] = {
#define SLUICE_NAMED(code) {code, #code}
      SLUICE_NAMED(SLUICE_OK),
      SLUICE_NAMED(SLUICE_INVALID_ARGUMENT),
      SLUICE_NAMED(SLUICE_INVALID_SHAPE),
      SLUICE_NAMED(SLUICE_INVALID_DEVICE),
      SLUICE_NAMED(SLUICE_WORKSPACE_TOO_SMALL),
      SLUICE_NAMED(SLUICE_UNSUPPORTED),
      SLUICE_NAMED(SLUICE_UNSUPPORTED_DTYPE),
      SLUICE_NAMED(SLUICE_OUT_OF_MEMORY),
      SLUICE_NAMED(SLUICE_CUDA_FAILED),
      SLUICE_NAMED(SLUICE_CALLBACK_FAILED),
      SLUICE_NAMED(SLUICE_NO_DEVICE),
      SLUICE_NAMED(SLUICE_INTERNAL)};
#undef SLUICE_NAMED
  for (auto [status, name] : names) EXPECT_STREQ(sluice_status_name(status), name);
  for (int code : {1, -1, 999, 1004, 123456, 0x7fffffff}) {
    const char *name = sluice_status_name(static_cast<sluice_status>(code));
    ASSERT_NE(name, nullptr);
    EXPECT_STRNE(name, "");
  }
}

TEST(library, lists_its_operations) {
  std::set<std::string> names;
  int32_t count = sluice_op_count();
  for (int32_t i = 0; i < count; ++i) {
    ASSERT_NE(sluice_op_name(i), nullptr);
    names.insert(sluice_op_name(i));
  }
  EXPECT_EQ(int32_t(names.size()), count);
  EXPECT_TRUE(names.count("softmax") && names.count("softmax_backward"));
  for (int32_t i : {-1, count, count + 1, INT32_MIN, INT32_MAX}) EXPECT_EQ(sluice_op_name(i), nullptr) << i;
}

TEST(library, says_which_dtypes_an_operation_takes) {
  for (const char *op : {"softmax", "softmax_backward"})
    for (dtype a : {dtype::f32, dtype::f64, dtype::f16, dtype::bf16})
      for (dtype b : {dtype::f32, dtype::f64, dtype::f16, dtype::bf16}) {
        sluice_dtype types[] = {abi(a), abi(b)};
        EXPECT_EQ(sluice_op_supports(shared_context(cpu), op, types, 2), SLUICE_OK) << sluice_last_error();
      }
}

TEST(context, defaults) {
  sluice_context *made = nullptr;
  ASSERT_EQ(sluice_context_create(nullptr, &made), SLUICE_OK) << sluice_last_error();
  EXPECT_NE(made, nullptr);
  EXPECT_EQ(sluice_context_warm(made, nullptr), SLUICE_OK);
  EXPECT_EQ(sluice_context_warm(made, "softmax"), SLUICE_OK);
  EXPECT_EQ(sluice_context_warm(made, "softmax_backward"), SLUICE_OK);
  sluice_context_destroy(made);
  sluice_context_destroy(nullptr);

  sluice_context_desc desc{};
  desc.struct_size = sizeof desc; // device_type 0 means the CPU
  ASSERT_EQ(sluice_context_create(&desc, &made), SLUICE_OK) << sluice_last_error();
  sluice_context_destroy(made);
}

TEST(context, every_number_of_threads_and_debug_sync) {
  for (int32_t threads : {0, 1, 2, 3, 8, 1024})
    for (int32_t debug : {0, 1}) {
      sluice_context_desc desc{};
      desc.struct_size = sizeof desc;
      desc.device_type = 1, desc.threads = threads, desc.debug_sync = debug;
      sluice_context *made = nullptr;
      ASSERT_EQ(sluice_context_create(&desc, &made), SLUICE_OK) << sluice_last_error();
      sluice_context_destroy(made);
    }
}

TEST(context, ends_in_any_order) {
  std::vector<sluice_context *> all(20);
  for (auto &c : all) ASSERT_EQ(sluice_context_create(nullptr, &c), SLUICE_OK);
  for (size_t i = 0; i < all.size(); ++i) sluice_context_destroy(all[(i * 7) % all.size()]);
}

TEST(context, cuda_or_the_reason_why_not) {
  const context &c = shared_context(cuda);
  if (c.status == SLUICE_OK) {
    EXPECT_EQ(sluice_context_warm(c, nullptr), SLUICE_OK) << sluice_last_error();
    return;
  }
  EXPECT_EQ(c.status, SLUICE_NO_DEVICE) << c.text;
  EXPECT_EQ(c.text.rfind("context_create: ", 0), 0u) << c.text;
  EXPECT_GT(c.text.size(), std::string("context_create: ").size() + 10) << "no reason: " << c.text;
  EXPECT_EQ(c.text.find('\n'), c.text.npos);
}

TEST(context, a_missing_ordinal_is_no_device) {
  sluice_context_desc desc{};
  desc.struct_size = sizeof desc;
  desc.device_type = 2, desc.device_id = 4095;
  sluice_context *made = reinterpret_cast<sluice_context *>(uintptr_t(0x5a5a));
  EXPECT_EQ(sluice_context_create(&desc, &made), SLUICE_NO_DEVICE) << sluice_last_error();
  EXPECT_EQ(uintptr_t(made), uintptr_t(0x5a5a));
}

// Descriptors of an older and a newer caller: a missing tail is zero, an unknown tail has to be.
template <typename D>
struct with_tail {
  D known;
  char tail[4096 - sizeof(D)];
};

TEST(descriptors, may_be_larger_when_the_tail_is_zero) {
  with_tail<sluice_context_desc> context_desc{};
  with_tail<sluice_hooks> hooks{};
  for (size_t size :
       {sizeof(sluice_context_desc), sizeof(sluice_context_desc) + 1, size_t(100), size_t(4096)}) {
    context_desc.known.struct_size = size;
    context_desc.known.hooks = &hooks.known;
    hooks.known.struct_size = std::max(size, sizeof(sluice_hooks));
    sluice_context *made = nullptr;
    ASSERT_EQ(sluice_context_create(&context_desc.known, &made), SLUICE_OK) << sluice_last_error();
    sluice_context_destroy(made);
  }

  operand x{.name = "x", .shape = {2, 3}, .packed = pack(dtype::f32, {1, 2, 3, 4, 5, 6})};
  operand y{.name = "y", .shape = {2, 3}, .output = true};
  with_tail<sluice_softmax_desc> desc{};
  for (size_t size : {sizeof(sluice_softmax_desc), sizeof(sluice_softmax_desc) + 8, size_t(4096)}) {
    placed px(cpu, x, compact), py(cpu, y, compact);
    desc.known.struct_size = size;
    desc.known.scale = 2;
    EXPECT_EQ(sluice_softmax(shared_context(cpu), &desc.known, px.view(), py.view(), nullptr, 0, nullptr),
              SLUICE_OK)
        << sluice_last_error();
  }
  desc.known.struct_size = sizeof(sluice_softmax_desc);
  desc.tail[0] = 1; // beyond what the caller says it has: not looked at
  placed px(cpu, x, compact), py(cpu, y, compact);
  EXPECT_EQ(sluice_softmax(shared_context(cpu), &desc.known, px.view(), py.view(), nullptr, 0, nullptr),
            SLUICE_OK);
}

struct host {
  int allocations = 0, releases = 0;
  size_t bytes = 0;
  std::vector<std::string> lines;
  std::vector<int32_t> levels;
  std::map<void *, size_t> alive;
  int64_t bodies = 0;

  static void *alloc(void *self, size_t bytes, sluice_stream stream) {
    host &h = *static_cast<host *>(self);
    EXPECT_EQ(stream, nullptr);
    ++h.allocations;
    void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    h.alive[memory] = bytes;
    std::memset(memory, 0xff, bytes);
    return memory;
  }
  static void release(void *self, void *memory, size_t bytes, sluice_stream) {
    host &h = *static_cast<host *>(self);
    ++h.releases;
    EXPECT_EQ(h.alive.at(memory), bytes);
    h.alive.erase(memory);
    std::free(memory);
  }
  static void log(void *self, int32_t level, const char *line) {
    static_cast<host *>(self)->lines.push_back(line);
    static_cast<host *>(self)->levels.push_back(level);
  }
  static void parallel_for(void *self, int64_t n, void (*body)(void *, int64_t), void *arg) {
    static_cast<host *>(self)->bodies += n;
    for (int64_t i = n; i-- > 0;) body(arg, i);
  }
  sluice_hooks hooks() { return {sizeof(sluice_hooks), this, alloc, release, log, parallel_for}; }
};

// A gradient that three rows share, which needs scratch.
struct shared_gradient {
  operand dy{.name = "dy", .shape = {3, 2}, .packed = pack(dtype::f32, {1, 2, 3, 4, 5, 6})};
  operand lse{.name = "lse", .shape = {3}, .packed = pack(dtype::f32, {1, 1, 1})};
  operand one{.name = "temperature", .shape = {1}, .packed = pack(dtype::f32, {1})};
  operand out{.name = "d_temperature", .shape = {1}, .output = true};
  placed p_dy{cpu, dy, compact}, p_x{cpu, dy, compact}, p_lse{cpu, lse, compact}, p_one{cpu, one, compact},
      p_out{cpu, out, compact};

  sluice_status run(const sluice_context *context) {
    sluice_softmax_backward_desc d{};
    d.struct_size = sizeof d;
    d.x = p_x.view(), d.lse = p_lse.view(), d.temperature = p_one.view(), d.d_temperature = p_out.view();
    return sluice_softmax_backward(context, &d, p_dy.view(), nullptr, nullptr, 0, nullptr);
  }
};

TEST(hooks, lend_scratch_and_get_it_back) {
  host h;
  sluice_hooks lent = h.hooks();
  context with(cpu, 2, &lent);
  lent = {}; // copied when the context was made
  shared_gradient call;
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(call.run(with), SLUICE_OK) << sluice_last_error();
    EXPECT_EQ(h.allocations, i);
    EXPECT_EQ(h.releases, i);
  }
  EXPECT_TRUE(h.alive.empty());
}

TEST(hooks, without_alloc_no_scratch_is_taken) {
  host h;
  sluice_hooks lent = h.hooks();
  lent.alloc = nullptr, lent.release = nullptr;
  context with(cpu, 2, &lent);
  shared_gradient call;
  EXPECT_EQ(call.run(with), SLUICE_WORKSPACE_TOO_SMALL);
}

TEST(hooks, log_gets_single_lines) {
  host h;
  sluice_hooks lent = h.hooks();
  context with(cpu, 2, &lent);
  ASSERT_FALSE(h.lines.empty());
  for (size_t i = 0; i < h.lines.size(); ++i) {
    EXPECT_EQ(h.lines[i].find('\n'), std::string::npos);
    EXPECT_TRUE(h.levels[i] >= 0 && h.levels[i] <= 2);
  }
}

TEST(hooks, parallel_for_runs_all_of_the_work) {
  host h;
  sluice_hooks lent = h.hooks();
  context with(cpu, 0, &lent);
  operand x{.name = "x", .shape = {20000, 64}, .packed = bit_list(20000 * 64 * 4, 0)};
  operand y{.name = "y", .shape = {20000, 64}, .output = true};
  placed px(cpu, x, compact), py(cpu, y, compact);
  ASSERT_EQ(sluice_softmax(with, nullptr, px.view(), py.view(), nullptr, 0, nullptr), SLUICE_OK)
      << sluice_last_error();
  EXPECT_GT(h.bodies, 1);
  py.store.download();
  bit_list found = py.found(), want = pack(dtype::f32, std::vector<real>(20000 * 64, 1.0L / 64));
  EXPECT_EQ(found, want);
}

TEST(errors_of_a_thread, stay_until_the_next_failure) {
  EXPECT_EQ(sluice_context_create(nullptr, nullptr), SLUICE_INVALID_ARGUMENT);
  const std::string text = sluice_last_error();
  sluice_context *made = nullptr;
  ASSERT_EQ(sluice_context_create(nullptr, &made), SLUICE_OK);
  EXPECT_EQ(sluice_last_error(), text) << "a success changed the text";
  sluice_context_destroy(made);
}

// Pinned and managed host memory counts as the device of a CPU context.
TEST(devices, pinned_and_managed_memory_is_host_memory) {
  for (sluice_device device : {sluice_device{3, 0}, {13, 0}, {3, 5}}) {
    operand x{.name = "x", .shape = {2}, .packed = pack(dtype::f32, {0, 0})},
        y{.name = "y", .shape = {2}, .output = true};
    placed px(cpu, x, compact), py(cpu, y, compact);
    sluice_tensor tx = *px.view(), ty = *py.view();
    tx.device = device;
    EXPECT_EQ(sluice_softmax(shared_context(cpu), nullptr, &tx, &ty, nullptr, 0, nullptr), SLUICE_OK)
        << sluice_last_error();
    ty.device = device;
    EXPECT_EQ(sluice_softmax(shared_context(cpu), nullptr, &tx, &ty, nullptr, 0, nullptr), SLUICE_OK);
  }
}

} // namespace
} // namespace sluice::test
