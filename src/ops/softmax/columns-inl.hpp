// columns-inl.hpp: softmax of rows that stand side by side in memory: a tile of them is copied to scratch, and each lane
// of a vector is a row. The additions are those of sweep-inl.hpp, one for one. Compiled once for each instruction set.
#if defined(SLUICE_SOFTMAX_COLUMNS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SOFTMAX_COLUMNS_INL
#undef SLUICE_SOFTMAX_COLUMNS_INL
#else
#define SLUICE_SOFTMAX_COLUMNS_INL
#endif

#include <hwy/highway.h>

#include "ops/softmax/sweep-inl.hpp"
#include "ops/softmax/totals-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace sluice::softmax {
namespace HWY_NAMESPACE {

inline constexpr int64_t widest_tile = 256;

// Columns ahead that are fetched while one is copied: they lie far apart, where the processor does not look by itself.
constexpr int64_t columns_ahead = 8;

// f(w, count) for each vector of [0, side): count is less than a vector's lanes at the end alone.
template <typename C, typename F>
HWY_INLINE void for_each_vector(int64_t side, F &&f) {
  constexpr int64_t lanes = sixteen<C>::lanes;
  for (int64_t w = 0; w < side; w += lanes) f(w, std::min(lanes, side - w));
}

// tile[j][w] = scale * x[j * stride + w], and the maximum of each w.
template <typename C, typename T>
void read_tile(const T *x, int64_t stride, int64_t side, int64_t n, C scale, C *tile, int64_t width, C *most) {
  const simd::full<C> d;
  const auto factor = hn::Set(d, scale);
  for (int64_t w = 0; w < width; w += sixteen<C>::lanes) hn::Store(hn::Set(d, lowest<C>), d, most + w);
  for (int64_t j = 0; j < n; ++j) {
    const T *row = x + j * stride, *soon = x + std::min(j + columns_ahead, n - 1) * stride;
    for_each_vector<C>(side, [&](int64_t w, int64_t count) HWY_ATTR {
      const T *from = row + w;
      hwy::Prefetch(soon + w);
      const auto raw = count == sixteen<C>::lanes ? simd::load(d, from) : simd::load_first(d, from, size_t(count));
      const auto v = hn::Mul(raw, factor);
      hn::Store(v, d, tile + j * width + w);
      hn::Store(hn::Max(hn::Load(d, most + w), v), d, most + w);
    });
  }
  for (int64_t j = n; j < padded(n); ++j) std::fill(tile + j * width, tile + (j + 1) * width, lowest<C>);
}

// The same for rows whose v is more than scale * x.
template <typename C>
void shape_tile(const plan &p, const addresses &data, int64_t begin, int64_t side, int64_t c, int64_t n, C *tile,
                int64_t width, C *most) {
  alignas(64) C v[chunk];
  for (int64_t w = 0; w < side; ++w) {
    for (int64_t j = 0; j < n; ++j) v[j] = tile[j * width + w];
    row<C>(p, data, begin + w).build_from_x(c, n, v);
    most[w] = lowest<C>;
    for (int64_t j = 0; j < n; ++j) {
      tile[j * width + w] = v[j];
      most[w] = v[j] > most[w] ? v[j] : most[w];
    }
  }
}

// Sums of e^(v - most) for each w, n in whole blocks; keeps: the terms take v's place.
template <typename C, bool careful>
void sum_tile(C *tile, int64_t n, int64_t width, const C *most, bool keeps, double *sums) {
  const simd::full<C> d;
  constexpr int64_t lanes = sixteen<C>::lanes;
  for (int64_t w = 0; w < width; w += lanes) {
    const auto m = hn::Load(d, most + w);
    const auto base = hn::IfThenElse(hn::Eq(m, hn::Set(d, lowest<C>)), hn::Zero(d), m);
    lane_sums<C> sum;
    auto term = [&](int64_t j) HWY_ATTR {
      C *at = tile + j * width + w;
      const auto e = exp_of<careful>(d, hn::Load(d, at), base);
      if (keeps) hn::Store(e, d, at);
      return e;
    };
    for (int64_t i = 0; i < n; i += block)
      for (int l = 0; l < 16; ++l)
        sum.add(l, hn::Add(hn::Add(term(i + l), term(i + l + 16)), hn::Add(term(i + l + 32), term(i + l + 48))));
    sum.total(sums + w);
  }
}

// y[j * stride + w] = f(tile[j][w], w).
template <typename C, typename Out, typename F>
HWY_INLINE void write_tile(const C *tile, int64_t side, int64_t n, int64_t width, Out *y, int64_t stride,
                           bool past_caches, F &&f) {
  const simd::full<C> d;
  past_caches = past_caches && (reinterpret_cast<uintptr_t>(y) | uint64_t(stride) * sizeof(Out)) % 64 == 0;
  for (int64_t j = 0; j < n; ++j)
    for_each_vector<C>(side, [&](int64_t w, int64_t count) HWY_ATTR {
      const auto r = f(hn::Load(d, tile + j * width + w), w);
      Out *to = y + j * stride + w;
      if (count < sixteen<C>::lanes)
        simd::store_first(d, r, to, size_t(count));
      else if (past_caches)
        simd::stream(d, r, to);
      else
        simd::store(d, r, to);
    });
}

// A tile on its way: the rows from `begin` on, `side` of them, which share all but the last axis of the row space.
template <typename C>
class column_tile {
 public:
  column_tile(const plan &p, const addresses &data, int64_t begin, int64_t side, C *tile)
      : p(p), data(data), begin(begin), side(side), width(p.tile), tile(tile), first(p, data, begin) {}

  void run() {
    for (int64_t c = 0; c < p.n; c += chunk) {
      read_and_sum(c);
      for (int64_t w = 0; w < side; ++w) running[w].add({double(most[w]), sums[w]});
    }
    for (int64_t w = 0; w < side; ++w) {
      totals[w] = finish_row(w);
      constants = constants || totals[w].poisoned || totals[w].empty;
    }
    if (!p.has(op_y)) return;
    for (int64_t c = 0; c < p.n; c += chunk) {
      if (p.n > chunk) read_and_sum(c);
      write(c);
    }
    if (constants) write_constants();
    if (p.past_caches) hwy::FlushStream();
  }

 private:
  int64_t length(int64_t c) const { return std::min(chunk, p.n - c); }

  void read_and_sum(int64_t c) {
    int64_t n = length(c);
    C scale = p.shapes_x ? C(1) : C(p.does.scale);
    with_type<C>(p.dtype[op_x], first.column(op_x, c), [&]<typename T>(const T *x) {
      read_tile(x, p.column[op_x], side, n, scale, tile, width, most);
    });
    if (p.shapes_x) shape_tile(p, data, begin, side, c, n, tile, width, most);
    for (int64_t w = 0; w < width; ++w) most[w] += C(0);  // -0 and +0 are one maximum
    if (p.does.careful)
      sum_tile<C, true>(tile, padded(n), width, most, !p.does.log, sums);
    else
      sum_tile<C, false>(tile, padded(n), width, most, !p.does.log, sums);
  }

  total finish_row(int64_t w) {
    if (!p.has(op_sink) && !p.has(op_lse) && !p.has(op_max)) return finish<C>(running[w].get(), p.does.log);
    row<C> r(p, data, begin + w);
    total t = finish(running[w].get(), r);
    put_row_results(r, t);
    return t;
  }

  void write(int64_t c) {
    const simd::full<C> d;
    alignas(64) C a[widest_tile] = {}, b[widest_tile] = {};
    for (int64_t w = 0; w < side; ++w) {
      a[w] = p.does.log ? C(totals[w].m) : factor_of<C>(totals[w], double(most[w]));
      b[w] = C(totals[w].log_s);
    }
    bool past_caches = p.past_caches && !constants;  // what is written twice must stay in order
    with_type<C>(p.dtype[op_y], first.column(op_y, c), [&]<typename Out>(Out *y) {
      if (p.does.log)
        write_tile<C>(tile, side, length(c), width, y, p.column[op_y], past_caches, [&](auto v, int64_t w) HWY_ATTR {
          return hn::Sub(hn::Sub(v, hn::Load(d, a + w)), hn::Load(d, b + w));
        });
      else
        write_tile<C>(tile, side, length(c), width, y, p.column[op_y], past_caches,
                      [&](auto e, int64_t w) HWY_ATTR { return hn::Mul(e, hn::Load(d, a + w)); });
    });
  }

  void write_constants() {
    for (int64_t w = 0; w < side; ++w) {
      if (!totals[w].poisoned && !totals[w].empty) continue;
      row<C> r(p, data, begin + w);
      C value = constant_of<C>(p, totals[w]);
      for (int64_t j = 0; j < p.n; ++j) put(&value, 1, p.dtype[op_y], r.column(op_y, j), 1);
    }
  }

  const plan &p;
  const addresses &data;
  int64_t begin, side, width;
  C *tile;
  row<C> first;
  bool constants = false;
  alignas(64) C most[widest_tile];
  double sums[widest_tile];
  running_total running[widest_tile];
  total totals[widest_tile];
};

}  // namespace HWY_NAMESPACE
}  // namespace sluice::softmax
HWY_AFTER_NAMESPACE();

#endif
