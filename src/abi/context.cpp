// context.cpp: makes and ends contexts, and finds scratch for a call.
#include "abi/context.hpp"

#include <sluice/core.h>
#include <unistd.h>

#include <cinttypes>
#include <memory>

#include "abi/descriptor.hpp"
#include "abi/guard.hpp"
#include "core/limits.hpp"

namespace sluice {
namespace {

result<sluice_hooks> read_hooks(const sluice_hooks *user) {
  auto hooks = read_descriptor(user, "hooks", offsetof(sluice_hooks, parallel_for) + sizeof(void *));
  if (!hooks) return hooks;
  if (hooks->alloc && !hooks->release)
    return fail(SLUICE_INVALID_ARGUMENT, "hooks.release is NULL, want it set where hooks.alloc is");
  if (!hooks->alloc && hooks->release)
    return fail(SLUICE_INVALID_ARGUMENT, "hooks.alloc is NULL, want it set where hooks.release is");
  return hooks;
}

result<void> check(const sluice_context_desc &desc) {
  if (desc.device_type < 0 || desc.device_type > 2)
    return fail(SLUICE_INVALID_ARGUMENT, "desc.device_type is %d, want 1 (CPU) or 2 (CUDA)",
                desc.device_type);
  if (desc.device_type != 2 && desc.device_id != 0)
    return fail(SLUICE_INVALID_ARGUMENT, "desc.device_id is %d, want 0 for the CPU", desc.device_id);
  if (desc.device_id < 0)
    return fail(SLUICE_INVALID_ARGUMENT, "desc.device_id is %d, want >= 0", desc.device_id);
  if (desc.debug_sync < 0 || desc.debug_sync > 1)
    return fail(SLUICE_INVALID_ARGUMENT, "desc.debug_sync is %d, want 0 or 1", desc.debug_sync);
  if (desc.threads < 0 || desc.threads > max_threads)
    return fail(SLUICE_INVALID_ARGUMENT, "desc.threads is %d, want 0 to %d", desc.threads, max_threads);
  return {};
}

void announce(const sluice_context &c) {
  if (!c.hooks.log) return;
  char line[160];
  if (c.is_cuda())
    std::snprintf(line, sizeof line, "sluice: context on CUDA device %d, sm_%d%d, %d multiprocessors",
                  c.device.id, c.facts.major, c.facts.minor, c.facts.multiprocessors);
  else
    std::snprintf(line, sizeof line, "sluice: context on the CPU, %d threads, %s", c.threads.width(),
                  isa_name(c.code));
  c.hooks.log(c.hooks.self, 2, line);
}

}  // namespace

result<void> want_usable(const sluice_context *context, sluice_stream stream) {
  if (!context) return fail(SLUICE_INVALID_ARGUMENT, "context is NULL");
  if (!context->is_cuda() && stream)
    return fail(SLUICE_INVALID_ARGUMENT, "stream is %p, want NULL on a CPU context",
                static_cast<void *>(stream));
  if (context->is_cuda() && context->process != getpid())
    return fail(SLUICE_NO_DEVICE, "context was created before fork, want one made in this process");
  return {};
}

room::room(room &&other) noexcept
    : context(other.context), memory(other.memory), borrowed(other.borrowed), stream(other.stream) {
  other.borrowed = 0;
}

room::~room() {
  if (borrowed) context->hooks.release(context->hooks.self, memory, borrowed, stream);
}

result<room> room::of(const sluice_context &context, size_t wanted, void *workspace, size_t workspace_bytes,
                      sluice_stream stream) {
  if (wanted == 0) return room(context, nullptr, 0, stream);
  if (workspace) {
    if (reinterpret_cast<uintptr_t>(workspace) % workspace_alignment != 0)
      return fail(SLUICE_INVALID_ARGUMENT, "workspace is %p, want a multiple of %zu", workspace,
                  workspace_alignment);
    if (workspace_bytes < wanted)
      return fail(SLUICE_WORKSPACE_TOO_SMALL, "workspace_bytes is %zu, want %zu", workspace_bytes, wanted);
    return room(context, workspace, 0, stream);
  }
  if (!context.hooks.alloc)
    return fail(SLUICE_WORKSPACE_TOO_SMALL,
                "workspace is NULL, want %zu bytes (the context has no hooks.alloc)", wanted);
  void *memory = context.hooks.alloc(context.hooks.self, wanted, stream);
  if (!memory) return fail(SLUICE_OUT_OF_MEMORY, "hooks.alloc gave NULL, want %zu bytes", wanted);
  room lent(context, memory, wanted, stream);
  if (reinterpret_cast<uintptr_t>(memory) % workspace_alignment != 0)
    return fail(SLUICE_INVALID_ARGUMENT, "hooks.alloc gave %p, want a multiple of %zu", memory,
                workspace_alignment);
  return lent;
}

}  // namespace sluice

using namespace sluice;

extern "C" sluice_status sluice_context_create(const sluice_context_desc *user, sluice_context **out) {
  return guard("context_create", [&]() -> result<void> {
    if (!out) return fail(SLUICE_INVALID_ARGUMENT, "out is NULL");
    auto desc = read_descriptor(user, "desc", offsetof(sluice_context_desc, hooks) + sizeof(void *));
    if (!desc) return desc.error();
    if (auto fine = check(*desc); !fine) return fine;
    auto hooks = read_hooks(desc->hooks);
    if (!hooks) return hooks.error();

    cuda::facts facts = {};
    bool is_cuda = desc->device_type == 2;
    if (is_cuda) {
      auto device = cuda::open(desc->device_id);
      if (!device) return device.error();
      facts = *device;
    }
    auto context = std::unique_ptr<sluice_context>(new sluice_context{{is_cuda ? 2 : 1, desc->device_id},
                                                                      desc->debug_sync == 1,
                                                                      *hooks,
                                                                      best_isa(),
                                                                      {*hooks, desc->threads},
                                                                      facts,
                                                                      getpid()});
    announce(*context);
    *out = context.release();
    return {};
  });
}

extern "C" void sluice_context_destroy(sluice_context *context) { delete context; }
