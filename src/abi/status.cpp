// status.cpp: version, names of codes, and this thread's error text.
#include <sluice/core.h>

#include <cstdio>

#include "abi/guard.hpp"
#include "cpu/isa.hpp"
#include "sluice_build_info.inc"

namespace sluice {
namespace {

constinit thread_local char last_error[320] = "";

struct build_line {
  char text[128];
  build_line() {
    std::snprintf(text, sizeof text, "%u.%u.%u cuda=%s sm=%s cpu=%s", SLUICE_VERSION / 10000,
                  SLUICE_VERSION / 100 % 100, SLUICE_VERSION % 100, SLUICE_BUILD_CUDA, SLUICE_BUILD_SM,
                  isa_name(best_isa()));
  }
};

}  // namespace

sluice_status report(const char *op, const failure &f) {
  std::snprintf(last_error, sizeof last_error, "%s: %s", op, f.text);
  // One line, whatever a driver's or a callback's words held.
  for (char *c = last_error; *c; ++c)
    if (*c == '\n' || *c == '\r') *c = ' ';
  return f.status;
}

}  // namespace sluice

extern "C" uint32_t sluice_version(void) { return SLUICE_VERSION; }

extern "C" const char *sluice_build_info(void) {
  static const sluice::build_line line;
  return line.text;
}

extern "C" const char *sluice_last_error(void) { return sluice::last_error; }

extern "C" const char *sluice_status_name(sluice_status status) {
  switch (status) {
    case SLUICE_OK: return "SLUICE_OK";
    case SLUICE_INVALID_ARGUMENT: return "SLUICE_INVALID_ARGUMENT";
    case SLUICE_INVALID_SHAPE: return "SLUICE_INVALID_SHAPE";
    case SLUICE_INVALID_DEVICE: return "SLUICE_INVALID_DEVICE";
    case SLUICE_WORKSPACE_TOO_SMALL: return "SLUICE_WORKSPACE_TOO_SMALL";
    case SLUICE_UNSUPPORTED: return "SLUICE_UNSUPPORTED";
    case SLUICE_UNSUPPORTED_DTYPE: return "SLUICE_UNSUPPORTED_DTYPE";
    case SLUICE_OUT_OF_MEMORY: return "SLUICE_OUT_OF_MEMORY";
    case SLUICE_CUDA_FAILED: return "SLUICE_CUDA_FAILED";
    case SLUICE_CALLBACK_FAILED: return "SLUICE_CALLBACK_FAILED";
    case SLUICE_NO_DEVICE: return "SLUICE_NO_DEVICE";
    case SLUICE_INTERNAL: return "SLUICE_INTERNAL";
    case SLUICE_STATUS_FORCE32: break;
  }
  return "an unknown status";
}
