// result.hpp: how a step says that it failed. Errors are values; one guard at the C edge turns them into a
// status and this thread's error text (abi/guard.hpp). Nothing here allocates.
#pragma once

#include <sluice/core.h>

#include <cstdarg>
#include <cstdio>
#include <utility>
#include <variant>

namespace sluice {

struct failure {
  sluice_status status;
  char text[232];  // one line; longer texts are cut
};

[[gnu::format(printf, 2, 3)]] inline failure fail(sluice_status status, const char *format, ...) {
  failure f;
  f.status = status;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(f.text, sizeof f.text, format, arguments);
  va_end(arguments);
  return f;
}

template <typename T>
class [[nodiscard]] result {
 public:
  // Plans have kilobytes: copied once.
  result(const T &value) : held(std::in_place_index<0>, value) {}
  result(T &&value) : held(std::in_place_index<0>, std::move(value)) {}
  result(const failure &f) : held(std::in_place_index<1>, f) {}

  explicit operator bool() const { return held.index() == 0; }
  T &operator*() { return *std::get_if<0>(&held); }
  const T &operator*() const { return *std::get_if<0>(&held); }
  T *operator->() { return std::get_if<0>(&held); }
  const T *operator->() const { return std::get_if<0>(&held); }
  const failure &error() const { return *std::get_if<1>(&held); }

 private:
  std::variant<T, failure> held;
};

template <>
class [[nodiscard]] result<void> {
 public:
  result() : failed(false) {}
  result(const failure &f) : failed(true), held(f) {}

  explicit operator bool() const { return !failed; }
  const failure &error() const { return held; }

 private:
  bool failed;
  failure held;  // read only after a failure
};

// The first failure of a list of checks, in order; later ones are not made. `first_failure([&] { ... }, [&] {
// ... })`.
template <typename... Checks>
result<void> first_failure(Checks &&...checks) {
  result<void> r;
  (void)((r = checks(), bool(r)) && ...);
  return r;
}

}  // namespace sluice
