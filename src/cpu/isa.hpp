// isa.hpp: the instruction set that a CPU context computes with, chosen once when it is made.
#pragma once

#include <cstdint>

namespace sluice {

enum class isa : int32_t { baseline, sse4, avx2, avx3 };  // avx3: AVX-512 F, VL, DQ, BW and CD

isa best_isa();
const char *isa_name(isa set);

}  // namespace sluice
