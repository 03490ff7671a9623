// simd-inl.hpp: rows of 16-bit, 32-bit and 64-bit floats as vectors of float or double, and the exponential
// that softmax is made of. Compiled once for each instruction set (Highway's foreach_target); knows no op.
#if defined(SLUICE_CPU_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_CPU_SIMD_INL
#undef SLUICE_CPU_SIMD_INL
#else
#define SLUICE_CPU_SIMD_INL
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <bit>
#include <cstdint>

#include "core/dtype.hpp"

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename C>
using full = hn::ScalableTag<C>;

// Conversions of halves by the processor itself (F16C) come with AVX2.
#undef SLUICE_HAS_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define SLUICE_HAS_F16C 1
#else
#define SLUICE_HAS_F16C 0
#endif

// ---- loads: any float type to D's, exactly
// ------------------------------------------------------------------------

template <class D>
  requires(sizeof(hn::TFromD<D>) == 4)
HWY_INLINE hn::Vec<D> load(D d, const float *p) {
  return hn::LoadU(d, p);
}
template <class D>
  requires(sizeof(hn::TFromD<D>) == 4)
HWY_INLINE hn::Vec<D> load(D d, const bfloat16 *p) {
  const hn::Rebind<uint16_t, D> narrow;
  const hn::Rebind<uint32_t, D> wide;
  return hn::BitCast(
      d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const uint16_t *>(p)))));
}
template <class D>
  requires(sizeof(hn::TFromD<D>) == 4)
HWY_INLINE hn::Vec<D> load(D d, const float16 *p) {
#if SLUICE_HAS_F16C
  const hn::Rebind<hwy::float16_t, D> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t *>(p)));
#else
  const hn::Rebind<uint16_t, D> narrow;
  const hn::Rebind<uint32_t, D> wide;
  auto bits = hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const uint16_t *>(p)));
  auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(wide, 0x7fffu)));
  auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(wide, 0x8000u)));
  // 2^112 moves the exponent's bias and makes subnormals normal, exactly; infinities and NaN are left with
  // 255.
  auto scaled = hn::BitCast(wide, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f)));
  auto special =
      hn::Gt(hn::BitCast(hn::Rebind<int32_t, D>(), magnitude), hn::Set(hn::Rebind<int32_t, D>(), 0x0f7fffff));
  auto value =
      hn::IfThenElse(hn::RebindMask(wide, special), hn::Or(magnitude, hn::Set(wide, 0x7f800000u)), scaled);
  return hn::BitCast(d, hn::Or(value, sign));
#endif
}
template <class D>
  requires(sizeof(hn::TFromD<D>) == 8)
HWY_INLINE hn::Vec<D> load(D d, const double *p) {
  return hn::LoadU(d, p);
}
template <class D, typename T>
  requires(sizeof(hn::TFromD<D>) == 8)
HWY_INLINE hn::Vec<D> load(D d, const T *p) {
  return hn::PromoteTo(d, load(hn::Rebind<float, D>(), p));
}

// ---- stores: round to nearest even
// ----------------------------------------------------------------------------------

template <class D>
  requires(sizeof(hn::TFromD<D>) == 4)
HWY_INLINE hn::Vec<D> narrowed(D, hn::Vec<D> v, const float *) {
  return v;
}
// The upper half of each lane is v as bfloat16; not for NaN, some of which the addition carries into infinity or
// zero.
template <class D>
  requires(sizeof(hn::TFromD<D>) == 4)
HWY_INLINE hn::Vec<hn::Rebind<int32_t, D>> rounded_to_upper_half(D, hn::Vec<D> v) {
  const hn::Rebind<int32_t, D> wide;
  const auto bits = hn::BitCast(wide, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1));
  return hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7fff)));
}
template <class D>
  requires(sizeof(hn::TFromD<D>) == 4)
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> narrowed(D d, hn::Vec<D> v, const bfloat16 *) {
  const hn::Rebind<uint16_t, D> narrow;
  const hn::Rebind<int32_t, D> wide;
  const auto nan = hn::Or(hn::BitCast(wide, v), hn::Set(wide, 0x400000));
  const auto rounded = hn::IfThenElse(hn::RebindMask(wide, hn::IsNaN(v)), nan, rounded_to_upper_half(d, v));
  return hn::DemoteTo(narrow,
                      hn::BitCast(wide, hn::ShiftRight<16>(hn::BitCast(hn::Rebind<uint32_t, D>(), rounded))));
}
#if SLUICE_HAS_F16C
template <class D>
  requires(sizeof(hn::TFromD<D>) == 4)
HWY_INLINE hn::Vec<hn::Rebind<hwy::float16_t, D>> narrowed(D, hn::Vec<D> v, const float16 *) {
  return hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v);
}
#else
template <class D>
  requires(sizeof(hn::TFromD<D>) == 4)
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> narrowed(D d, hn::Vec<D> v, const float16 *) {
  const hn::Rebind<uint16_t, D> narrow;
  const hn::Rebind<int32_t, D> wide;
  auto sign =
      hn::And(hn::BitCast(hn::Rebind<uint32_t, D>(), v), hn::Set(hn::Rebind<uint32_t, D>(), 0x80000000u));
  auto a = hn::Abs(v);
  auto bits = hn::BitCast(wide, a);
  // 0.5's last bit is 2^-24, a half's smallest step: the addition rounds subnormals.
  auto tiny = hn::Sub(hn::BitCast(wide, hn::Add(a, hn::Set(d, 0.5f))), hn::Set(wide, 0x3f000000));
  auto odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(wide, 1));
  auto normal = hn::ShiftRight<13>(
      hn::Sub(hn::Add(bits, hn::Add(odd, hn::Set(wide, 0xfff))), hn::Set(wide, 112 << 23)));
  auto half = hn::IfThenElse(hn::RebindMask(wide, hn::Lt(a, hn::Set(d, 0x1p-14f))), tiny, normal);
  half = hn::IfThenElse(hn::RebindMask(wide, hn::Ge(a, hn::Set(d, 65520.0f))), hn::Set(wide, 0x7c00), half);
  half = hn::IfThenElse(hn::RebindMask(wide, hn::IsNaN(v)), hn::Set(wide, 0x7e00), half);
  half = hn::Or(half, hn::BitCast(wide, hn::ShiftRight<16>(sign)));
  return hn::DemoteTo(narrow, half);
}
#endif
template <class D>
  requires(sizeof(hn::TFromD<D>) == 8)
HWY_INLINE hn::Vec<D> narrowed(D, hn::Vec<D> v, const double *) {
  return v;
}
// Without SSE4, Highway's DemoteTo makes the largest float of whatever is larger, even of infinity.
template <class D>
  requires(sizeof(hn::TFromD<D>) == 8)
HWY_INLINE hn::Vec<hn::Rebind<float, D>> narrowed(D, hn::Vec<D> v, const float *) {
  const hn::Rebind<float, D> single;
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  alignas(16) double wide[hn::MaxLanes(D())];
  alignas(16) float lanes[hn::MaxLanes(D())];
  hn::Store(v, D(), wide);
  for (size_t i = 0; i < hn::MaxLanes(D()); ++i) lanes[i] = float(wide[i]);
  return hn::Load(single, lanes);
#else
  return hn::DemoteTo(single, v);
#endif
}
// Twice rounded to nearest, a double just beside a tie of the 16-bit type would land on the tie. So what a float
// cannot hold is folded into its last bit first: then the step to float is exact and the other one knows.
template <class D, typename T>
  requires(sizeof(hn::TFromD<D>) == 8 && sizeof(T) == 2)
HWY_INLINE auto narrowed(D d, hn::Vec<D> v, const T *p) {
  const hn::Rebind<int64_t, D> di;
  const auto bits = hn::BitCast(di, v), below = hn::Set(di, (int64_t(1) << 29) - 1);
  const auto exact = hn::Eq(hn::And(bits, below), hn::Zero(di));
  const auto folded =
      hn::Or(hn::AndNot(below, bits), hn::IfThenZeroElse(exact, hn::Set(di, int64_t(1) << 29)));
  const auto single = narrowed(d, hn::BitCast(d, folded), static_cast<const float *>(nullptr));
  return narrowed(hn::Rebind<float, D>(), single, p);
}

template <class D, typename T>
HWY_INLINE void store(D d, hn::Vec<D> v, T *p) {
  auto n = narrowed(d, v, p);
  hn::StoreU(n, hn::DFromV<decltype(n)>(), reinterpret_cast<hn::TFromV<decltype(n)> *>(p));
}
// Past the caches. p is aligned to the vector as stored. Below 16 bytes Highway would store 16 all the same.
template <class D, typename T>
HWY_INLINE void stream(D d, hn::Vec<D> v, T *p) {
  auto n = narrowed(d, v, p);
  const hn::DFromV<decltype(n)> narrow;
  auto *to = reinterpret_cast<hn::TFromV<decltype(n)> *>(p);
  if constexpr (hn::MaxLanes(d) * sizeof(T) < 16)
    hn::StoreU(n, narrow, to);
  else
    hn::Stream(n, narrow, to);
}

// Two vectors that follow each other, free of NaN: as one piece of memory where the narrow type leaves half of
// each empty, which spares packing and storing them one by one.
#if HWY_TARGET != HWY_SCALAR
template <class D, typename T>
  requires(sizeof(hn::TFromD<D>) == 2 * sizeof(T))
HWY_INLINE auto narrowed_pair(D d, hn::Vec<D> low, hn::Vec<D> high, const T *p) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    const hn::Repartition<uint16_t, D> narrow;
    return hn::ConcatOdd(narrow, hn::BitCast(narrow, rounded_to_upper_half(d, high)),
                         hn::BitCast(narrow, rounded_to_upper_half(d, low)));
  } else {
    const auto a = narrowed(d, low, p), b = narrowed(d, high, p);
    return hn::Combine(hn::Twice<hn::DFromV<decltype(a)>>(), b, a);
  }
}
#endif
template <bool past_caches, class D, typename T>
HWY_INLINE void put_pair(D d, hn::Vec<D> low, hn::Vec<D> high, T *p) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(hn::TFromD<D>) == 2 * sizeof(T)) {
    const auto n = narrowed_pair(d, low, high, p);
    const hn::DFromV<decltype(n)> narrow;
    auto *to = reinterpret_cast<hn::TFromV<decltype(n)> *>(p);
    return past_caches ? hn::Stream(n, narrow, to) : hn::StoreU(n, narrow, to);
  }
#endif
  if constexpr (past_caches)
    stream(d, low, p), stream(d, high, p + hn::MaxLanes(d));
  else
    store(d, low, p), store(d, high, p + hn::MaxLanes(d));
}

// ---- parts of a vector: lanes [0, count), 0 < count < Lanes(d); memory behind them is not touched
// ----------------------

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
#define SLUICE_MASKS_MEMORY(T) true
#else
#define SLUICE_MASKS_MEMORY(T) false  // Highway may read or write whole vectors there
#endif

// The lanes behind hold anything finite.
template <class D, typename T>
HWY_INLINE hn::Vec<D> load_first(D d, const T *p, size_t count) {
  if constexpr (SLUICE_MASKS_MEMORY(T) && sizeof(T) == sizeof(hn::TFromD<D>)) {
    return hn::MaskedLoad(hn::FirstN(d, count), d, reinterpret_cast<const hn::TFromD<D> *>(p));
  } else {
    alignas(64) T copy[16] = {};
    for (size_t i = 0; i < count; ++i) copy[i] = p[i];
    return load(d, copy);
  }
}
template <class D, typename T>
HWY_INLINE void store_first(D d, hn::Vec<D> v, T *p, size_t count) {
  if constexpr (SLUICE_MASKS_MEMORY(T) && sizeof(T) == sizeof(hn::TFromD<D>)) {
    hn::BlendedStore(v, hn::FirstN(d, count), d, reinterpret_cast<hn::TFromD<D> *>(p));
  } else {
    alignas(64) T copy[16] = {};
    store(d, v, copy);
    for (size_t i = 0; i < count; ++i) p[i] = copy[i];
  }
}
#undef SLUICE_MASKS_MEMORY

// ---- across lanes
// ------------------------------------------------------------------------------------------------------

// Highway's MaxOfLanes makes the lowest finite number of -inf alone on its emulated vectors.
template <class D>
HWY_INLINE hn::TFromD<D> largest_lane(D, hn::Vec<D> v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    return largest_lane(half, hn::Max(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
#endif
  return hn::GetLane(v);
}

// ---- e^x for x <= 0
// ----------------------------------------------------------------------------------------------------

// Highway's own Exp answers 0 for NaN, and a NaN must reach the sum; for x <= 0 fewer steps do. x = q ln2 +
// r, |r| <= ln2 / 2; ln2 in two parts, the first short enough that q times it is exact. Below 1 ulp in both
// types.
template <typename C>
struct exp_numbers;
template <>
struct exp_numbers<float> {
  static constexpr float normal = -87.0f;    // e^-87 is the last integer power that is a normal number
  static constexpr float lowest = -104.0f;   // e^-104 rounds to 0
  static constexpr float magic = 0x1.8p23f;  // adding it rounds to an integer, which its low bits then hold
  static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  // Minimax of the relative error on the interval with the first two fixed at 1: 2^-28.2.
  static constexpr float c[] = {
      0x1.6a4ce4p-10f, 0x1.123988p-7f, 0x1.5558bp-5f, 0x1.555492p-3f, 0x1.fffffcp-2f, 1, 1};
  static constexpr int mantissa_bits = 23, bias = 127;
  static constexpr bool of_2 = false;
};
// Enough for 16-bit results, in fewer steps: 2^r on [-1/2, 1/2] needs no ln2 in parts. Minimax with the last one
// fixed at 1: 2^-23.1.
struct coarse_exp_numbers : exp_numbers<float> {
  static constexpr float c[] = {0x1.5bba14p-10f, 0x1.3cea88p-7f, 0x1.c6b752p-5f,
                                0x1.ebf9bcp-3f,  0x1.62e42ap-1f, 1};
  static constexpr bool of_2 = true;
};
template <>
struct exp_numbers<double> {
  static constexpr double normal = -708.0;
  static constexpr double lowest = -746.0;
  static constexpr double magic = 0x1.8p52;
  static constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
  // Taylor's: the first term left out is 2^-57 of the result.
  static constexpr double c[] = {
      1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
      1.0 / 720,        1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1,           1};
  static constexpr int mantissa_bits = 52, bias = 1023;
  static constexpr bool of_2 = false;
};

// x = q ln2 + r: e^r, and q as the low bits of `shifted`.
template <class D>
struct reduced_exp {
  hn::Vec<D> p, shifted;
};
template <class k, class D, class... Lost>
HWY_INLINE reduced_exp<D> exp_reduced(D d, hn::Vec<D> x, Lost... lost) {
  using C = hn::TFromD<D>;
  const auto log2_e = hn::Set(d, C(1.44269504088896340736));
  const auto shifted = hn::MulAdd(x, log2_e, hn::Set(d, k::magic));
  const auto q = hn::Sub(shifted, hn::Set(d, k::magic));
  auto r = k::of_2 ? hn::MulSub(x, log2_e, q) : hn::NegMulAdd(q, hn::Set(d, k::ln2_high), x);
  if constexpr (!k::of_2) r = hn::NegMulAdd(q, hn::Set(d, k::ln2_low), r);
  ((r = hn::Add(r, lost)), ...);
  auto p = hn::Set(d, k::c[0]);
  for (size_t i = 1; i < sizeof k::c / sizeof k::c[0]; ++i) p = hn::MulAdd(p, r, hn::Set(d, k::c[i]));
  return {p, shifted};
}

// Whether some lane's result is subnormal or 0.
template <class D>
HWY_INLINE bool far_below(D d, hn::Vec<D> x) {
  return !hn::AllFalse(d, hn::Lt(x, hn::Set(d, exp_numbers<hn::TFromD<D>>::normal)));
}

// Where that is so. Kept apart: a product that comes out subnormal costs the processor a hundred times an
// ordinary one, so only lanes that need it may make one.
template <class k, class D>
HWY_NOINLINE void exp_far_below(D d, hn::TFromD<D> *lanes, const hn::TFromD<D> *lost_lanes) {
  using I = hwy::MakeSigned<hn::TFromD<D>>;
  const hn::Rebind<I, D> di;
  const auto x = hn::Load(d, lanes);
  const auto gone = hn::Lt(x, hn::Set(d, k::lowest));
  // Lanes that end as 0 count from 0, where nothing can go wrong; -inf may have lost NaN.
  const auto safe = hn::IfThenZeroElse(gone, x);
  const auto e = exp_reduced<k>(d, safe, hn::IfThenZeroElse(gone, hn::Load(d, lost_lanes)));
  // 2^q in two factors, since q alone may leave the exponent's range: only the last product can round.
  const auto whole = hn::Sub(hn::BitCast(di, e.shifted), hn::Set(di, std::bit_cast<I>(k::magic)));
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(di, I(k::bias));
  const auto first = hn::BitCast(d, hn::ShiftLeft<k::mantissa_bits>(hn::Add(half, bias)));
  const auto second = hn::BitCast(d, hn::ShiftLeft<k::mantissa_bits>(hn::Add(hn::Sub(whole, half), bias)));
  hn::Store(hn::IfThenZeroElse(gone, hn::Mul(hn::Mul(e.p, first), second)), d, lanes);
}

// e^(x + lost) for x <= 0 that is not far below, |lost| below half an ulp of x. NaN for NaN.
template <class k, class D, class... Lost>
HWY_INLINE hn::Vec<D> exp_near(D d, hn::Vec<D> x, Lost... lost) {
  const hn::Rebind<hwy::MakeSigned<hn::TFromD<D>>, D> di;
  const auto e = exp_reduced<k>(d, x, lost...);
  // The low bits of `shifted`, moved to the exponent's place, are q there and nothing else.
  const auto exponent = hn::ShiftLeft<k::mantissa_bits>(hn::BitCast(di, e.shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, e.p), exponent));
}

// e^(x + lost) for x <= 0. 0 for -inf; subnormal results are rounded once.
template <class k, class D, class... Lost>
HWY_INLINE hn::Vec<D> exp_below_by(D d, hn::Vec<D> x, Lost... lost) {
  if (HWY_LIKELY(!far_below(d, x))) return exp_near<k>(d, x, lost...);
  if (hn::AllTrue(d, hn::Lt(x, hn::Set(d, k::lowest)))) return hn::Zero(d);
  alignas(64) hn::TFromD<D> lanes[16], lost_lanes[16] = {};
  hn::Store(x, d, lanes);
  (hn::Store(lost, d, lost_lanes), ...);
  exp_far_below<k>(d, lanes, lost_lanes);
  return hn::Load(d, lanes);
}
template <class D>
HWY_INLINE hn::Vec<D> exp_below(D d, hn::Vec<D> x) {
  return exp_below_by<exp_numbers<hn::TFromD<D>>>(d, x);
}

// (v - m) rounded, and what the rounding lost: v - m = d + lost exactly (Knuth's two-sum).
template <class D>
HWY_INLINE hn::Vec<D> difference_error(D, hn::Vec<D> v, hn::Vec<D> m, hn::Vec<D> d) {
  const auto back = hn::Sub(d, v);
  return hn::Sub(hn::Sub(v, hn::Sub(d, back)), hn::Add(m, back));
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#endif
