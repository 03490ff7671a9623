// sweep-inl.hpp: the two loops of softmax. sweep() reads a chunk into its (maximum, sum); emit() writes what became of
// it. Compiled once for each instruction set.
//
// The order of additions is the same for every vector length, stride and thread: element j belongs to lane j mod 16;
// four elements of a lane that stand 16 apart are added as (a + b) + (c + d), and such sums are added up in double.
#if defined(SLUICE_SOFTMAX_SWEEP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SOFTMAX_SWEEP_INL
#undef SLUICE_SOFTMAX_SWEEP_INL
#else
#define SLUICE_SOFTMAX_SWEEP_INL
#endif

#include <hwy/highway.h>

#include <cstring>

#include "ops/softmax/row-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace sluice::softmax {
namespace HWY_NAMESPACE {

inline constexpr int64_t block = 64;

// Sixteen lanes of vectors of C.
template <typename C>
struct sixteen {
  static constexpr int lanes = int(hn::MaxLanes(simd::full<C>()));
  static constexpr int vectors = 16 / lanes;       // of 16 elements
  static constexpr int all = 4 * vectors;          // of a block
};

// A fixed tree over the lanes.
inline double add_lanes(const double *lane) {
  double four[4];
  for (int i = 0; i < 4; ++i) four[i] = (lane[i] + lane[i + 8]) + (lane[i + 4] + lane[i + 12]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

template <typename C>
class block_sum;

// fp32: two roundings in fp32, the rest in fp64.
template <>
class block_sum<float> {
 public:
  HWY_INLINE void add(const hn::Vec<simd::full<float>> *e) {
    const simd::full<double> dd;
    constexpr int v = sixteen<float>::vectors;
    for (int k = 0; k < v; ++k) {
      const auto t = hn::Add(hn::Add(e[k], e[v + k]), hn::Add(e[2 * v + k], e[3 * v + k]));
#if HWY_TARGET == HWY_SCALAR
      sum[k] = hn::Add(sum[k], hn::PromoteTo(dd, t));
#else
      const hn::Half<simd::full<float>> half;
      sum[2 * k] = hn::Add(sum[2 * k], hn::PromoteTo(dd, hn::LowerHalf(half, t)));
      sum[2 * k + 1] = hn::Add(sum[2 * k + 1], hn::PromoteTo(dd, hn::UpperHalf(half, t)));
#endif
    }
  }
  HWY_INLINE double total() const {
    const simd::full<double> dd;
    alignas(64) double lane[16];
    for (int k = 0; k < sixteen<double>::vectors; ++k) hn::Store(sum[k], dd, lane + k * sixteen<double>::lanes);
    return add_lanes(lane);
  }
  HWY_INLINE block_sum() {
    for (auto &s : sum) s = hn::Zero(simd::full<double>());
  }

 private:
  hn::Vec<simd::full<double>> sum[sixteen<double>::vectors];
};

// fp64: each lane carries what its additions lost.
template <>
class block_sum<double> {
 public:
  HWY_INLINE void add(const hn::Vec<simd::full<double>> *e) {
    constexpr int v = sixteen<double>::vectors;
    for (int k = 0; k < v; ++k) {
      const auto t = hn::Add(hn::Add(e[k], e[v + k]), hn::Add(e[2 * v + k], e[3 * v + k]));
      const auto s = hn::Add(sum[k], t);
      const auto back = hn::Sub(s, sum[k]);
      lost[k] = hn::Add(lost[k], hn::Add(hn::Sub(sum[k], hn::Sub(s, back)), hn::Sub(t, back)));
      sum[k] = s;
    }
  }
  HWY_INLINE double total() const {
    const simd::full<double> d;
    alignas(64) double lane[16];
    for (int k = 0; k < sixteen<double>::vectors; ++k)
      hn::Store(hn::Add(sum[k], lost[k]), d, lane + k * sixteen<double>::lanes);
    return add_lanes(lane);
  }
  HWY_INLINE block_sum() {
    for (auto &s : sum) s = hn::Zero(simd::full<double>());
    for (auto &l : lost) l = hn::Zero(simd::full<double>());
  }

 private:
  hn::Vec<simd::full<double>> sum[sixteen<double>::vectors], lost[sixteen<double>::vectors];
};

// A T that scale turns into -inf, for the places behind a row's end.
template <typename T>
T nothing(bool negative_scale) {
  return from_double<T>(negative_scale ? std::numeric_limits<double>::infinity() : lowest<double>);
}

// The block at v: itself, or where fewer than 64 are left a padded copy.
template <typename T>
HWY_INLINE const T *whole_block(const T *v, int64_t left, T *copy, bool negative_scale) {
  if (left >= block) return v;
  for (int64_t i = left; i < block; ++i) copy[i] = nothing<T>(negative_scale);
  std::memcpy(copy, v, size_t(left) * sizeof(T));
  return copy;
}

// e^(v - m); exactly: with what the subtraction lost.
template <bool high, class D>
HWY_INLINE hn::Vec<D> exp_of(D d, hn::Vec<D> v, hn::Vec<D> m) {
  const auto difference = hn::Sub(v, m);
  const auto e = simd::exp_below(d, difference);
  if constexpr (!high) return e;
  const auto more = hn::MulAdd(e, simd::difference_error(d, v, m, difference), e);
  // Far below, e is 0 and what was lost may be NaN (from an infinity).
  using C = hn::TFromD<D>;
  return hn::IfThenElse(hn::Gt(difference, hn::Set(d, simd::exp_numbers<C>::lowest)), more, e);
}

template <typename T>
HWY_INLINE void prefetch(const T *soon) {
  for (size_t b = 0; b < block * sizeof(T); b += 64) hwy::Prefetch(reinterpret_cast<const char *>(soon) + b);
}

// (maximum, sum) of scale * v[0, n), n <= chunk. `soon`: what is read next, to be on its way by then; or nullptr.
template <typename C, bool high, typename T>
pair sweep(const T *v, int64_t n, C scale, const T *soon) {
  const simd::full<C> d;
  constexpr int lanes = sixteen<C>::lanes, all = sixteen<C>::all;
  const auto factor = hn::Set(d, scale);
  T copy[block];
  bool negative = scale < 0;

  hn::Vec<simd::full<C>> most[4];
  for (auto &m : most) m = hn::Set(d, lowest<C>);
  for (int64_t i = 0; i < n; i += block) {
    const T *from = whole_block(v + i, n - i, copy, negative);
    for (int k = 0; k < all; ++k) most[k % 4] = hn::Max(most[k % 4], hn::Mul(simd::load(d, from + k * lanes), factor));
  }
  // Adding 0 makes -0 and +0, which a maximum may confuse, the same.
  const C m = hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3])))) + C(0);

  // Nothing but -inf: against 0 every term is 0, where -inf - -inf would be NaN.
  const auto base = hn::Set(d, m == lowest<C> ? C(0) : m);
  block_sum<C> sum;
  for (int64_t i = 0; i < n; i += block) {
    const T *from = whole_block(v + i, n - i, copy, negative);
    if (soon) prefetch(soon + i);
    hn::Vec<simd::full<C>> e[all];
    for (int k = 0; k < all; ++k) e[k] = exp_of<high>(d, hn::Mul(simd::load(d, from + k * lanes), factor), base);
    sum.add(e);
  }
  return {double(m), sum.total()};
}

// What emit() does with e^(v - m).
enum class form { probability, careful_probability, log };

template <typename C, form f>
struct finisher {
  const simd::full<C> d;
  const hn::Vec<simd::full<C>> factor, m, last;  // scale; maximum; 1 / s, or s in double, or ln s

  finisher(C scale, const total &t)
      : factor(hn::Set(d, scale)),
        m(hn::Set(d, C(t.m))),
        last(hn::Set(d, C(f == form::log ? t.log_s : sizeof(C) == 8 ? t.s : t.inverse))) {}

  HWY_INLINE auto operator()(hn::Vec<simd::full<C>> x) const {
    const auto v = hn::Mul(x, factor);
    if constexpr (f == form::log)
      return hn::Sub(hn::Sub(v, m), last);
    else if constexpr (sizeof(C) == 8)
      return hn::Div(exp_of<false>(d, v, m), last);
    else
      return hn::Mul(exp_of<f == form::careful_probability>(d, v, m), last);
  }
};

// y[0, n) from v[0, n); y may be v. past_caches: y is not read soon.
template <typename C, form f, typename T, typename Out>
void emit(const T *v, int64_t n, C scale, const total &t, Out *y, bool past_caches, const T *soon) {
  const simd::full<C> d;
  constexpr int lanes = sixteen<C>::lanes, all = sixteen<C>::all;
  const finisher<C, f> finish(scale, t);
  T copy[block];
  Out done[block];

  // Through padded copies: the ends, and up to where y stands on a line of the cache if it goes past it.
  auto partly = [&](int64_t i, int64_t count) HWY_ATTR {
    const T *from = whole_block(v + i, count, copy, false);
    for (int k = 0; k < all; ++k) simd::store(d, finish(simd::load(d, from + k * lanes)), done + k * lanes);
    std::memcpy(y + i, done, size_t(count) * sizeof(Out));
  };
  int64_t i = 0;
  if (past_caches && reinterpret_cast<uintptr_t>(y) % 64 != 0) {
    i = std::min(n, int64_t((64 - reinterpret_cast<uintptr_t>(y) % 64) / sizeof(Out)));
    partly(0, i);
  }
  for (; i + block <= n; i += block) {
    if (soon) prefetch(soon + i);
    for (int k = 0; k < all; ++k) {
      const auto r = finish(simd::load(d, v + i + k * lanes));
      if (past_caches)
        simd::stream(d, r, y + i + k * lanes);
      else
        simd::store(d, r, y + i + k * lanes);
    }
  }
  if (i < n) partly(i, n - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::softmax
HWY_AFTER_NAMESPACE();

#endif
