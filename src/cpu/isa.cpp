// isa.cpp: asks the processor.
#include "cpu/isa.hpp"

namespace sluice {

isa best_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  auto has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd"))
    return isa::avx3;
  if (has_avx2) return isa::avx2;
  if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes"))
    return isa::sse4;
#endif
  return isa::baseline;
}

const char *isa_name(isa set) {
  switch (set) {
    case isa::avx3: return "avx3";
    case isa::avx2: return "avx2";
    case isa::sse4: return "sse4";
    case isa::baseline: break;
  }
  return "baseline";
}

}  // namespace sluice
