// sweep-inl.hpp: the loops of softmax. sweep() reads a chunk into its (maximum, sum) and leaves e^(v - m)
// behind; row_writer writes y. Compiled once for each instruction set.
//
// Where rows follow each other, y of one is written between the exponentials of the next (see `before`).
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

#include <type_traits>

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

// careful: e^(v - m) with what the subtraction lost. Else fp32 is asked for 16-bit results, where a coarser
// exponential does.
template <typename C, bool careful>
using exp_kind =
    std::conditional_t<careful || sizeof(C) == 8, simd::exp_numbers<C>, simd::coarse_exp_numbers>;

template <bool careful, class D>
HWY_INLINE hn::Vec<D> exp_of(D d, hn::Vec<D> v, hn::Vec<D> m) {
  using kind = exp_kind<hn::TFromD<D>, careful>;
  const auto difference = hn::Sub(v, m);
  if constexpr (careful)
    return simd::exp_below_by<kind>(d, difference, simd::difference_error(d, v, m, difference));
  return simd::exp_below_by<kind>(d, difference);
}

// The same of v(0) to v(all - 1), where one comparison tells that none of the terms needs a closer look.
template <bool careful, int all, class D, typename F>
HWY_INLINE void exp_each(D d, F &&v, hn::Vec<D> m, hn::Vec<D> *term) {
  using kind = exp_kind<hn::TFromD<D>, careful>;
  hn::Vec<D> difference[all];
  for (int k = 0; k < all; ++k) difference[k] = hn::Sub(v(k), m);
  auto least = difference[0];
  for (int k = 1; k < all; ++k) least = hn::Min(least, difference[k]);
  if (HWY_UNLIKELY(simd::far_below(d, least))) {
    for (int k = 0; k < all; ++k) term[k] = exp_of<careful>(d, v(k), m);
  } else {
    for (int k = 0; k < all; ++k) {
      if constexpr (careful)
        term[k] = simd::exp_near<kind>(d, difference[k], simd::difference_error(d, v(k), m, difference[k]));
      else
        term[k] = simd::exp_near<kind>(d, difference[k]);
    }
  }
}

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

// y[i] = f(i) for [0, n), in blocks, one at each step: f(i) a vector, f(i, count) one whose first `count` lanes
// matter, no NaN. past_caches: y is not read soon.
template <typename C, typename Out, typename F>
class row_writer {
 public:
  row_writer(int64_t n, Out *y, bool past_caches, F f) : y(y), n(n), past_caches(past_caches), f(f) {
    if (!past_caches) return;
    // The line in which y ends is fetched by then, or its stores would hold up all that follow.
    if (reinterpret_cast<uintptr_t>(y + n) % 64 != 0) __builtin_prefetch(y + n - 1, 1);
    // Up to where y stands on a line of the cache.
    up_to(std::min(n, int64_t((64 - reinterpret_cast<uintptr_t>(y) % 64) % 64 / sizeof(Out))));
  }

  bool done() const { return i >= n; }
  HWY_INLINE void finish() {
    if (!done()) up_to(n);
  }
  // 64 more columns, or what is left.
  HWY_INLINE void step() {
    if (i + block > n) return up_to(n);
    if (past_caches)
      whole_block<true>(f, i, y + i);
    else
      whole_block<false>(f, i, y + i);
    i += block;
  }

 private:
  static constexpr int lanes = sixteen<C>::lanes, all = sixteen<C>::all;

  // f by value: a store may not change it.
  template <bool past_caches>
  static HWY_INLINE void whole_block(F f, int64_t i, Out *to) {
    const simd::full<C> d;
    for (int k = 0; k < all; k += 2)
      simd::put_pair<past_caches>(d, f(i + k * lanes), f(i + (k + 1) * lanes), to + k * lanes);
  }

  HWY_NOINLINE void up_to(int64_t end) {
    const simd::full<C> d;
    constexpr int64_t line = 64 / sizeof(Out);
    // Whole lines past the caches as well: each would be read before it is overwritten, and short rows that begin
    // within a line have three of them.
    for (; past_caches && i + line <= end; i += line)
      for (int64_t k = 0; k < line; k += lanes) simd::stream(d, f(i + k), y + i + k);
    for (; i + lanes <= end; i += lanes) simd::store(d, f(i), y + i);
    if (i < end) simd::store_first(d, f(i, size_t(end - i)), y + i, size_t(end - i));
    i = end;
  }

  Out *y;
  int64_t n, i = 0;
  bool past_caches;
  F f;
};

// e * factor. e has room for whole blocks.
template <typename C>
struct scaled_terms {
  const C *e;
  C factor;
  // Where y is written from within a line on, its last vector may begin where e has less than a vector left.
  HWY_INLINE auto operator()(int64_t i, size_t count = 0) const {
    const simd::full<C> d;
    return hn::Mul(count ? simd::load_first(d, e + i, count) : hn::LoadU(d, e + i), hn::Set(d, factor));
  }
};
template <typename C, typename Out>
using scaled_writer = row_writer<C, Out, scaled_terms<C>>;

// (maximum, sum of e^(v - maximum)) of scale * v[0, n), n <= chunk, and the terms into e, which has room for
// whole blocks and may be v; nullptr: not kept. `before` writes what e held until now: it stays a step ahead of
// the terms that take its place. soon: what is read after this piece, so that it is on its way by then; into the
// second-level cache, since the first has no room for two chunks and their exponentials.
template <typename C, bool careful, bool scales, typename T>
pair sweep(const T *v, int64_t n, C scale, C *e, const T *soon, scaled_writer<C, T> *before) {
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
  for (int64_t i = 0; i < whole; i += block) {
    if (soon)
      for (int64_t k = 0; k < block; k += 64 / int64_t(sizeof(T))) __builtin_prefetch(soon + i + k, 0, 2);
    if (before) before->step();
    hn::Vec<simd::full<C>> term[all];
    exp_each<careful, all>(d, [&](int k) HWY_ATTR { return read(v + i + k * lanes); }, base, term);
    if (e)
      for (int k = 0; k < all; ++k) hn::StoreU(term[k], d, e + i + k * lanes);
    sum.add(term);
  }
  if (before) before->finish();
  if (whole < n) {
    hn::Vec<simd::full<C>> term[all];
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

// y[i] = f(i) as above, all of it.
template <typename C, typename Out, typename F>
HWY_INLINE void write_row(int64_t n, Out *y, bool past_caches, F &&f) {
  row_writer<C, Out, std::decay_t<F>> writer(n, y, past_caches, f);
  while (!writer.done()) writer.step();
}

// y = (scale * v - m) - log_s; y may be v.
template <typename C, typename T, typename Out>
void emit_log(const T *v, int64_t n, C scale, C m, C log_s, Out *y, bool past_caches) {
  const simd::full<C> d;
  const auto factor = hn::Set(d, scale), most = hn::Set(d, m), last = hn::Set(d, log_s);
  write_row<C>(n, y, past_caches, [&](int64_t i, size_t count = 0) HWY_ATTR {
    const auto x = count ? simd::load_first(d, v + i, count) : simd::load(d, v + i);
    return hn::Sub(hn::Sub(hn::Mul(x, factor), most), last);
  });
}

} // namespace HWY_NAMESPACE
} // namespace sluice::softmax
HWY_AFTER_NAMESPACE();

#endif
