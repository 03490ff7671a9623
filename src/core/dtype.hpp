// dtype.hpp: the element types sluice computes with, their names, and the step from a run-time dtype to a C++
// type.
#pragma once

#include <sluice/core.h>

#include <bit>
#include <cstdint>

#include "core/result.hpp"
#include "core/sides.hpp"

namespace sluice {

// 16-bit floats as storage: SIMD and device code bring their own arithmetic.
struct float16 {
  uint16_t bits;
};
struct bfloat16 {
  uint16_t bits;
};

inline constexpr uint8_t kind_int = 0, kind_uint = 1, kind_float = 2, kind_bfloat = 4, kind_complex = 5,
                         kind_bool = 6;

template <typename T>
inline constexpr sluice_dtype dtype_of = {}; // lanes 0: no dtype
template <>
inline constexpr sluice_dtype dtype_of<float> = {kind_float, 32, 1};
template <>
inline constexpr sluice_dtype dtype_of<double> = {kind_float, 64, 1};
template <>
inline constexpr sluice_dtype dtype_of<float16> = {kind_float, 16, 1};
template <>
inline constexpr sluice_dtype dtype_of<bfloat16> = {kind_bfloat, 16, 1};
template <>
inline constexpr sluice_dtype dtype_of<int32_t> = {kind_int, 32, 1};
template <>
inline constexpr sluice_dtype dtype_of<int64_t> = {kind_int, 64, 1};

SLUICE_BOTH_SIDES constexpr bool same(sluice_dtype a, sluice_dtype b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

constexpr bool is_float(sluice_dtype d) {
  return same(d, dtype_of<float>) || same(d, dtype_of<double>) || same(d, dtype_of<float16>) ||
         same(d, dtype_of<bfloat16>);
}
constexpr bool is_index(sluice_dtype d) { return same(d, dtype_of<int32_t>) || same(d, dtype_of<int64_t>); }
// One byte whose zero is false: bool, uint8, int8.
constexpr bool is_flag(sluice_dtype d) {
  return d.lanes == 1 && d.bits == 8 && (d.code == kind_bool || d.code == kind_uint || d.code == kind_int);
}

constexpr int64_t bytes_of(sluice_dtype d) { return d.bits / 8; }

// What an error text calls a dtype: "float32", "bfloat16", "dtype(7,9,1)".
struct dtype_name {
  char text[32];
  explicit dtype_name(sluice_dtype d) {
    const char *kind = d.code == kind_int       ? "int"
                       : d.code == kind_uint    ? "uint"
                       : d.code == kind_float   ? "float"
                       : d.code == kind_bfloat  ? "bfloat"
                       : d.code == kind_complex ? "complex"
                                                : nullptr;
    if (d.code == kind_bool && d.bits == 8 && d.lanes == 1)
      std::snprintf(text, sizeof text, "bool");
    else if (kind && d.lanes == 1)
      std::snprintf(text, sizeof text, "%s%d", kind, d.bits);
    else
      std::snprintf(text, sizeof text, "dtype(%d,%d,%d)", d.code, d.bits, d.lanes);
  }
};

// Calls f<T>() for the one T of the list whose dtype is d. make_plan() has refused every other dtype by then.
template <typename... Ts, typename F>
result<void> with_dtype(sluice_dtype d, F &&f) {
  result<void> r = fail(SLUICE_INTERNAL, "dtype %s has no code", dtype_name(d).text);
  (void)((same(d, dtype_of<Ts>) && (r = f.template operator()<Ts>(), true)) || ...);
  return r;
}

// Scalar conversions, exact upward and round-to-nearest-even downward; SIMD code converts rows by itself.
inline float to_float(float v) { return v; }
inline double to_float(double v) { return v; }
inline float to_float(bfloat16 v) { return std::bit_cast<float>(uint32_t(v.bits) << 16); }
inline float to_float(float16 v) {
  uint32_t sign = uint32_t(v.bits & 0x8000u) << 16, magnitude = v.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // Scaling by 2^112 moves the exponent's bias and makes subnormals normal, exactly.
  float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

template <typename T>
T from_double(double v);
template <>
inline double from_double<double>(double v) {
  return v;
}
template <>
inline float from_double<float>(double v) {
  return float(v);
}

// A double rounded once to `digits` significand bits with exponents from `lowest` on, as integer arithmetic
// on its own bits: going through float would round twice.
template <>
inline bfloat16 from_double<bfloat16>(double v) {
  float f = float(v);
  // Round to odd: a double between two floats must not become a tie of the second rounding.
  if (double(f) != v && v == v && std::bit_cast<uint32_t>(f) % 2 == 0) {
    bool away = (double(f) > v) == (v > 0); // |f| > |v|
    f = std::bit_cast<float>(std::bit_cast<uint32_t>(f) + (away ? -1u : 1u));
  }
  uint32_t b = std::bit_cast<uint32_t>(f);
  if ((b & 0x7fffffffu) > 0x7f800000u) return {uint16_t(b >> 16 | 0x40u)};
  return {uint16_t((b + 0x7fffu + (b >> 16 & 1u)) >> 16)};
}
template <>
inline float16 from_double<float16>(double v) {
  uint64_t b = std::bit_cast<uint64_t>(v);
  uint16_t sign = uint16_t(b >> 48 & 0x8000u);
  double a = std::bit_cast<double>(b & ~(uint64_t(1) << 63));
  if (a != a) return {uint16_t(sign | 0x7e00u)};
  if (a >= 65520.0) return {uint16_t(sign | 0x7c00u)};
  // Adding a power of two 42 binades up leaves exactly the bits that the half keeps, rounded by the addition
  // itself.
  double magic = a < 0x1p-14 ? 0x1p28
                             : std::bit_cast<double>((std::bit_cast<uint64_t>(a) & (uint64_t(0x7ff) << 52)) +
                                                     (uint64_t(42) << 52));
  double rounded = (a + magic) - magic;
  if (rounded < 0x1p-14) return {uint16_t(sign | uint16_t(rounded * 0x1p24))};
  uint64_t r = std::bit_cast<uint64_t>(rounded);
  return {uint16_t(sign | uint16_t(((r >> 52) - 1008) << 10 | (r >> 42 & 0x3ffu)))};
}

} // namespace sluice
