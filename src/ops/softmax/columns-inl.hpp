// columns-inl.hpp: softmax of rows that stand side by side in memory: a tile of them is copied to scratch,
// and each lane of a vector is a row. The additions are those of sweep-inl.hpp, one for one. Compiled once
// for each instruction set.
//
// The columns of a tile lie far apart, where the processor fetches nothing by itself: copied in one go, a
// tile costs as much in waiting as in arithmetic. So the next tile is copied a few vectors at a time between
// the exponentials of this one.
#if defined(SLUICE_SOFTMAX_COLUMNS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SOFTMAX_COLUMNS_INL
#undef SLUICE_SOFTMAX_COLUMNS_INL
#else
#define SLUICE_SOFTMAX_COLUMNS_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <atomic>

#include "ops/softmax/sweep-inl.hpp"
#include "ops/softmax/totals-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace sluice::softmax {
namespace HWY_NAMESPACE {

inline constexpr int64_t widest_tile = 256;

// Vectors that are on their way at once: a core waits for some sixteen lines at a time.
constexpr int64_t vectors_ahead = 24;

// Copies x to a tile in steps: tile[j][w] = scale * x[j * stride + w], and the maximum of each w.
template <typename C, typename T>
class tile_reader {
 public:
  tile_reader() = default;  // nothing to copy
  tile_reader(const T *x, int64_t stride, int64_t side, int64_t n, C scale, C *tile, int64_t width, C *most)
      : x(x), stride(stride), side(side), n(n), width(width), tile(tile), most(most), scale(scale) {
    rows_ahead = std::max<int64_t>(1, vectors_ahead * sixteen<C>::lanes / side);
    for (int64_t w = 0; w < width; ++w) most[w] = lowest<C>;
  }

  HWY_INLINE void four_vectors() {
    for (int k = 0; k < 4; ++k)
      if (j < n) one_vector();
  }
  void all() {
    while (j < n) one_vector();
    for (int64_t i = n; i < padded(n); ++i) std::fill(tile + i * width, tile + (i + 1) * width, lowest<C>);
    for (int64_t k = 0; k < width; ++k) most[k] += C(0);  // -0 and +0 are one maximum
  }

 private:
  HWY_INLINE void one_vector() {
    const simd::full<C> d;
    constexpr int64_t lanes = sixteen<C>::lanes;
    const T *from = x + j * stride + w;
    if (j + rows_ahead < n) hwy::Prefetch(from + rows_ahead * stride);
    const auto raw = w + lanes <= side ? simd::load(d, from) : simd::load_first(d, from, size_t(side - w));
    const auto v = hn::Mul(raw, hn::Set(d, scale));
    hn::Store(v, d, tile + j * width + w);
    hn::Store(hn::Max(hn::Load(d, most + w), v), d, most + w);
    w += lanes;
    if (w >= side) w = 0, ++j;
  }

  const T *x = nullptr;
  int64_t stride = 0, side = 0, n = 0, width = 0, rows_ahead = 0;
  C *tile = nullptr, *most = nullptr;
  C scale = 1;
  int64_t j = 0, w = 0;  // what is next
};

// The same for rows whose v is more than scale * x.
template <typename C>
void shape_tile(const plan &p, const addresses &data, int64_t begin, int64_t side, int64_t c, int64_t n,
                C *tile, int64_t width, C *most) {
  alignas(64) C v[chunk];
  for (int64_t w = 0; w < side; ++w) {
    for (int64_t j = 0; j < n; ++j) v[j] = tile[j * width + w];
    row<C>(p, data, begin + w).build_from_x(c, n, v);
    most[w] = lowest<C>;
    for (int64_t j = 0; j < n; ++j) {
      tile[j * width + w] = v[j];
      most[w] = v[j] > most[w] ? v[j] : most[w];
    }
    most[w] += C(0);
  }
}

// Sums of e^(v - most) for each w, n in whole blocks; keeps: the terms take v's place. `meanwhile` copies the
// next tile.
template <typename C, bool careful, typename T>
void sum_tile(C *tile, int64_t n, int64_t width, const C *most, bool keeps, double *sums,
              tile_reader<C, T> &meanwhile) {
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
      for (int l = 0; l < 16; ++l) {
        sum.add(l,
                hn::Add(hn::Add(term(i + l), term(i + l + 16)), hn::Add(term(i + l + 32), term(i + l + 48))));
        meanwhile.four_vectors();
      }
    sum.total(sums + w);
  }
}

// y[j * stride + w] = f(tile[j][w], w).
template <typename C, typename Out, typename F>
HWY_INLINE void write_tile(const C *tile, int64_t side, int64_t n, int64_t width, Out *y, int64_t stride,
                           bool past_caches, F &&f) {
  const simd::full<C> d;
  past_caches = past_caches && (reinterpret_cast<uintptr_t>(y) | uint64_t(stride) * sizeof(Out)) % 64 == 0;
  constexpr int64_t lanes = sixteen<C>::lanes;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t w = 0; w < side; w += lanes) {
      const auto r = f(hn::Load(d, tile + j * width + w), w);
      Out *to = y + j * stride + w;
      if (w + lanes > side)
        simd::store_first(d, r, to, size_t(side - w));
      else if (past_caches)
        simd::stream(d, r, to);
      else
        simd::store(d, r, to);
    }
}

// The tiles that one body takes, one after the other, in two buffers by turns. Tile t: `side(t)` rows from
// `begin(t)` on, which share all but the last axis of the row space.
template <typename C, typename T>
class column_tiles {
 public:
  column_tiles(const plan &p, const addresses &data, C *room)
      : p(p), data(data), width(p.tile), buffer{room, room + padded(std::min(p.n, chunk)) * p.tile} {
    extent = p.space.extent[p.space.axes - 1];
    tiles_a_side = (extent + width - 1) / width;
    ahead = p.n <= chunk && !p.shapes_x;
  }

  void run(std::atomic<int64_t> &next) {
    int64_t tiles = p.space.rows / extent * tiles_a_side;
    auto take = [&] { return next.fetch_add(1, std::memory_order_relaxed); };
    int64_t t = take();
    if (ahead && t < tiles) reader_of(t, 0).all();
    for (int turn = 0; t < tiles; turn = 1 - turn) {
      int64_t after = take();
      tile_reader<C, T> meanwhile;
      if (ahead && after < tiles) meanwhile = reader_of(after, 1 - turn);
      one(t, turn, meanwhile);
      if (ahead && after < tiles) meanwhile.all();
      t = after;
    }
    if (p.past_caches) hwy::FlushStream();
  }

 private:
  int64_t begin(int64_t t) const { return t / tiles_a_side * extent + t % tiles_a_side * width; }
  int64_t side(int64_t t) const { return std::min(width, extent - t % tiles_a_side * width); }
  int64_t length(int64_t c) const { return std::min(chunk, p.n - c); }

  tile_reader<C, T> reader_of(int64_t t, int turn, int64_t c = 0) {
    row<C> first(p, data, begin(t));
    return {reinterpret_cast<const T *>(first.column(op_x, c)),
            p.column[op_x],
            side(t),
            length(c),
            p.shapes_x ? C(1) : C(p.does.scale),
            buffer[turn],
            width,
            most[turn]};
  }

  void one(int64_t t, int turn, tile_reader<C, T> &meanwhile) {
    first_row = begin(t), rows = side(t), tile = buffer[turn], maxima = most[turn];
    for (int64_t w = 0; w < rows; ++w) running[w] = {};
    for (int64_t c = 0; c < p.n; c += chunk) {
      if (!ahead) read(t, turn, c);
      sum(c, meanwhile);
      for (int64_t w = 0; w < rows; ++w) running[w].add({double(maxima[w]), sums[w]});
    }
    bool constants = false;
    for (int64_t w = 0; w < rows; ++w) {
      totals[w] = finish_row(w);
      constants = constants || totals[w].poisoned || totals[w].empty;
    }
    if (!p.has(op_y)) return;
    row<C> first(p, data, first_row);
    for (int64_t c = 0; c < p.n; c += chunk) {
      if (p.n > chunk) {
        read(t, turn, c);
        sum(c, meanwhile);
      }
      write(first.column(op_y, c), length(c),
            p.past_caches && !constants);  // what is written twice must stay in order
    }
    if (constants) write_constants();
  }

  void read(int64_t t, int turn, int64_t c) {
    reader_of(t, turn, c).all();
    if (p.shapes_x) shape_tile(p, data, first_row, rows, c, length(c), tile, width, maxima);
  }

  void sum(int64_t c, tile_reader<C, T> &meanwhile) {
    if (p.does.careful)
      sum_tile<C, true>(tile, padded(length(c)), width, maxima, !p.does.log, sums, meanwhile);
    else
      sum_tile<C, false>(tile, padded(length(c)), width, maxima, !p.does.log, sums, meanwhile);
  }

  total finish_row(int64_t w) {
    if (!p.has(op_sink) && !p.has(op_lse) && !p.has(op_max)) return finish<C>(running[w].get(), p.does.log);
    row<C> r(p, data, first_row + w);
    total t = finish(running[w].get(), r);
    put_row_results(r, t);
    return t;
  }

  void write(char *y, int64_t n, bool past_caches) {
    const simd::full<C> d;
    alignas(64) C a[widest_tile] = {}, b[widest_tile] = {};
    for (int64_t w = 0; w < rows; ++w) {
      a[w] = p.does.log ? C(totals[w].m) : factor_of<C>(totals[w], double(maxima[w]));
      b[w] = C(totals[w].log_s);
    }
    with_type<C>(p.dtype[op_y], y, [&]<typename Out>(Out *to) {
      if (p.does.log)
        write_tile<C>(tile, rows, n, width, to, p.column[op_y], past_caches, [&](auto v, int64_t w) HWY_ATTR {
          return hn::Sub(hn::Sub(v, hn::Load(d, a + w)), hn::Load(d, b + w));
        });
      else
        write_tile<C>(tile, rows, n, width, to, p.column[op_y], past_caches,
                      [&](auto e, int64_t w) HWY_ATTR { return hn::Mul(e, hn::Load(d, a + w)); });
    });
  }

  void write_constants() {
    for (int64_t w = 0; w < rows; ++w) {
      if (!totals[w].poisoned && !totals[w].empty) continue;
      row<C> r(p, data, first_row + w);
      C value = constant_of<C>(p, totals[w]);
      for (int64_t j = 0; j < p.n; ++j) put(&value, 1, p.dtype[op_y], r.column(op_y, j), 1);
    }
  }

  const plan &p;
  const addresses &data;
  int64_t width, extent, tiles_a_side;
  bool ahead;  // a tile is read while the one before is summed
  C *buffer[2];
  alignas(64) C most[2][widest_tile];

  // Of the tile at hand.
  int64_t first_row, rows;
  C *tile, *maxima;
  double sums[widest_tile];
  running_total running[widest_tile];
  total totals[widest_tile];
};

}  // namespace HWY_NAMESPACE
}  // namespace sluice::softmax
HWY_AFTER_NAMESPACE();

#endif
