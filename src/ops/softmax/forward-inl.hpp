// forward-inl.hpp: softmax of whole rows, of pieces of a row, and of tiles of rows, on one thread. Compiled once for each
// instruction set.
#if defined(SLUICE_SOFTMAX_FORWARD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SOFTMAX_FORWARD_INL
#undef SLUICE_SOFTMAX_FORWARD_INL
#else
#define SLUICE_SOFTMAX_FORWARD_INL
#endif

#include <hwy/highway.h>

#include "ops/softmax/cpu_code.hpp"
#include "ops/softmax/sweep-inl.hpp"
#include "ops/softmax/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace sluice::softmax {
namespace HWY_NAMESPACE {

// A piece of v on its way through sweep() and emit(): x itself, or a buffer of C.
struct source {
  const char *v;
  sluice_dtype dtype;
  bool scaled;       // scale is applied already
  const char *soon;  // of the same dtype; may be nullptr
};

// Chunks added up in their order.
class running_total {
 public:
  void add(const pair &c) {
    if (c.m == lowest<double>) {  // nothing there, or NaN in the sum
      if (c.s != 0) s = c.s;
      return;
    }
    if (c.m > m) {
      double shrink = exp_one(m - c.m);
      s *= shrink, lost *= shrink;
      m = c.m;
      plus(c.s);
    } else {
      plus(c.s * exp_one(c.m - m));  // a NaN maximum ends here and makes the sum NaN
    }
  }
  pair get() const { return {m, s + lost}; }

 private:
  void plus(double more) {  // with what the addition lost
    double sum = s + more, back = sum - s;
    lost += (s - (sum - back)) + (more - back);
    s = sum;
  }
  double m = lowest<double>, s = 0, lost = 0;
};

template <typename C>
total finish(const pair &p, const row<C> &r) {
  total t = {};
  t.m = p.m;
  t.s = p.s;
  if (r.at[op_sink]) {
    double sink = C(fetch_one(r.p.dtype[op_sink], r.at[op_sink]));
    running_total with;
    with.add(p);
    with.add({sink, sink == sink && sink != lowest<double> ? 1.0 : sink == sink ? 0.0 : sink});
    t.m = with.get().m;
    t.s = with.get().s;
  }
  t.poisoned = !(t.s < -lowest<double>) || !(t.m < -lowest<double>);
  t.empty = !t.poisoned && t.s == 0;
  double log_s = log_one(t.s);
  t.inverse = C(1 / t.s);
  t.log_s = C(log_s);
  t.lse = t.empty ? lowest<double> : t.m + log_s;
  if (t.poisoned) t.m = t.lse = std::numeric_limits<double>::quiet_NaN();
  return t;
}

template <typename C>
void put_row_results(row<C> &r, const total &t) {
  if (r.at[op_lse]) put_one(t.lse, r.p.dtype[op_lse], r.at[op_lse]);
  if (r.at[op_max]) put_one(t.empty ? lowest<double> : t.m, r.p.dtype[op_max], r.at[op_max]);
}

// What every column of y holds where that does not depend on x: a poisoned or an empty row, or excluded columns.
template <typename C>
C constant_of(const plan &p, const total &t) {
  double none = p.does.log ? lowest<double> : 0.0;
  if (t.poisoned) return std::numeric_limits<C>::quiet_NaN();
  if (!t.empty || p.does.empty_row == SLUICE_EMPTY_ROW_ZERO) return C(none);
  if (p.does.empty_row == SLUICE_EMPTY_ROW_NAN) return std::numeric_limits<C>::quiet_NaN();
  return C(p.does.log ? -log_one(double(p.n)) : 1.0 / double(p.n));
}

template <typename C>
pair sweep_source(const plan &p, const source &from, int64_t n) {
  C scale = from.scaled ? C(1) : C(p.does.scale);
  auto as = [&]<typename T>(const T *v) HWY_ATTR {
    const T *soon = reinterpret_cast<const T *>(from.soon);
    return p.does.accuracy ? sweep<C, true>(v, n, scale, soon) : sweep<C, false>(v, n, scale, soon);
  };
  if constexpr (sizeof(C) == 8) {
    return as(reinterpret_cast<const double *>(from.v));
  } else {
    if (same(from.dtype, dtype_of<float>)) return as(reinterpret_cast<const float *>(from.v));
    if (same(from.dtype, dtype_of<bfloat16>)) return as(reinterpret_cast<const bfloat16 *>(from.v));
    return as(reinterpret_cast<const float16 *>(from.v));
  }
}

// y: contiguous, of dtype `to`.
template <typename C>
void emit_source(const plan &p, const source &from, int64_t n, const total &t, char *y, sluice_dtype to,
                 bool past_caches) {
  C scale = from.scaled ? C(1) : C(p.does.scale);
  auto out = [&]<typename T, typename Out>(const T *v, Out *out) HWY_ATTR {
    const T *soon = reinterpret_cast<const T *>(from.soon);
    if (p.does.log) return emit<C, form::log>(v, n, scale, t, out, past_caches, soon);
    if (p.does.accuracy) return emit<C, form::careful_probability>(v, n, scale, t, out, past_caches, soon);
    return emit<C, form::probability>(v, n, scale, t, out, past_caches, soon);
  };
  auto in = [&]<typename T>(const T *v) HWY_ATTR {
    if (same(to, dtype_of<float>)) return out(v, reinterpret_cast<float *>(y));
    if (same(to, dtype_of<bfloat16>)) return out(v, reinterpret_cast<bfloat16 *>(y));
    if (same(to, dtype_of<float16>)) return out(v, reinterpret_cast<float16 *>(y));
    if constexpr (sizeof(C) == 8) return out(v, reinterpret_cast<double *>(y));
  };
  if constexpr (sizeof(C) == 8) {
    in(reinterpret_cast<const double *>(from.v));
  } else {
    if (same(from.dtype, dtype_of<float>)) return in(reinterpret_cast<const float *>(from.v));
    if (same(from.dtype, dtype_of<bfloat16>)) return in(reinterpret_cast<const bfloat16 *>(from.v));
    in(reinterpret_cast<const float16 *>(from.v));
  }
}

// Rows one after the other, a chunk at a time.
template <typename C>
class walker {
 public:
  walker(const plan &p, const addresses &data) : p(p), data(data) {
    bool width_fits = sizeof(C) == 8 ? same(p.dtype[op_x], dtype_of<double>) : true;
    direct = !p.shapes_x && p.column[op_x] == 1 && width_fits;
  }

  void rows(int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      row<C> r(p, data, index);
      held = -1;
      running_total sum;
      for (int64_t c = 0; c < p.n; c += chunk) {
        if (skips(r, c)) continue;
        sum.add(sweep_source<C>(p, piece(r, c, soon_in(r, c + chunk)), length(c)));
      }
      total t = finish(sum.get(), r);
      put_row_results(r, t);
      if (!p.has(op_y)) continue;
      const char *next = direct && index + 1 < end ? row_of_x(index + 1) : nullptr;
      for (int64_t c = 0; c < p.n; c += chunk) write(r, c, t, next ? next + c * bytes_of(p.dtype[op_x]) : nullptr);
    }
    if (p.past_caches) hwy::FlushStream();
  }

  pair sum_of_chunk(int64_t index, int64_t c) {
    row<C> r(p, data, index);
    held = -1;
    if (skips(r, c)) return {lowest<double>, 0};
    return sweep_source<C>(p, piece(r, c, nullptr), length(c));
  }
  total finish_row(int64_t index, const pair *chunks) {
    row<C> r(p, data, index);
    running_total sum;
    for (int64_t c = 0; c < chunks_of(p.n); ++c) sum.add(chunks[c]);
    total t = finish(sum.get(), r);
    put_row_results(r, t);
    return t;
  }
  void write_chunk(int64_t index, int64_t c, const total &t) {
    row<C> r(p, data, index);
    held = -1;
    write(r, c, t, nullptr);
  }

 private:
  int64_t length(int64_t c) const { return std::min(chunk, p.n - c); }
  bool skips(const row<C> &r, int64_t c) const { return c >= r.columns.last || c + chunk <= r.columns.first; }
  const char *row_of_x(int64_t index) const {
    return static_cast<const char *>(data.at[op_x]) + p.space.locate(index, op_x) * bytes_of(p.dtype[op_x]);
  }
  const char *soon_in(const row<C> &r, int64_t c) const {
    return direct && c < p.n ? r.at[op_x] + c * bytes_of(p.dtype[op_x]) : nullptr;
  }

  // v of the chunk at c. A row of one chunk is built once for both loops.
  source piece(const row<C> &r, int64_t c, const char *soon) {
    if (direct) return {r.column(op_x, c), p.dtype[op_x], false, soon};
    if (held != c) {
      if (p.shapes_x || p.does.scale != 1) {
        r.build(c, length(c), buffer);
      } else {
        fetch(p.dtype[op_x], r.column(op_x, c), p.column[op_x], length(c), buffer);
      }
      held = c;
    }
    return {reinterpret_cast<const char *>(buffer), dtype_of<C>, true, nullptr};
  }

  void write(row<C> &r, int64_t c, const total &t, const char *soon) {
    int64_t n = length(c);
    char *y = r.column(op_y, c);
    bool contiguous = p.column[op_y] == 1;
    if (t.poisoned || t.empty || skips(r, c)) {
      std::fill(buffer, buffer + n, constant_of<C>(p, t));
      held = -1;
      return put(buffer, n, p.dtype[op_y], y, p.column[op_y]);
    }
    source from = piece(r, c, soon);
    if (contiguous) return emit_source<C>(p, from, n, t, y, p.dtype[op_y], p.past_caches);
    emit_source<C>(p, from, n, t, reinterpret_cast<char *>(buffer), dtype_of<C>, false);
    held = -1;
    put(buffer, n, p.dtype[op_y], y, p.column[op_y]);
  }

  const plan &p;
  const addresses &data;
  bool direct;        // x is read where it lies
  int64_t held = -1;  // the chunk that the buffer holds
  alignas(64) C buffer[chunk];
};

// A tile of rows side by side: `begin` and the following `side` rows share all but the last axis of the row space.
template <typename C>
void softmax_tile(const plan &p, const addresses &data, int64_t begin, int64_t side, C *tile) {
  const int64_t pitch = padded(std::min(p.n, chunk));
  running_total sums[256];
  total totals[256];
  auto build = [&](int64_t c, int64_t n) {
    row<C> first(p, data, begin);
    const char *x = first.column(op_x, c);
    auto read = [&]<typename T>(const T *from) { read_tile(from, p.column[op_x], side, n, tile, pitch); };
    if (same(p.dtype[op_x], dtype_of<float>)) read(reinterpret_cast<const float *>(x));
    else if (same(p.dtype[op_x], dtype_of<bfloat16>)) read(reinterpret_cast<const bfloat16 *>(x));
    else if (same(p.dtype[op_x], dtype_of<float16>)) read(reinterpret_cast<const float16 *>(x));
    else if constexpr (sizeof(C) == 8) read(reinterpret_cast<const double *>(x));
    if (!p.shapes_x && p.does.scale == 1) return;
    for (int64_t w = 0; w < side; ++w) row<C>(p, data, begin + w).build_from_x(c, n, tile + w * pitch);
  };
  auto in_tile = [&](int64_t w) { return source{reinterpret_cast<const char *>(tile + w * pitch), dtype_of<C>, true, nullptr}; };

  for (int64_t c = 0; c < p.n; c += chunk) {
    int64_t n = std::min(chunk, p.n - c);
    build(c, n);
    for (int64_t w = 0; w < side; ++w) sums[w].add(sweep_source<C>(p, in_tile(w), n));
  }
  for (int64_t w = 0; w < side; ++w) {
    row<C> r(p, data, begin + w);
    totals[w] = finish(sums[w].get(), r);
    put_row_results(r, totals[w]);
  }
  if (!p.has(op_y)) return;
  for (int64_t c = 0; c < p.n; c += chunk) {
    int64_t n = std::min(chunk, p.n - c);
    if (p.n > chunk) build(c, n);
    for (int64_t w = 0; w < side; ++w) {
      C *v = tile + w * pitch;
      if (totals[w].poisoned || totals[w].empty)
        std::fill(v, v + n, constant_of<C>(p, totals[w]));
      else
        emit_source<C>(p, in_tile(w), n, totals[w], reinterpret_cast<char *>(v), dtype_of<C>, false);
    }
    char *y = row<C>(p, data, begin).column(op_y, c);
    auto write = [&]<typename T>(T *to) { write_tile(tile, pitch, side, n, to, p.column[op_y], p.past_caches); };
    if (same(p.dtype[op_y], dtype_of<float>)) write(reinterpret_cast<float *>(y));
    else if (same(p.dtype[op_y], dtype_of<bfloat16>)) write(reinterpret_cast<bfloat16 *>(y));
    else if (same(p.dtype[op_y], dtype_of<float16>)) write(reinterpret_cast<float16 *>(y));
    else if constexpr (sizeof(C) == 8) write(reinterpret_cast<double *>(y));
  }
  if (p.past_caches) hwy::FlushStream();
}

// ---- what softmax_cpu.cpp calls -------------------------------------------------------------------------------------------

template <typename C>
void rows_of(const plan &p, const addresses &data, int64_t begin, int64_t end) {
  walker<C>(p, data).rows(begin, end);
}

template <typename C>
void sums_of(const plan &p, const addresses &data, int64_t index, int64_t first, int64_t last, pair *chunks) {
  walker<C> w(p, data);
  for (int64_t c = first; c < last; ++c) chunks[c] = w.sum_of_chunk(index, c * chunk);
}

template <typename C>
void write_of(const plan &p, const addresses &data, int64_t index, int64_t first, int64_t last, const total &t) {
  walker<C> w(p, data);
  for (int64_t c = first; c < last; ++c) w.write_chunk(index, c * chunk, t);
  if (p.past_caches) hwy::FlushStream();
}

template <typename C>
total finish_of(const plan &p, const addresses &data, int64_t index, const pair *chunks) {
  return walker<C>(p, data).finish_row(index, chunks);
}

template <typename C>
void tile_of(const plan &p, const addresses &data, int64_t begin, int64_t side, char *scratch) {
  softmax_tile<C>(p, data, begin, side, reinterpret_cast<C *>(scratch));
}

template <typename C>
constexpr forward_code code_for = {rows_of<C>, sums_of<C>, write_of<C>, finish_of<C>, tile_of<C>};

inline const forward_code &forward(bool wide) { return wide ? code_for<double> : code_for<float>; }

}  // namespace HWY_NAMESPACE
}  // namespace sluice::softmax
HWY_AFTER_NAMESPACE();

#endif
