// listen.cpp: listens to what the process asks of the CUDA driver, through CUPTI's callbacks. The library carries its own
// static runtime, which finds the driver by dlopen: symbols laid over the driver's would hear nothing. CUPTI and the
// driver are opened at run time, so that neither is needed to build.
#include <dlfcn.h>

#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "testkit/testkit.h"

namespace {

// As cupti_callbacks.h has them.
constexpr int driver_domain = 1, site_of_entry = 0;
struct callback_data {
  int site;
  const char *function;
};
using callback = void (*)(void *, int domain, uint32_t which, const callback_data *);

struct listener {
  std::mutex lock;
  std::set<std::string> names;
  std::string text;
  void *subscriber = nullptr;
};
listener &state() {
  static auto *made = new listener;
  return *made;
}

void hear(void *, int, uint32_t, const callback_data *data) {
  if (data->site != site_of_entry) return;
  std::lock_guard hold(state().lock);
  state().names.insert(data->function);
}

void *cupti() {
  static void *opened = [] {
    void *library = nullptr;
    for (const char *name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
      if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return library;
  }();
  return opened;
}

template <typename F>
F function(void *library, const char *name) {
  return reinterpret_cast<F>(library ? dlsym(library, name) : nullptr);
}

void *driver() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); }

} // namespace

extern "C" {

const char *sluice_testkit_listen(void) {
  if (!cupti()) return "no libcupti.so that the loader finds";
  auto subscribe = function<int (*)(void **, callback, void *)>(cupti(), "cuptiSubscribe");
  auto enable = function<int (*)(uint32_t, void *, int)>(cupti(), "cuptiEnableDomain");
  if (!subscribe || !enable) return "libcupti.so lacks its callbacks";
  state().names.clear();
  if (subscribe(&state().subscriber, hear, nullptr) != 0)
    return "CUPTI refuses a subscriber: another tool listens";
  if (enable(1, state().subscriber, driver_domain) == 0) return nullptr;
  sluice_testkit_stop_listening();
  return "CUPTI refuses the driver's callbacks";
}

void sluice_testkit_stop_listening(void) {
  auto end = function<int (*)(void *)>(cupti(), "cuptiUnsubscribe");
  if (end && state().subscriber) end(state().subscriber);
  state().subscriber = nullptr;
}

const char *sluice_testkit_heard(void) {
  std::lock_guard hold(state().lock);
  state().text.clear();
  for (const std::string &name : state().names) state().text += name + "\n";
  return state().text.c_str();
}

int32_t sluice_testkit_allocate_and_wait(void) {
  auto allocate = function<int (*)(uint64_t *, size_t)>(driver(), "cuMemAlloc_v2");
  auto release = function<int (*)(uint64_t)>(driver(), "cuMemFree_v2");
  auto wait = function<int (*)(void *)>(driver(), "cuStreamSynchronize");
  if (!allocate || !release || !wait) return 100;
  uint64_t memory = 0;
  if (int error = allocate(&memory, 256)) return error;
  if (int error = wait(nullptr)) return error;
  return release(memory);
}
}
