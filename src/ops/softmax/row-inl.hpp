// row-inl.hpp: one row's operands, and its v: the header's order of effects as plain loops over a piece of
// the row. Compiled once for each instruction set; both directions of softmax read rows through it.
#if defined(SLUICE_SOFTMAX_ROW_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SOFTMAX_ROW_INL
#undef SLUICE_SOFTMAX_ROW_INL
#else
#define SLUICE_SOFTMAX_ROW_INL
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "cpu/simd-inl.hpp"
#include "ops/softmax/softmax.hpp"

HWY_BEFORE_NAMESPACE();
namespace sluice::softmax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = sluice::HWY_NAMESPACE;

// Buffers hold whole blocks, so that vectors may run past the last column.
constexpr int64_t padded(int64_t n) { return (n + 63) / 64 * 64; }
// Operands beside x pass through a buffer this long: it stays in the first-level cache with v.
constexpr int64_t span = 512;

template <typename C>
constexpr C lowest = -std::numeric_limits<C>::infinity();

inline double exp_one(double x) {
  const hn::CappedTag<double, 1> d;
  return hn::GetLane(simd::exp_below(d, hn::Set(d, x)));
}
inline double log_one(double x) {
  const hn::CappedTag<double, 1> d;
  return hn::GetLane(hn::Log(d, hn::Set(d, x)));
}

// NaN for NaN, which Highway's Tanh would convert to an integer and then make a number of.
template <class D>
HWY_INLINE hn::Vec<D> tanh_of(D d, hn::Vec<D> x) {
  const auto nan = hn::IsNaN(x);
  return hn::IfThenElse(nan, x, hn::Tanh(d, hn::IfThenZeroElse(nan, x)));
}

// v[i] = f(v[i]) for i in [0, n), whole vectors at a time.
template <typename C, typename F>
HWY_INLINE void for_each(C *v, int64_t n, F &&f) {
  const simd::full<C> d;
  const int64_t step = int64_t(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += step) hn::StoreU(f(hn::LoadU(d, v + i), i), d, v + i);
}

// out[i] = the element at p + i * stride, for i in [0, n).
template <typename C, typename T>
HWY_INLINE void fetch_as(const T *p, int64_t stride, int64_t n, C *out) {
  const simd::full<C> d;
  const int64_t step = int64_t(hn::Lanes(d));
  int64_t i = 0;
  if (stride == 1)
    for (; i + step <= n; i += step) hn::StoreU(simd::load(d, p + i), d, out + i);
  for (; i < n; ++i) out[i] = C(to_float(p[i * stride]));
}
template <typename C>
void fetch(sluice_dtype dtype, const char *p, int64_t stride, int64_t n, C *out) {
  if (same(dtype, dtype_of<float>)) return fetch_as(reinterpret_cast<const float *>(p), stride, n, out);
  if (same(dtype, dtype_of<bfloat16>)) return fetch_as(reinterpret_cast<const bfloat16 *>(p), stride, n, out);
  if (same(dtype, dtype_of<float16>)) return fetch_as(reinterpret_cast<const float16 *>(p), stride, n, out);
  if constexpr (sizeof(C) == 8) fetch_as(reinterpret_cast<const double *>(p), stride, n, out);
}

inline double fetch_one(sluice_dtype dtype, const char *p) {
  double v = 0;
  fetch(dtype, p, 1, 1, &v);
  return v;
}

// p[i * stride] = v[i] rounded to the dtype, for i in [0, n).
template <typename C, typename T>
HWY_INLINE void put_as(const C *v, int64_t n, T *p, int64_t stride) {
  const simd::full<C> d;
  const int64_t step = int64_t(hn::Lanes(d));
  int64_t i = 0;
  if (stride == 1)
    for (; i + step <= n; i += step) simd::store(d, hn::LoadU(d, v + i), p + i);
  for (; i < n; ++i) p[i * stride] = from_double<T>(v[i]);
}
template <typename C>
void put(const C *v, int64_t n, sluice_dtype dtype, char *p, int64_t stride) {
  if (same(dtype, dtype_of<float>)) return put_as(v, n, reinterpret_cast<float *>(p), stride);
  if constexpr (sizeof(C) == 8)
    if (same(dtype, dtype_of<double>)) return put_as(v, n, reinterpret_cast<double *>(p), stride);
  if (same(dtype, dtype_of<bfloat16>)) return put_as(v, n, reinterpret_cast<bfloat16 *>(p), stride);
  return put_as(v, n, reinterpret_cast<float16 *>(p), stride);
}
inline void put_one(double v, sluice_dtype dtype, char *p) { put(&v, 1, dtype, p, 1); }

// The operands of one row, and what is left of it to look at.
template <typename C>
struct row {
  const plan &p;
  char *at[operands];            // the row's first element; nullptr where absent
  int64_t query_shift;           // p(i)
  effects::range columns;        // that causal, window and length leave
  C slope, temperature;

  row(const plan &p, const addresses &data, int64_t index) : p(p) {
    int64_t offset[operands];
    p.space.locate(index, offset);
    for (int k = 0; k < operands; ++k)
      at[k] = data.at[k] ? static_cast<char *>(data.at[k]) + offset[k] * bytes_of(p.dtype[k]) : nullptr;
    columns = {0, p.n};
    if (!p.shapes_x) return;
    query_shift = offset[op_query] + p.does.diagonal;
    columns = p.does.columns(offset[op_query], length());
    slope = at[op_slopes] ? C(fetch_one(p.dtype[op_slopes], at[op_slopes])) : C(0);
    temperature = at[op_temperature] ? C(fetch_one(p.dtype[op_temperature], at[op_temperature])) : C(1);
  }

  int64_t length() const {
    if (!at[op_lengths]) return p.n;
    bool wide = p.dtype[op_lengths].bits == 64;
    int64_t value = wide ? *reinterpret_cast<const int64_t *>(at[op_lengths])
                         : *reinterpret_cast<const int32_t *>(at[op_lengths]);
    return std::clamp<int64_t>(value, 0, p.n);
  }

  const char *column(operand k, int64_t j) const { return at[k] + j * p.column[k] * bytes_of(p.dtype[k]); }
  char *column(operand k, int64_t j) { return at[k] + j * p.column[k] * bytes_of(p.dtype[k]); }

  // v of columns [begin, begin + n) into `v`, which has room for padded(n).
  void build(int64_t begin, int64_t n, C *v) const {
    int64_t first = std::clamp<int64_t>(columns.first - begin, 0, n),
            last = std::clamp<int64_t>(columns.last - begin, 0, n);
    if (first < last) {
      fetch(p.dtype[op_x], column(op_x, begin + first), p.column[op_x], last - first, v + first);
      shape(begin, first, last, v);
    }
    exclude_outside(first, std::max(first, last), n, v);
  }

  // The same where v holds x already.
  void build_from_x(int64_t begin, int64_t n, C *v) const {
    int64_t first = std::clamp<int64_t>(columns.first - begin, 0, n),
            last = std::clamp<int64_t>(columns.last - begin, 0, n);
    if (first < last) shape(begin, first, last, v);
    exclude_outside(first, std::max(first, last), n, v);
  }

  // |j - p(i)| of columns [j, j + n).
  void distances(int64_t j, int64_t n, C *out) const {
    for (int64_t i = 0; i < n; ++i) out[i] = C(std::llabs(j + i - query_shift));
  }

 private:
  static void exclude_outside(int64_t first, int64_t last, int64_t n, C *v) {
    std::fill(v, v + first, lowest<C>);
    std::fill(v + last, v + n, lowest<C>);
  }

  // x to v in columns [begin + first, begin + last), one effect after the other, each rounded on its own.
  void shape(int64_t begin, int64_t first, int64_t last, C *v) const {
    for (int64_t i = first; i < last; i += span) shape_span(begin + i, std::min(span, last - i), v + i);
  }

  void shape_span(int64_t j, int64_t n, C *v) const {
    const simd::full<C> d;
    alignas(64) C other[span];
    // Whole vectors may run past n: what lies there is excluded or built later.
    int64_t whole = n / int64_t(hn::Lanes(d)) * int64_t(hn::Lanes(d));
    auto each = [&](auto &&f) {
      for_each(v, whole, f);
      if (whole == n) return;
      alignas(64) C tail[64];
      std::copy(v + whole, v + n, tail);
      std::fill(tail + (n - whole), tail + hn::Lanes(d), C(0));
      auto one = f(hn::LoadU(d, tail), whole);
      hn::StoreU(one, d, tail);
      std::copy(tail, tail + (n - whole), v + whole);
    };

    const auto scale = hn::Set(d, C(p.does.scale));
    each([&](auto x, int64_t) HWY_ATTR { return hn::Mul(x, scale); });
    if (p.does.softcap != 0) {
      const auto cap = hn::Set(d, C(p.does.softcap));
      each([&](auto x, int64_t) HWY_ATTR { return hn::Mul(cap, tanh_of(d, hn::Div(x, cap))); });
    }
    if (at[op_slopes]) {
      distances(j, n, other);
      std::fill(other + n, other + std::min(span, padded(n)), C(0));
      const auto s = hn::Set(d, slope);
      each([&](auto x, int64_t i) HWY_ATTR { return hn::Sub(x, hn::Mul(s, hn::LoadU(d, other + i))); });
    }
    if (at[op_mask]) {
      fetch(p.dtype[op_mask], column(op_mask, j), p.column[op_mask], n, other);
      std::fill(other + n, other + std::min(span, padded(n)), C(0));
      const auto none = hn::Set(d, lowest<C>);
      each([&](auto x, int64_t i) HWY_ATTR {
        const auto m = hn::LoadU(d, other + i);
        return hn::IfThenElse(hn::Eq(m, none), none, hn::Add(x, m));
      });
    }
    if (at[op_temperature]) {
      const auto t = hn::Set(d, temperature);
      each([&](auto x, int64_t) HWY_ATTR { return hn::Div(x, t); });
      // What a division makes of -inf under the mask must stay excluded.
      if (at[op_mask] && !(temperature > 0 && temperature < -lowest<C>)) exclude_masked(j, n, v);
    }
    if (at[op_keep]) {
      const char *keep = column(op_keep, j);
      for (int64_t i = 0; i < n; ++i)
        if (keep[i * p.column[op_keep]] == 0) v[i] = lowest<C>;
    }
  }

  // Columns under a mask of -inf, whatever arithmetic did to them.
  void exclude_masked(int64_t j, int64_t n, C *v) const {
    for (int64_t i = 0; i < n; ++i) {
      C m = 0;
      fetch(p.dtype[op_mask], column(op_mask, j + i), 1, 1, &m);
      if (m == lowest<C>) v[i] = lowest<C>;
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sluice::softmax
HWY_AFTER_NAMESPACE();

#endif
