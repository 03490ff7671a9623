// sweep-inl.hpp: the loops of softmax. sweep() reads a chunk into its (maximum, sum) and leaves e^(v - m)
// behind; emit_scaled() and emit_log() write y. Compiled once for each instruction set.
//
// The order of additions is the same for every vector length, stride and thread: element j belongs to lane j
// mod 16; four elements of a lane that stand 16 apart are added as (a + b) + (c + d), and such sums are added
// up in double.
#if defined(SLUICE_SOFTMAX_SWEEP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SOFTMAX_SWEEP_INL
#undef SLUICE_SOFTMAX_SWEEP_INL
#else
#define SLUICE_SOFTMAX_SWEEP_INL
#endif

#include <hwy/highway.h>

#include "ops/softmax/row-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace sluice::softmax {
namespace HWY_NAMESPACE {

inline constexpr int64_t block = 64;

// Sixteen lanes of vectors of C.
template <typename C>
struct sixteen {
  static constexpr int lanes = int(hn::MaxLanes(simd::full<C>()));
  static constexpr int vectors = 16 / lanes; // of 16 elements
  static constexpr int all = 4 * vectors; // of a block
};

// A fixed tree over the lanes.
inline double add_lanes(const double *lane) {
  double four[4];
  for (int i = 0; i < 4; ++i) four[i] = (lane[i] + lane[i + 8]) + (lane[i + 4] + lane[i + 12]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

template <typename F>
HWY_INLINE auto add_lane_vectors(F &&lane) {
  auto four = [&](int i) HWY_ATTR {
    return hn::Add(hn::Add(lane(i), lane(i + 8)), hn::Add(lane(i + 4), lane(i + 12)));
  };
  return hn::Add(hn::Add(four(0), four(2)), hn::Add(four(1), four(3)));
}

// sum += t, and what the addition lost to `lost`.
HWY_INLINE void add_exactly(hn::Vec<simd::full<double>> &sum, hn::Vec<simd::full<double>> &lost,
                            hn::Vec<simd::full<double>> t) {
  const auto s = hn::Add(sum, t), back = hn::Sub(s, sum);
  lost = hn::Add(lost, hn::Add(hn::Sub(sum, hn::Sub(s, back)), hn::Sub(t, back)));
  sum = s;
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
    for (int k = 0; k < sixteen<double>::vectors; ++k)
      hn::Store(sum[k], dd, lane + k * sixteen<double>::lanes);
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
      add_exactly(sum[k], lost[k], t);
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

// The same sums for rows that are lanes: each row has its sixteen, a vector of them side by side.
template <typename C>
class lane_sums;

template <>
class lane_sums<float> {
 public:
  HWY_INLINE lane_sums() {
    for (auto &s : sum) s = hn::Zero(simd::full<double>());
  }
  HWY_INLINE void add(int lane, hn::Vec<simd::full<float>> t) {
    const simd::full<double> dd;
#if HWY_TARGET == HWY_SCALAR
    sum[lane] = hn::Add(sum[lane], hn::PromoteTo(dd, t));
#else
    const hn::Half<simd::full<float>> half;
    sum[2 * lane] = hn::Add(sum[2 * lane], hn::PromoteTo(dd, hn::LowerHalf(half, t)));
    sum[2 * lane + 1] = hn::Add(sum[2 * lane + 1], hn::PromoteTo(dd, hn::UpperHalf(half, t)));
#endif
  }
  HWY_INLINE void total(double *out) const {
    for (int part = 0; part < parts; ++part)
      hn::StoreU(add_lane_vectors([&](int l) HWY_ATTR { return sum[parts * l + part]; }),
                 simd::full<double>(), out + part * sixteen<double>::lanes);
  }

 private:
  static constexpr int parts = sixteen<float>::lanes / sixteen<double>::lanes;
  hn::Vec<simd::full<double>> sum[16 * parts];
};

template <>
class lane_sums<double> {
 public:
  HWY_INLINE lane_sums() {
    for (auto &s : sum) s = hn::Zero(simd::full<double>());
    for (auto &l : lost) l = hn::Zero(simd::full<double>());
  }
  HWY_INLINE void add(int lane, hn::Vec<simd::full<double>> t) { add_exactly(sum[lane], lost[lane], t); }
  HWY_INLINE void total(double *out) const {
    hn::StoreU(add_lane_vectors([&](int l) HWY_ATTR { return hn::Add(sum[l], lost[l]); }),
               simd::full<double>(), out);
  }

 private:
  hn::Vec<simd::full<double>> sum[16], lost[16];
};

// e^(v - m); careful: with what the subtraction lost.
template <bool careful, class D>
HWY_INLINE hn::Vec<D> exp_of(D d, hn::Vec<D> v, hn::Vec<D> m) {
  const auto difference = hn::Sub(v, m);
  if constexpr (careful) return simd::exp_below(d, difference, simd::difference_error(d, v, m, difference));
  return simd::exp_below(d, difference);
}

// What is read after this piece, so that it is on its way by then. Into the second-level cache: the first has
// no room for two rows and their exponentials.
struct ahead {
  const char *at = nullptr; // nullptr: nothing
  int64_t element = 0; // bytes
  HWY_INLINE void block_at(int64_t i) const {
    if (!at) return;
    for (int64_t b = 0; b < block * element; b += 64) __builtin_prefetch(at + i * element + b, 0, 2);
  }
};

// How v comes from memory: as it is, or times a factor.
template <typename C, bool scales>
struct reader {
  const simd::full<C> d;
  const hn::Vec<simd::full<C>> factor;
  explicit reader(C scale) : factor(hn::Set(simd::full<C>(), scale)) {}

  template <typename T>
  HWY_INLINE auto operator()(const T *v) const {
    if constexpr (scales) return hn::Mul(simd::load(d, v), factor);
    return simd::load(d, v);
  }
  // -inf in place of what lies at or beyond `left` > 0.
  template <typename T>
  HWY_INLINE auto operator()(const T *v, int64_t left) const {
    if (left >= sixteen<C>::lanes) return (*this)(v);
    auto some = simd::load_first(d, v, size_t(left));
    if constexpr (scales) some = hn::Mul(some, factor);
    return hn::IfThenElse(hn::FirstN(d, size_t(left)), some, hn::Set(d, lowest<C>));
  }
};

// (maximum, sum of e^(v - maximum)) of scale * v[0, n), n <= chunk, and the terms into e, which has room for
// whole blocks and may be v; nullptr: not kept.
template <typename C, bool careful, bool scales, typename T>
pair sweep(const T *v, int64_t n, C scale, C *e, ahead soon) {
  const simd::full<C> d;
  constexpr int lanes = sixteen<C>::lanes, all = sixteen<C>::all;
  const reader<C, scales> read(scale);
  const int64_t whole = n / block * block;

  hn::Vec<simd::full<C>> most[4];
  for (auto &m : most) m = hn::Set(d, lowest<C>);
  for (int64_t i = 0; i < whole; i += block)
    for (int k = 0; k < all; ++k) most[k % 4] = hn::Max(most[k % 4], read(v + i + k * lanes));
  for (int64_t i = whole; i < n; i += lanes) most[0] = hn::Max(most[0], read(v + i, n - i));
  // Adding 0 makes -0 and +0, which a maximum may confuse, the same.
  const auto highest = hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]));
  const C m = simd::largest_lane(d, highest) + C(0);

  // Nothing but -inf: against 0 every term is 0, where -inf - -inf would be NaN.
  const auto base = hn::Set(d, m == lowest<C> ? C(0) : m);
  block_sum<C> sum;
  hn::Vec<simd::full<C>> term[all];
  for (int64_t i = 0; i < whole; i += block) {
    soon.block_at(i);
    for (int k = 0; k < all; ++k) term[k] = exp_of<careful>(d, read(v + i + k * lanes), base);
    if (e)
      for (int k = 0; k < all; ++k) hn::StoreU(term[k], d, e + i + k * lanes);
    sum.add(term);
  }
  if (whole < n) {
    for (int k = 0; k < all; ++k) {
      int64_t i = whole + k * lanes;
      term[k] = i < n ? exp_of<careful>(d, read(v + i, n - i), base) : hn::Zero(d);
    }
    if (e)
      for (int k = 0; k < all; ++k) hn::StoreU(term[k], d, e + whole + k * lanes);
    sum.add(term);
  }
  return {double(m), sum.total()};
}

// y[i] = f(i) for [0, n): f(i) a vector, f(i, count) one whose first `count` lanes matter. past_caches: y is
// not read soon.
template <typename C, typename Out, typename F>
HWY_INLINE void write_row(int64_t n, Out *y, bool past_caches, ahead soon, F &&f) {
  const simd::full<C> d;
  constexpr int lanes = sixteen<C>::lanes, all = sixteen<C>::all;
  auto up_to = [&](int64_t i, int64_t end) HWY_ATTR {
    for (; i + lanes <= end; i += lanes) simd::store(d, f(i), y + i);
    if (i < end) simd::store_first(d, f(i, size_t(end - i)), y + i, size_t(end - i));
  };
  int64_t i = 0;
  if (past_caches) { // up to where y stands on a line of the cache
    i = std::min(n, int64_t((64 - reinterpret_cast<uintptr_t>(y) % 64) % 64 / sizeof(Out)));
    up_to(0, i);
    for (; i + block <= n; i += block) {
      soon.block_at(i);
      for (int k = 0; k < all; ++k) simd::stream(d, f(i + k * lanes), y + i + k * lanes);
    }
  } else {
    for (; i + block <= n; i += block)
      for (int k = 0; k < all; ++k) simd::store(d, f(i + k * lanes), y + i + k * lanes);
  }
  up_to(i, n);
}

// y = e * factor. e has room for whole blocks.
template <typename C, typename Out>
void emit_scaled(const C *e, int64_t n, C factor, Out *y, bool past_caches, ahead soon) {
  const simd::full<C> d;
  const auto by = hn::Set(d, factor);
  write_row<C>(n, y, past_caches, soon,
               [&](int64_t i, size_t = 0) HWY_ATTR { return hn::Mul(hn::LoadU(d, e + i), by); });
}

// y = (scale * v - m) - log_s; y may be v.
template <typename C, typename T, typename Out>
void emit_log(const T *v, int64_t n, C scale, C m, C log_s, Out *y, bool past_caches) {
  const simd::full<C> d;
  const auto factor = hn::Set(d, scale), most = hn::Set(d, m), last = hn::Set(d, log_s);
  write_row<C>(n, y, past_caches, {}, [&](int64_t i, size_t count = 0) HWY_ATTR {
    const auto x = count ? simd::load_first(d, v + i, count) : simd::load(d, v + i);
    return hn::Sub(hn::Sub(hn::Mul(x, factor), most), last);
  });
}

} // namespace HWY_NAMESPACE
} // namespace sluice::softmax
HWY_AFTER_NAMESPACE();

#endif
