// core_errors.cpp: the rows of error_table.hpp for contexts and introspection, and for what every operation's call can
// get wrong beside its tensors: NULL, stream, workspace, a hook that fails.
#include <cstring>

#include <gtest/gtest.h>

#include "abi/error_table.hpp"

namespace sluice::test {
namespace {

void *no_memory(void *, size_t, sluice_stream) { return nullptr; }
void *crooked_memory(void *self, size_t, sluice_stream) { return static_cast<char *>(self) + 8; }
void forget_it(void *, void *, size_t, sluice_stream) {}

// A sentinel that no call may replace on failure.
sluice_context *const untouched = reinterpret_cast<sluice_context *>(uintptr_t(0x5a5a));

error_row create(const char *name, sluice_status status, const std::string &text,
                 const std::function<void(sluice_context_desc &, sluice_hooks &)> &apply) {
  return {std::string("context_create_") + name, status, [=](std::string &want) {
            sluice_hooks hooks{};
            hooks.struct_size = sizeof hooks;
            sluice_context_desc desc{};
            desc.struct_size = sizeof desc;
            desc.hooks = &hooks;
            apply(desc, hooks);
            sluice_context *out = untouched;
            want = "context_create: " + text;
            sluice_status got = sluice_context_create(&desc, &out);
            if (out != untouched) want += ", with *out untouched";
            return got;
          }};
}

void contexts(std::vector<error_row> &rows) {
  using desc = sluice_context_desc;
  using hooks = sluice_hooks;
  rows.push_back({"context_create_out_null", SLUICE_INVALID_ARGUMENT, [](std::string &want) {
                    want = "context_create: out is NULL";
                    return sluice_context_create(nullptr, nullptr);
                  }});
  for (int32_t type : {-1, 3, 13, INT32_MAX})
    rows.push_back(create("device_type", SLUICE_INVALID_ARGUMENT,
                          format("desc.device_type is %d, want 1 (CPU) or 2 (CUDA)", type),
                          [=](desc &d, hooks &) { d.device_type = type; }));
  for (int32_t type : {0, 1})
    rows.push_back(create("cpu_device_id", SLUICE_INVALID_ARGUMENT, "desc.device_id is 1, want 0 for the CPU",
                          [=](desc &d, hooks &) { d.device_type = type, d.device_id = 1; }));
  rows.push_back(create("cuda_device_id", SLUICE_INVALID_ARGUMENT, "desc.device_id is -1, want >= 0",
                        [](desc &d, hooks &) { d.device_type = 2, d.device_id = -1; }));
  for (int32_t value : {-1, 2})
    rows.push_back(create("debug_sync", SLUICE_INVALID_ARGUMENT,
                          format("desc.debug_sync is %d, want 0 or 1", value),
                          [=](desc &d, hooks &) { d.debug_sync = value; }));
  for (int32_t value : {-1, 1025})
    rows.push_back(create("threads", SLUICE_INVALID_ARGUMENT,
                          format("desc.threads is %d, want 0 to 1024", value),
                          [=](desc &d, hooks &) { d.threads = value; }));
  for (size_t size : {size_t(0), size_t(1), sizeof(desc) - 1, size_t(4097), SIZE_MAX})
    rows.push_back(
        create("struct_size", SLUICE_INVALID_ARGUMENT,
               format("desc.struct_size is %zu, want sizeof of the struct (%zu to 4096)", size, sizeof(desc)),
               [=](desc &d, hooks &) { d.struct_size = size; }));
  for (size_t size : {size_t(0), sizeof(hooks) - 1, size_t(5000)})
    rows.push_back(create(
        "hooks_struct_size", SLUICE_INVALID_ARGUMENT,
        format("hooks.struct_size is %zu, want sizeof of the struct (%zu to 4096)", size, sizeof(hooks)),
        [=](desc &, hooks &h) { h.struct_size = size; }));
  rows.push_back(create("alloc_alone", SLUICE_INVALID_ARGUMENT,
                        "hooks.release is NULL, want it set where hooks.alloc is",
                        [](desc &, hooks &h) { h.alloc = no_memory; }));
  rows.push_back(create("release_alone", SLUICE_INVALID_ARGUMENT,
                        "hooks.alloc is NULL, want it set where hooks.release is",
                        [](desc &, hooks &h) { h.release = forget_it; }));
  rows.push_back(
      {"context_create_newer_descriptor", SLUICE_UNSUPPORTED, [](std::string &want) {
         struct {
           sluice_context_desc known;
           char unknown[64];
         } newer = {};
         newer.known.struct_size = sizeof newer;
         newer.unknown[63] = 1;
         want =
             format("context_create: desc.struct_size is %zu, want at most %zu or zeros behind: built for a "
                    "newer sluice",
                    sizeof newer, sizeof newer.known);
         sluice_context *out = untouched;
         return sluice_context_create(&newer.known, &out);
       }});
}

void introspection(std::vector<error_row> &rows) {
  static const sluice_dtype f32s[3] = {{2, 32, 1}, {2, 32, 1}, {2, 32, 1}};
  auto supports = [&](const char *name, sluice_status status, const std::string &text, const char *op,
                      const sluice_dtype *dtypes, int32_t count, bool context = true) {
    rows.push_back({std::string("op_supports_") + name, status, [=](std::string &want) {
                      want = "op_supports: " + text;
                      const sluice_context *on = nullptr;
                      if (context) on = shared_context(cpu);
                      return sluice_op_supports(on, op, dtypes, count);
                    }});
  };
  const std::string unknown = "op is \"soft\", want a name that sluice_op_name gives";
  supports("context_null", SLUICE_INVALID_ARGUMENT, "context is NULL", "softmax", f32s, 2, false);
  supports("op_null", SLUICE_INVALID_ARGUMENT, "op is NULL", nullptr, f32s, 2);
  supports("op_unknown", SLUICE_UNSUPPORTED, unknown, "soft", f32s, 2);
  supports("dtypes_null", SLUICE_INVALID_ARGUMENT, "dtypes is NULL", "softmax", nullptr, 2);
  for (const char *op : {"softmax", "softmax_backward"}) {
    for (int32_t count : {-1, 0, 1, 3})
      supports("count", SLUICE_INVALID_ARGUMENT, format("count is %d, want 2", count), op, f32s, count);
    for (int at : {0, 1}) {
      static sluice_dtype lists[2][2] = {{{0, 32, 1}, {2, 32, 1}}, {{2, 32, 1}, {0, 32, 1}}};
      supports("dtype", SLUICE_UNSUPPORTED_DTYPE,
               format("dtypes[%d] is int32, want float32, float64, float16 or bfloat16", at), op, lists[at],
               2);
    }
  }

  rows.push_back({"context_warm_context_null", SLUICE_INVALID_ARGUMENT, [](std::string &want) {
                    want = "context_warm: context is NULL";
                    return sluice_context_warm(nullptr, nullptr);
                  }});
  rows.push_back({"context_warm_op_unknown", SLUICE_UNSUPPORTED, [=](std::string &want) {
                    want = "context_warm: " + unknown;
                    return sluice_context_warm(shared_context(cpu), "soft");
                  }});
  rows.push_back({"context_warm_long_name", SLUICE_UNSUPPORTED, [](std::string &want) {
                    std::string name(1000, 'n');
                    want = "context_warm: op is \"" + name.substr(0, 60) +
                           "\", want a name that sluice_op_name gives";
                    return sluice_context_warm(shared_context(cpu), name.c_str());
                  }});
}

// A gradient that needs scratch: of a temperature that three rows share.
struct hungry_call {
  scene s;
  sluice_softmax_backward_desc desc{};

  hungry_call() {
    for (const char *name : {"dy", "x"}) s.add(name, dtype::f32, {3, 4}, false);
    s.add("lse", dtype::f32, {3}, false);
    s.add("temperature", dtype::f32, {1}, false);
    s.add("d_temperature", dtype::f32, {1}, true);
    desc.struct_size = sizeof desc;
    desc.x = s.view("x"), desc.lse = s.view("lse");
    desc.temperature = s.view("temperature"), desc.d_temperature = s.view("d_temperature");
  }
  size_t wanted() {
    size_t bytes = 0;
    EXPECT_EQ(sluice_softmax_backward_workspace(shared_context(cpu), &desc, s.view("dy"), nullptr, &bytes),
              SLUICE_OK)
        << sluice_last_error();
    EXPECT_GT(bytes, size_t(0));
    return bytes;
  }
  sluice_status run(const sluice_context *context, void *workspace, size_t bytes, std::string &want) {
    sluice_status got =
        sluice_softmax_backward(context, &desc, s.view("dy"), nullptr, workspace, bytes, nullptr);
    if (!s.untouched()) want += ", with outputs untouched";
    return got;
  }
};

void workspaces(std::vector<error_row> &rows) {
  rows.push_back(
      {"workspace_null", SLUICE_WORKSPACE_TOO_SMALL, [](std::string &want) {
         hungry_call c;
         want = format("softmax_backward: workspace is NULL, want %zu bytes (the context has no hooks.alloc)",
                       c.wanted());
         return c.run(shared_context(cpu), nullptr, 1 << 20, want);
       }});
  rows.push_back({"workspace_short", SLUICE_WORKSPACE_TOO_SMALL, [](std::string &want) {
                    hungry_call c;
                    memory room(cpu, 1 << 16, 0);
                    want = format("softmax_backward: workspace_bytes is %zu, want %zu", c.wanted() - 1,
                                  c.wanted());
                    return c.run(shared_context(cpu), room.address(), c.wanted() - 1, want);
                  }});
  rows.push_back({"workspace_misaligned", SLUICE_INVALID_ARGUMENT, [](std::string &want) {
                    hungry_call c;
                    memory room(cpu, 1 << 16, 0);
                    void *crooked = room.address() + 128;
                    want = format("softmax_backward: workspace is %p, want a multiple of 256", crooked);
                    return c.run(shared_context(cpu), crooked, 1 << 15, want);
                  }});
  struct hook {
    const char *name;
    void *(*alloc)(void *, size_t, sluice_stream);
    sluice_status status;
  };
  for (hook h : {hook{"hook_gives_null", no_memory, SLUICE_OUT_OF_MEMORY},
                 hook{"hook_gives_misaligned", crooked_memory, SLUICE_INVALID_ARGUMENT}})
    rows.push_back({h.name, h.status, [=](std::string &want) {
                      hungry_call c;
                      memory room(cpu, 1 << 16, 0);
                      sluice_hooks hooks{};
                      hooks.struct_size = sizeof hooks;
                      hooks.self = room.address();
                      hooks.alloc = h.alloc, hooks.release = forget_it;
                      context with(cpu, 1, &hooks);
                      want =
                          h.status == SLUICE_OUT_OF_MEMORY
                              ? format("softmax_backward: hooks.alloc gave NULL, want %zu bytes", c.wanted())
                              : format("softmax_backward: hooks.alloc gave %p, want a multiple of 256",
                                       static_cast<void *>(room.address() + 8));
                      return c.run(with, nullptr, 0, want);
                    }});
}

template <typename D, typename Run>
error_row newer_descriptor(const char *op, Run run) {
  return {std::string(op) + "_newer_descriptor", SLUICE_UNSUPPORTED, [=](std::string &want) {
            struct {
              D known;
              int64_t unknown[3];
            } newer = {};
            newer.known.struct_size = sizeof newer;
            newer.unknown[2] = 1;
            want = format(
                "%s: desc.struct_size is %zu, want at most %zu or zeros behind: built for a newer sluice", op,
                sizeof newer, sizeof newer.known);
            return run(&newer.known);
          }};
}

void operations(std::vector<error_row> &rows) {
  auto stream = reinterpret_cast<sluice_stream>(uintptr_t(0x10));
  struct entry {
    const char *op;
    sluice_status (*run)(const sluice_context *, sluice_stream);
    sluice_status (*query)(const sluice_context *, size_t *);
  };
  for (const entry &e : {entry{"softmax",
                               [](const sluice_context *c, sluice_stream q) {
                                 return sluice_softmax(c, nullptr, nullptr, nullptr, nullptr, 0, q);
                               },
                               [](const sluice_context *c, size_t *b) {
                                 return sluice_softmax_workspace(c, nullptr, nullptr, nullptr, b);
                               }},
                         entry{"softmax_backward",
                               [](const sluice_context *c, sluice_stream q) {
                                 return sluice_softmax_backward(c, nullptr, nullptr, nullptr, nullptr, 0, q);
                               },
                               [](const sluice_context *c, size_t *b) {
                                 return sluice_softmax_backward_workspace(c, nullptr, nullptr, nullptr, b);
                               }}}) {
    std::string op = e.op;
    rows.push_back({op + "_context_null", SLUICE_INVALID_ARGUMENT, [=](std::string &want) {
                      want = op + ": context is NULL";
                      return e.run(nullptr, nullptr);
                    }});
    rows.push_back({op + "_stream_on_the_cpu", SLUICE_INVALID_ARGUMENT, [=](std::string &want) {
                      want = op + ": stream is 0x10, want NULL on a CPU context";
                      return e.run(shared_context(cpu), stream);
                    }});
    rows.push_back({op + "_workspace_context_null", SLUICE_INVALID_ARGUMENT, [=](std::string &want) {
                      size_t bytes;
                      want = op + "_workspace: context is NULL";
                      return e.query(nullptr, &bytes);
                    }});
    rows.push_back({op + "_workspace_bytes_null", SLUICE_INVALID_ARGUMENT, [=](std::string &want) {
                      want = op + "_workspace: bytes is NULL";
                      return e.query(shared_context(cpu), nullptr);
                    }});
  }
  rows.push_back({"softmax_all_null", SLUICE_INVALID_ARGUMENT, [](std::string &want) {
                    want = "softmax: x is NULL";
                    return sluice_softmax(shared_context(cpu), nullptr, nullptr, nullptr, nullptr, 0,
                                          nullptr);
                  }});
  rows.push_back({"softmax_backward_desc_null", SLUICE_INVALID_ARGUMENT, [](std::string &want) {
                    want = "softmax_backward: desc is NULL, want one with y or x";
                    return sluice_softmax_backward(shared_context(cpu), nullptr, nullptr, nullptr, nullptr, 0,
                                                   nullptr);
                  }});
  rows.push_back(newer_descriptor<sluice_softmax_desc>("softmax", [](const sluice_softmax_desc *d) {
    return sluice_softmax(shared_context(cpu), d, nullptr, nullptr, nullptr, 0, nullptr);
  }));
  rows.push_back(newer_descriptor<sluice_softmax_backward_desc>(
      "softmax_backward", [](const sluice_softmax_backward_desc *d) {
        return sluice_softmax_backward(shared_context(cpu), d, nullptr, nullptr, nullptr, 0, nullptr);
      }));
}

} // namespace

std::vector<error_row> core_errors() {
  std::vector<error_row> rows;
  contexts(rows);
  introspection(rows);
  workspaces(rows);
  operations(rows);
  return rows;
}

} // namespace sluice::test
