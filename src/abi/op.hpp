// op.hpp: what the registry knows of an operation. Each op's namespace has an `ops()` that lists its calls.
#pragma once

#include <sluice/core.h>

#include <cstdint>
#include <span>

#include "core/result.hpp"

namespace sluice {

struct op_facts {
  const char *name;
  result<void> (*supports)(const sluice_context &context, const sluice_dtype *dtypes, int32_t count);
  result<void> (*warm)(
      const sluice_context &context);  // loads its kernels on the context's device, which is current
};

}  // namespace sluice
