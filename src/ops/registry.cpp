// registry.cpp: the operations of this build, from the list that CMake reads off sluice.h.
#include <sluice/core.h>

#include <cstring>
#include <span>

#include "abi/context.hpp"
#include "abi/guard.hpp"
#include "abi/op.hpp"

#define SLUICE_OP(op)                                                                                        \
  namespace sluice::op {                                                                                     \
  std::span<const op_facts> ops();                                                                           \
  }
#include "sluice_ops.inc"
#undef SLUICE_OP

namespace sluice {
namespace {

// Calls f(facts) for each operation until it answers true; the one it answered true for, or nullptr.
template <typename F>
const op_facts *find(F &&f) {
#define SLUICE_OP(op)                                                                                        \
  for (const op_facts &facts : op::ops())                                                                    \
    if (f(facts)) return &facts;
#include "sluice_ops.inc"
#undef SLUICE_OP
  return nullptr;
}

result<const op_facts *> named(const char *op) {
  if (!op) return fail(SLUICE_INVALID_ARGUMENT, "op is NULL");
  const op_facts *facts = find([&](const op_facts &f) { return std::strcmp(f.name, op) == 0; });
  if (!facts) return fail(SLUICE_UNSUPPORTED, "op is \"%.60s\", want a name that sluice_op_name gives", op);
  return facts;
}

}  // namespace
}  // namespace sluice

using namespace sluice;

extern "C" int32_t sluice_op_count(void) {
  int32_t count = 0;
  (void)find([&](const op_facts &) { return ++count, false; });
  return count;
}

extern "C" const char *sluice_op_name(int32_t index) {
  if (index < 0) return nullptr;
  const op_facts *facts = find([&](const op_facts &) { return index-- == 0; });
  return facts ? facts->name : nullptr;
}

extern "C" sluice_status sluice_op_supports(const sluice_context *context, const char *op,
                                            const sluice_dtype *dtypes, int32_t count) {
  return guard("op_supports", [&]() -> result<void> {
    if (auto usable = want_usable(context, nullptr); !usable) return usable;
    auto facts = named(op);
    if (!facts) return facts.error();
    if (!dtypes) return fail(SLUICE_INVALID_ARGUMENT, "dtypes is NULL");
    return (*facts)->supports(*context, dtypes, count);
  });
}

extern "C" sluice_status sluice_context_warm(const sluice_context *context, const char *op) {
  return guard("context_warm", [&]() -> result<void> {
    if (auto usable = want_usable(context, nullptr); !usable) return usable;
    const op_facts *only = nullptr;
    if (op) {
      auto facts = named(op);
      if (!facts) return facts.error();
      only = *facts;
    }
    if (!context->is_cuda()) return {};
    return on_device(*context, nullptr, [&] {
      result<void> r;
      (void)find([&](const op_facts &f) {
        if (!only || only == &f) r = f.warm(*context);
        return !r;
      });
      return r;
    });
  });
}
