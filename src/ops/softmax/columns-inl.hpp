// columns-inl.hpp: softmax of rows that stand side by side in memory: a tile of them is copied to scratch,
// and each lane of a vector is a row. The additions are those of sweep-inl.hpp, one for one. Compiled once
// for each instruction set.
//
// The columns of a tile lie far apart, where the processor fetches nothing by itself, so memory must be asked all
// the time. Two buffers hold tiles by turns: while one is summed, the results in the other are written and the
// tile after is read in their place, a few vectors between any two exponentials.
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

// How far ahead x is asked for, in vectors: further than a core's own buffers reach, since memory answers late
// when every core asks.
constexpr int64_t vectors_ahead = 64;
// Into the second-level cache: in the first, columns that lie a multiple of 4 KiB apart would share a few lines.
HWY_INLINE void ask_for(const void *x) { __builtin_prefetch(x, 0, 2); }

// n columns of `width` rows, of which the first `side` are there. Strips of as many rows as a vector has lanes lie
// one after the other: what is summed together is read from one end to the other.
template <typename C>
struct tile {
  C *strips;
  int64_t depth, width; // columns that there is room for, and rows
  static constexpr int64_t lanes = sixteen<C>::lanes;

  HWY_INLINE C *vector(int64_t j, int64_t w) const { return strips + w * depth + j * lanes; }
  C &one(int64_t j, int64_t w) const { return vector(j, w / lanes * lanes)[w % lanes]; }
};

// Where a tile's results go.
template <typename C, typename T>
struct tile_target {
  T *y = nullptr; // nullptr: nowhere
  int64_t stride = 0, side = 0;
  const C *a = nullptr, *b = nullptr; // y = e * a, or (v - a) - b
  bool log = false, past_caches = false;
};

// Where a tile comes from.
template <typename C, typename T>
struct tile_origin {
  const T *x = nullptr; // nullptr: nowhere
  int64_t stride = 0, side = 0;
  C scale = 1;
  C *most = nullptr; // the maximum of each w
};

// Writes what a buffer holds and reads the next tile in its place, in steps.
template <typename C, typename T>
class tile_mover {
 public:
  tile_mover(const tile<C> &held, int64_t n, tile_target<C, T> out, tile_origin<C, T> in)
      : out(out), in(in), held(held), n(n) {
    constexpr int64_t line = 64;
    if ((reinterpret_cast<uintptr_t>(out.y) | uint64_t(out.stride) * sizeof(T)) % line != 0)
      this->out.past_caches = false;
    rows_ahead = in.x ? std::max<int64_t>(1, vectors_ahead * lanes / in.side) : n;
    whole = held.width;
    if (out.y) whole = std::min(whole, out.side);
    if (in.x) whole = std::min(whole, in.side);
    for (int64_t w = 0; in.x && w < held.width; ++w) in.most[w] = lowest<C>;
    if (!in.x && !out.y) j = n;
  }

  // Four vectors.
  HWY_INLINE void step() {
    if (j < n && w + 4 * lanes <= whole) return vectors<4>();
    for (int k = 0; k < 4 && j < n; ++k) {
      if (w + 2 * lanes > whole)
        one_vector();
      else
        vectors<2>(), ++k;
    }
  }

  void finish() {
    while (j < n) step();
    if (!in.x) return;
    for (int64_t k = 0; k < held.width; k += lanes)
      std::fill(held.vector(n, k), held.vector(padded(n), k), lowest<C>);
    for (int64_t k = 0; k < held.width; ++k) in.most[k] += C(0); // -0 and +0 are one maximum
  }

 private:
  static constexpr int64_t lanes = sixteen<C>::lanes;

  template <int count>
  HWY_INLINE void vectors() {
    const simd::full<C> d;
    C *at = held.vector(j, w);
    const int64_t strip = lanes * held.depth;
    if (out.y) {
      T *to = out.y + j * out.stride + w;
      for (int k = 0; k < count; k += 2) {
        const auto low = y_of(at + k * strip, k), high = y_of(at + (k + 1) * strip, k + 1);
        if (out.past_caches)
          simd::put_pair<true>(d, low, high, to + k * lanes);
        else
          simd::put_pair<false>(d, low, high, to + k * lanes);
      }
    }
    if (in.x) {
      const T *from = in.x + j * in.stride + w;
      if (j + rows_ahead < n)
        for (int64_t i = 0; i < count * lanes; i += 64 / int64_t(sizeof(T)))
          ask_for(from + rows_ahead * in.stride + i);
      for (int k = 0; k < count; ++k) take(simd::load(d, from + k * lanes), at + k * strip, k);
    }
    advance(count * lanes);
  }

  // Where a side ends.
  HWY_NOINLINE void one_vector() {
    const simd::full<C> d;
    C *at = held.vector(j, w);
    if (out.y && w < out.side) {
      T *to = out.y + j * out.stride + w;
      if (w + lanes > out.side)
        simd::store_first(d, y_of(at, 0), to, size_t(out.side - w));
      else if (out.past_caches)
        simd::stream(d, y_of(at, 0), to);
      else
        simd::store(d, y_of(at, 0), to);
    }
    if (in.x && w < in.side) {
      const T *from = in.x + j * in.stride + w;
      if (j + rows_ahead < n) ask_for(from + rows_ahead * in.stride);
      take(w + lanes <= in.side ? simd::load(d, from) : simd::load_first(d, from, size_t(in.side - w)), at,
           0);
    }
    advance(lanes);
  }

  HWY_INLINE auto y_of(const C *at, int k) const {
    const simd::full<C> d;
    const auto v = hn::Load(d, at), a = hn::Load(d, out.a + w + k * lanes);
    return out.log ? hn::Sub(hn::Sub(v, a), hn::Load(d, out.b + w + k * lanes)) : hn::Mul(v, a);
  }
  HWY_INLINE void take(hn::Vec<simd::full<C>> raw, C *at, int k) const {
    const simd::full<C> d;
    const auto v = hn::Mul(raw, hn::Set(d, in.scale));
    hn::Store(v, d, at);
    C *most = in.most + w + k * lanes;
    hn::Store(hn::Max(hn::Load(d, most), v), d, most);
  }
  HWY_INLINE void advance(int64_t by) {
    w += by;
    if (w >= held.width) w = 0, ++j;
  }

  tile_target<C, T> out;
  tile_origin<C, T> in;
  tile<C> held;
  int64_t n, rows_ahead, whole; // whole: w at which a side ends
  int64_t j = 0, w = 0; // what is next
};

// The same for rows whose v is more than scale * x.
template <typename C>
void shape_tile(const plan &p, const addresses &data, int64_t begin, int64_t side, int64_t c, int64_t n,
                const tile<C> &held, C *most) {
  alignas(64) C v[chunk];
  for (int64_t w = 0; w < side; ++w) {
    for (int64_t j = 0; j < n; ++j) v[j] = held.one(j, w);
    row<C>(p, data, begin + w).build_from_x(c, n, v);
    most[w] = lowest<C>;
    for (int64_t j = 0; j < n; ++j) {
      held.one(j, w) = v[j];
      most[w] = v[j] > most[w] ? v[j] : most[w];
    }
    most[w] += C(0);
  }
}

// Sums of e^(v - most) for each w, n in whole blocks; keeps: the terms take v's place.
template <typename C, bool careful, typename T>
void sum_tile(const tile<C> &held, int64_t n, const C *most, bool keeps, double *sums,
              tile_mover<C, T> &meanwhile) {
  const simd::full<C> d;
  constexpr int64_t lanes = sixteen<C>::lanes;
  for (int64_t w = 0; w < held.width; w += lanes) {
    const auto m = hn::Load(d, most + w);
    const auto base = hn::IfThenElse(hn::Eq(m, hn::Set(d, lowest<C>)), hn::Zero(d), m);
    lane_sums<C> sum;
    for (int64_t i = 0; i < n; i += block)
      for (int l = 0; l < 16; ++l) {
        C *at = held.vector(i + l, w);
        hn::Vec<simd::full<C>> term[4];
        exp_each<careful, 4>(d, [&](int k) HWY_ATTR { return hn::Load(d, at + 16 * k * lanes); }, base, term);
        if (keeps)
          for (int k = 0; k < 4; ++k) hn::Store(term[k], d, at + 16 * k * lanes);
        sum.add(l, hn::Add(hn::Add(term[0], term[1]), hn::Add(term[2], term[3])));
        meanwhile.step();
      }
    sum.total(sums + w);
  }
}

// A tile in its buffer, and what is known of its rows.
template <typename C>
struct held_tile {
  tile<C> room;
  int64_t begin, side; // rows [begin, begin + side)
  alignas(64) C most[widest_tile], a[widest_tile], b[widest_tile];
  total totals[widest_tile];
  bool constants; // y of some row does not depend on x
};

// The tiles that one body takes, one after the other, in two buffers by turns. Tile t: rows that share all but
// the last axis of the row space.
template <typename C, typename T>
class column_tiles {
 public:
  column_tiles(const plan &p, const addresses &data, C *room)
      : p(p), data(data), width(p.tile), extent(p.space.extent[p.space.axes - 1]) {
    int64_t depth = padded(length(0));
    held[0].room = {room, depth, width};
    held[1].room = {room + depth * width, depth, width};
    tiles_a_side = (extent + width - 1) / width;
    ahead = p.n <= chunk && !p.shapes_x;
    in_turn = ahead && p.has(op_y) && same(p.dtype[op_y], p.dtype[op_x]);
  }

  void run(std::atomic<int64_t> &next) {
    int64_t tiles = p.space.rows / extent * tiles_a_side;
    auto take = [&] { return next.fetch_add(1, std::memory_order_relaxed); };
    int64_t t = take();
    if (t < tiles) begin(held[0], t);
    if (t < tiles && ahead) move<T>(held[0], {}, origin(held[0], 0), 0).finish();
    bool waits = false; // the other tile, to be written
    int turn = 0;
    for (int64_t after; t < tiles; t = after, turn = 1 - turn) {
      after = take();
      held_tile<C> &other = held[1 - turn];
      tile_target<C, T> out;
      tile_origin<C, T> in;
      if (waits) out = target<T>(other, 0);
      if (after < tiles) begin(other, after);
      if (after < tiles && ahead) in = origin(other, 0);
      auto meanwhile = move<T>(other, out, in, 0);
      waits = one(held[turn], meanwhile);
      meanwhile.finish();
    }
    if (waits) move<T>(held[1 - turn], target<T>(held[1 - turn], 0), {}, 0).finish();
    if (p.past_caches) hwy::FlushStream();
  }

 private:
  int64_t length(int64_t c) const { return std::min(chunk, p.n - c); }

  void begin(held_tile<C> &h, int64_t t) const {
    int64_t within = t % tiles_a_side * width;
    h.begin = t / tiles_a_side * extent + within;
    h.side = std::min(width, extent - within);
  }

  template <typename U>
  tile_mover<C, U> move(held_tile<C> &h, tile_target<C, U> out, tile_origin<C, U> in, int64_t c) const {
    return {h.room, length(c), out, in};
  }
  tile_origin<C, T> origin(held_tile<C> &h, int64_t c) const {
    row<C> first(p, data, h.begin);
    return {reinterpret_cast<const T *>(first.column(op_x, c)), p.column[op_x], h.side,
            p.shapes_x ? C(1) : C(p.does.scale), h.most};
  }
  template <typename Out>
  tile_target<C, Out> target(held_tile<C> &h, int64_t c) const {
    row<C> first(p, data, h.begin);
    return {reinterpret_cast<Out *>(first.column(op_y, c)),
            p.column[op_y],
            h.side,
            h.a,
            h.b,
            bool(p.does.log),
            p.past_caches && !h.constants}; // what is written twice must stay in order
  }

  // All of a tile but what can wait: whether its y does.
  bool one(held_tile<C> &h, tile_mover<C, T> &meanwhile) {
    for (int64_t w = 0; w < h.side; ++w) running[w] = {};
    for (int64_t c = 0; c < p.n; c += chunk) {
      if (!ahead) read(h, c);
      sum(h, c, meanwhile);
      for (int64_t w = 0; w < h.side; ++w) running[w].add({double(h.most[w]), sums[w]});
    }
    h.constants = false;
    for (int64_t w = 0; w < h.side; ++w) {
      h.totals[w] = finish_row(h.begin + w, running[w].get());
      h.constants = h.constants || h.totals[w].poisoned || h.totals[w].empty;
    }
    if (!p.has(op_y)) return false;
    if (in_turn && !h.constants) return set_factors(h), true;
    for (int64_t c = 0; c < p.n; c += chunk) {
      if (p.n > chunk) read(h, c), sum(h, c, meanwhile);
      set_factors(h);
      with_type<C>(p.dtype[op_y], static_cast<char *>(data.at[op_y]),
                   [&]<typename Out>(Out *) { move<Out>(h, target<Out>(h, c), {}, c).finish(); });
    }
    if (h.constants) write_constants(h);
    return false;
  }

  void read(held_tile<C> &h, int64_t c) {
    move<T>(h, {}, origin(h, c), c).finish();
    if (p.shapes_x) shape_tile(p, data, h.begin, h.side, c, length(c), h.room, h.most);
  }

  void sum(held_tile<C> &h, int64_t c, tile_mover<C, T> &meanwhile) {
    int64_t n = padded(length(c));
    if constexpr (sizeof(C) == 4) // doubles are never careful
      if (p.does.careful) return sum_tile<C, true>(h.room, n, h.most, !p.does.log, sums, meanwhile);
    sum_tile<C, false>(h.room, n, h.most, !p.does.log, sums, meanwhile);
  }

  total finish_row(int64_t index, pair sum) {
    if (!p.has(op_sink) && !p.has(op_lse) && !p.has(op_max)) return finish<C>(sum, p.does.log);
    row<C> r(p, data, index);
    total t = finish(sum, r);
    put_row_results(r, t);
    return t;
  }

  // What turns the chunk at hand into y.
  void set_factors(held_tile<C> &h) const {
    std::fill(h.a, h.a + width, C(0)), std::fill(h.b, h.b + width, C(0));
    for (int64_t w = 0; w < h.side; ++w) {
      h.a[w] = p.does.log ? C(h.totals[w].m) : factor_of<C>(h.totals[w], double(h.most[w]));
      h.b[w] = C(h.totals[w].log_s);
    }
  }

  void write_constants(const held_tile<C> &h) {
    for (int64_t w = 0; w < h.side; ++w) {
      if (!h.totals[w].poisoned && !h.totals[w].empty) continue;
      row<C> r(p, data, h.begin + w);
      C value = constant_of<C>(p, h.totals[w]);
      for (int64_t j = 0; j < p.n; ++j) put(&value, 1, p.dtype[op_y], r.column(op_y, j), 1);
    }
  }

  const plan &p;
  const addresses &data;
  int64_t width, extent, tiles_a_side;
  bool ahead; // a tile is read while the one before is summed
  bool in_turn; // and written while the one after is
  held_tile<C> held[2];

  // Of the tile at hand.
  double sums[widest_tile];
  running_total running[widest_tile];
};

} // namespace HWY_NAMESPACE
} // namespace sluice::softmax
HWY_AFTER_NAMESPACE();

#endif
