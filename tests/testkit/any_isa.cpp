// any_isa.cpp: the choice of instruction set, left to SLUICE_TEST_ISA where the machine has the one that it names. Linked
// over the library's own objects with --wrap, so that what ships never looks at the environment.
#include <cstdlib>
#include <cstring>

#include "cpu/isa.hpp"

extern "C" {

sluice::isa __real__ZN6sluice8best_isaEv();

sluice::isa __wrap__ZN6sluice8best_isaEv() {
  const sluice::isa best = __real__ZN6sluice8best_isaEv();
  const char *wanted = std::getenv("SLUICE_TEST_ISA");
  for (int32_t i = 0; wanted && i <= int32_t(best); ++i)
    if (std::strcmp(sluice::isa_name(sluice::isa(i)), wanted) == 0) return sluice::isa(i);
  return best;
}
}
