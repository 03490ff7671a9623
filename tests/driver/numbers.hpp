// numbers.hpp: the element types that tests store, and how a number becomes their bits and comes back. Written apart
// from the library's own conversions, so that neither can hide a fault of the other.
#pragma once

#include <sluice/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace sluice::test {

// Wider than float64 by 11 bits on x86-64, and more elsewhere, so that float64 results can be measured in their ulp.
using real = long double;

inline constexpr real infinity = std::numeric_limits<real>::infinity();
inline constexpr real not_a_number = std::numeric_limits<real>::quiet_NaN();

enum class dtype : uint8_t { f16, bf16, f32, f64, i8, u8, boolean, i32, i64 };

struct dtype_facts {
  const char *name;
  sluice_dtype code;
  int fraction_bits, exponent_bits; // of a float; 0 for the rest
};
inline constexpr dtype_facts facts_table[] = {
    {"f16", {2, 16, 1}, 10, 5},  {"bf16", {4, 16, 1}, 7, 8}, {"f32", {2, 32, 1}, 23, 8},
    {"f64", {2, 64, 1}, 52, 11}, {"i8", {0, 8, 1}, 0, 0},    {"u8", {1, 8, 1}, 0, 0},
    {"bool", {6, 8, 1}, 0, 0},   {"i32", {0, 32, 1}, 0, 0},  {"i64", {0, 64, 1}, 0, 0},
};
constexpr const dtype_facts &facts(dtype t) { return facts_table[int(t)]; }
constexpr sluice_dtype abi(dtype t) { return facts(t).code; }
constexpr int64_t size_of(dtype t) { return facts(t).code.bits / 8; }
constexpr bool is_16_bit_float(dtype t) { return t == dtype::f16 || t == dtype::bf16; }

// The bits of v in a float of `exponent_bits` and `fraction_bits`, rounded once, to nearest and ties to even.
inline uint64_t encode(real v, int exponent_bits, int fraction_bits) {
  uint64_t sign = uint64_t(std::signbit(v)) << (exponent_bits + fraction_bits);
  uint64_t infinite = ((uint64_t(1) << exponent_bits) - 1) << fraction_bits;
  if (std::isnan(v)) return sign | infinite | uint64_t(1) << (fraction_bits - 1);
  if (std::isinf(v)) return sign | infinite;

  int bias = (1 << (exponent_bits - 1)) - 1, exponent = 0;
  std::frexp(std::fabs(v), &exponent); // |v| in [2^(exponent - 1), 2^exponent)
  exponent = v == 0 ? 1 - bias : std::max(exponent - 1, 1 - bias);
  // A count of units in the last place; the hidden bit of a normal number carries into the exponent field.
  uint64_t units = uint64_t(std::nearbyint(std::ldexp(std::fabs(v), fraction_bits - exponent)));
  uint64_t bits = (uint64_t(exponent + bias - 1) << fraction_bits) + units;
  return sign | std::min(bits, infinite);
}

inline real decode(uint64_t bits, int exponent_bits, int fraction_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  uint64_t fraction = bits & ((uint64_t(1) << fraction_bits) - 1);
  int exponent = int(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  real sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? not_a_number : sign * infinity;
  if (exponent == 0) return sign * std::ldexp(real(fraction), 1 - bias - fraction_bits);
  return sign * std::ldexp(real(fraction | uint64_t(1) << fraction_bits), exponent - bias - fraction_bits);
}

inline void store(dtype t, void *at, real v) {
  auto put = [&](auto n) { std::memcpy(at, &n, sizeof n); };
  switch (t) {
    case dtype::f16: return put(uint16_t(encode(v, 5, 10)));
    case dtype::bf16: return put(uint16_t(encode(v, 8, 7)));
    case dtype::f32: return put(float(v));
    case dtype::f64: return put(double(v));
    case dtype::i8: return put(int8_t(v));
    case dtype::u8:
    case dtype::boolean: return put(uint8_t(v));
    case dtype::i32: return put(int32_t(v));
    case dtype::i64: return put(int64_t(v));
  }
}

template <typename T>
real read(const void *at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return real(v);
}
inline real load(dtype t, const void *at) {
  switch (t) {
    case dtype::f16: return decode(uint64_t(read<uint16_t>(at)), 5, 10);
    case dtype::bf16: return decode(uint64_t(read<uint16_t>(at)), 8, 7);
    case dtype::f32: return read<float>(at);
    case dtype::f64: return read<double>(at);
    case dtype::i8: return read<int8_t>(at);
    case dtype::u8:
    case dtype::boolean: return read<uint8_t>(at);
    case dtype::i32: return read<int32_t>(at);
    case dtype::i64: return read<int64_t>(at);
  }
  return not_a_number;
}

inline real round_to(dtype t, real v) {
  char bits[8];
  store(t, bits, v);
  return load(t, bits);
}

// The distance between neighbours of a float dtype at |v|; below the normal range that of the subnormals.
inline real ulp(dtype t, real v) {
  const dtype_facts &f = facts(t);
  int bias = (1 << (f.exponent_bits - 1)) - 1, exponent = 0;
  if (!std::isfinite(v)) return 0;
  std::frexp(v, &exponent);
  exponent = v == 0 ? 1 - bias : std::max(exponent - 1, 1 - bias);
  return std::ldexp(real(1), exponent - f.fraction_bits);
}

// splitmix64 of seed and index: the same numbers on every machine, and any one of them without those before it.
inline uint64_t hash(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

class random {
 public:
  explicit random(uint64_t seed) : seed(seed) {}
  uint64_t bits() { return hash(seed, next++); }
  int64_t below(int64_t n) { return int64_t(bits() % uint64_t(n)); }
  real uniform(real low, real high) { return low + (high - low) * (real(bits() >> 11) * 0x1p-53L); }
  // Nearly normal, which logits are: a few rows then hold both large and tiny probabilities.
  real normal(real deviation) {
    uint64_t b = bits();
    int64_t sum = 0;
    for (int part = 0; part < 4; ++part) sum += int64_t(b >> (16 * part) & 0xffff);
    return deviation * (real(sum) * 0x1p-16L - 2) *
           1.7320508L; // four uniform numbers have a third of the variance
  }

 private:
  uint64_t seed, next = 0;
};

} // namespace sluice::test
