// pretend.cpp: makes a context plan for another device than the one it runs on, so that what older devices would run can
// be tested on a newer one. The one place where a test reaches into a context: a field of a struct, so that the tests
// go on calling the library that ships.
#include "abi/context.hpp"
#include "testkit/testkit.h"

extern "C" int32_t sluice_testkit_pretend(struct sluice_context *context, int32_t major, int32_t minor) {
  if (!context || !context->is_cuda()) return 100; // cudaErrorNoDevice
  context->facts.major = major;
  context->facts.minor = minor;
  return 0;
}
