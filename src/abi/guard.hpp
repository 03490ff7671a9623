// guard.hpp: the edge between C and C++. Everything an exported call does runs inside guard(), which turns a
// failure into a status and this thread's error text and lets no exception out.
#pragma once

#include <sluice/core.h>

#include <exception>
#include <new>

#include "core/result.hpp"

namespace sluice {

// Stores "op: text" as this thread's last error and answers the status.
sluice_status report(const char *op, const failure &f);

template <typename F>
sluice_status guard(const char *op, F &&call) noexcept {
  try {
    result<void> r = call();
    return r ? SLUICE_OK : report(op, r.error());
  } catch (const std::bad_alloc &) {
    return report(op, fail(SLUICE_OUT_OF_MEMORY, "the host has no memory left"));
  } catch (const std::exception &e) {
    return report(op, fail(SLUICE_INTERNAL, "%s", e.what()));
  } catch (...) {
    return report(op, fail(SLUICE_INTERNAL, "an exception of unknown type"));
  }
}

}  // namespace sluice
