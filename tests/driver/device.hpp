// device.hpp: the devices that tests run on and the contexts they use there.
#pragma once

#include <sluice/core.h>

#include <optional>
#include <string>
#include <utility>

namespace sluice::test {

inline constexpr int32_t cpu = 1, cuda = 2;

inline const char *device_name(int32_t device) { return device == cpu ? "cpu" : "cuda"; }

// A context that ends with its scope.
class context {
 public:
  explicit context(int32_t device, int32_t threads = 0, const sluice_hooks *hooks = nullptr) {
    sluice_context_desc desc{};
    desc.struct_size = sizeof desc;
    desc.device_type = device;
    desc.threads = threads;
    desc.hooks = hooks;
    status = sluice_context_create(&desc, &made);
    if (status != SLUICE_OK) text = sluice_last_error();
  }
  context(context &&other) noexcept
      : status(other.status), text(std::move(other.text)), made(std::exchange(other.made, nullptr)) {}
  context &operator=(context &&) = delete;
  ~context() { sluice_context_destroy(made); }

  operator const sluice_context *() const { return made; }
  sluice_context *get() const { return made; }

  sluice_status status;
  std::string text;  // why there is none

 private:
  sluice_context *made = nullptr;
};

// One context per device for the whole run.
const context &shared_context(int32_t device);

// Why a device cannot be tested here; nothing where it can.
std::optional<std::string> absent(int32_t device);

}  // namespace sluice::test

// In SetUp or first in a test: leaves it, with the reason, where its device is missing.
#define SLUICE_SKIP_WITHOUT(device)                                                                          \
  if (auto reason = ::sluice::test::absent(device)) GTEST_SKIP() << *reason
