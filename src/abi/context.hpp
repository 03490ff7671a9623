// context.hpp: one device and what the host lends. Immutable once made.
#pragma once

#include <sluice/core.h>
#include <sys/types.h>

#include "core/arena.hpp"
#include "core/result.hpp"
#include "cpu/isa.hpp"
#include "cpu/parallel.hpp"
#include "cuda/device.hpp"

struct sluice_context {
  sluice_device device;
  bool debug_sync;
  sluice_hooks hooks;
  sluice::isa code;            // CPU: instruction set
  sluice::workers threads;     // CPU: none of its own before the first parallel work
  sluice::cuda::facts facts;   // CUDA: all zero on the CPU
  pid_t process;               // that made it

  bool is_cuda() const { return device.type == 2; }
};

namespace sluice {

// The context may run a call on this stream: it is there, not from before a fork, and a CPU context gets no
// stream.
result<void> want_usable(const sluice_context *context, sluice_stream stream);

// Scratch for one call: the caller's workspace, or the hook's memory until the end of the call.
class room {
 public:
  room(room &&other) noexcept;
  room(const room &) = delete;
  room &operator=(const room &) = delete;
  ~room();

  void *base() const { return memory; }

  static result<room> of(const sluice_context &context, size_t wanted, void *workspace,
                         size_t workspace_bytes, sluice_stream stream);

 private:
  room(const sluice_context &context, void *memory, size_t borrowed, sluice_stream stream)
      : context(&context), memory(memory), borrowed(borrowed), stream(stream) {}

  const sluice_context *context;
  void *memory;
  size_t borrowed;  // bytes from hooks.alloc; 0: the caller's
  sluice_stream stream;
};

// Runs `enqueue` with the context's device current, restores the caller's, and waits if the context is for
// debugging.
template <typename F>
result<void> on_device(const sluice_context &context, sluice_stream stream, F &&enqueue) {
  auto current = cuda::enter(context.facts);
  if (!current) return current.error();
  result<void> r = enqueue();
  if (r && context.debug_sync) r = cuda::wait(stream);
  cuda::leave(*current);
  return r;
}

}  // namespace sluice
