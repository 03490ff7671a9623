// forward-inl.hpp: softmax of whole rows and of pieces of a row, on one thread, and the table of what an
// instruction set offers. Compiled once for each.
#if defined(SLUICE_SOFTMAX_FORWARD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SOFTMAX_FORWARD_INL
#undef SLUICE_SOFTMAX_FORWARD_INL
#else
#define SLUICE_SOFTMAX_FORWARD_INL
#endif

#include <hwy/highway.h>

#include "ops/softmax/columns-inl.hpp"
#include "ops/softmax/cpu_code.hpp"
#include "ops/softmax/totals-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace sluice::softmax {
namespace HWY_NAMESPACE {

// A piece of v on its way: x itself where C reads it directly, or a buffer of C.
struct source {
  const char *v;
  sluice_dtype dtype;
  bool scaled;  // scale is applied already
};

// f(pointer); in double only double is read directly, so that fewer loops are compiled.
template <typename C, typename F>
void with_source(const source &from, F &&f) {
  if constexpr (sizeof(C) == 8)
    f(reinterpret_cast<const double *>(from.v));
  else
    with_type<C>(from.dtype, from.v, f);
}

template <typename C, typename T>
HWY_INLINE pair sweep_as(const plan &p, const T *v, int64_t n, bool scaled, C *e, ahead soon) {
  C scale = scaled ? C(1) : C(p.does.scale);
  if (p.does.careful)
    return scale != 1 ? sweep<C, true, true>(v, n, scale, e, soon)
                      : sweep<C, true, false>(v, n, scale, e, soon);
  return scale != 1 ? sweep<C, false, true>(v, n, scale, e, soon)
                    : sweep<C, false, false>(v, n, scale, e, soon);
}

// Rows one after the other, a chunk at a time.
template <typename C>
class walker {
 public:
  // terms: room for a row's e^(v - m) in whole blocks; nullptr: a row of more than one chunk makes them
  // twice.
  walker(const plan &p, const addresses &data, C *terms) : p(p), data(data), terms(terms) {
    direct = !p.shapes_x && p.column[op_x] == 1 && (sizeof(C) == 4 || same(p.dtype[op_x], dtype_of<double>));
  }

  void rows(int64_t begin, int64_t end) {
    bool plain = direct && p.n > 0 && p.n <= chunk && p.has(op_y) && p.column[op_y] == 1 && !p.does.log &&
                 !p.has(op_sink) && !p.has(op_lse) && !p.has(op_max);
    if (plain)
      plain_rows(begin, end);
    else
      for (int64_t index = begin; index < end; ++index) one_row(index, index + 1 < end);
    if (p.past_caches) hwy::FlushStream();
  }

  pair sum_of_chunk(int64_t index, int64_t c) {
    row<C> r(p, data, index);
    return skips(r, c) ? pair{lowest<double>, 0} : sum_of(r, c, nullptr, nullptr);
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
    write(r, c, t, nullptr, nullptr);
  }

 private:
  int64_t length(int64_t c) const { return std::min(chunk, p.n - c); }
  bool skips(const row<C> &r, int64_t c) const { return c >= r.columns.last || c + chunk <= r.columns.first; }

  // Short rows of the plain softmax: nothing is looked up or chosen from row to row.
  void plain_rows(int64_t begin, int64_t end) {
    const source x = {static_cast<const char *>(data.at[op_x]), p.dtype[op_x], false};
    with_source<C>(x, [&]<typename T>(const T *x) {
      with_type<C>(p.dtype[op_y], static_cast<char *>(data.at[op_y]), [&]<typename Out>(Out *y) {
        const T *v = x + p.space.locate(begin, op_x);
        for (int64_t index = begin; index < end; ++index) {
          const T *next = index + 1 < end ? x + p.space.locate(index + 1, op_x) : nullptr;
          pair sum = sweep_as(p, v, p.n, false, buffer, {reinterpret_cast<const char *>(next), sizeof(T)});
          Out *to = y + p.space.locate(index, op_y);
          total t = finish<C>(sum, false);
          if (t.poisoned || t.empty)
            write_constant(reinterpret_cast<char *>(to), p.n, t);
          else
            emit_scaled(buffer, p.n, factor_of<C>(t, t.m), to, p.past_caches, {});
          v = next;
        }
      });
    });
  }

  void one_row(int64_t index, bool has_next) {
    row<C> r(p, data, index);
    bool keeps = p.has(op_y) && !p.does.log && (terms || p.n <= chunk);
    double most[most_chunks];
    running_total sum;
    for (int64_t c = 0; c < p.n; c += chunk) {
      if (skips(r, c)) continue;
      pair part = sum_of(r, c, keeps ? terms_at(c) : nullptr,
                         direct && c + chunk < p.n ? r.column(op_x, c + chunk) : nullptr);
      if (keeps) most[c / chunk] = part.m;
      sum.add(part);
    }
    total t = finish(sum.get(), r);
    put_row_results(r, t);
    if (!p.has(op_y)) return;
    const char *next = nullptr;
    if (direct && has_next)
      next = static_cast<const char *>(data.at[op_x]) +
             p.space.locate(index + 1, op_x) * bytes_of(p.dtype[op_x]);
    for (int64_t c = 0; c < p.n; c += chunk) {
      const char *soon = next ? next + c * bytes_of(p.dtype[op_x]) : nullptr;
      write(r, c, t, keeps ? &most[c / chunk] : nullptr, soon);
    }
  }

  ahead from(const char *x) const { return {x, bytes_of(p.dtype[op_x])}; }

  C *terms_at(int64_t c) { return terms ? terms + c : buffer; }

  // v of the chunk at c: x, or built into `room`.
  source piece(const row<C> &r, int64_t c, C *room) {
    if (direct) return {r.column(op_x, c), p.dtype[op_x], false};
    if (p.shapes_x) {
      r.build(c, length(c), room);
    } else {
      fetch(p.dtype[op_x], r.column(op_x, c), p.column[op_x], length(c), room);
      if (p.does.scale != 1) r.build_from_x(c, length(c), room);
    }
    return {reinterpret_cast<const char *>(room), dtype_of<C>, true};
  }

  // (maximum, sum) of the chunk at c, and its terms into `e` if that is not nullptr.
  pair sum_of(const row<C> &r, int64_t c, C *e, const char *soon) {
    source at = piece(r, c, e ? e : buffer);
    pair sum = {};
    with_source<C>(
        at, [&]<typename T>(const T *v) { sum = sweep_as(p, v, length(c), at.scaled, e, from(soon)); });
    return sum;
  }

  // The chunk at c of y. most: the chunk's maximum, where its terms are kept; soon: x that is read next.
  void write(row<C> &r, int64_t c, const total &t, const double *most, const char *soon) {
    int64_t n = length(c);
    bool contiguous = p.column[op_y] == 1;
    char *y = contiguous ? r.column(op_y, c) : reinterpret_cast<char *>(buffer);
    sluice_dtype dtype = contiguous ? p.dtype[op_y] : dtype_of<C>;
    if (t.poisoned || t.empty || skips(r, c)) {
      std::fill(buffer, buffer + n, constant_of<C>(p, t));
      return put(buffer, n, p.dtype[op_y], r.column(op_y, c), p.column[op_y]);
    }
    if (p.does.log) {
      source at = piece(r, c, buffer);
      C scale = at.scaled ? C(1) : C(p.does.scale);
      with_source<C>(at, [&]<typename T>(const T *v) {
        with_type<C>(dtype, y, [&]<typename Out>(Out *to) {
          emit_log(v, n, scale, C(t.m), C(t.log_s), to, contiguous && p.past_caches);
        });
      });
    } else {
      C *e = most ? terms_at(c) : buffer;
      double m = most ? *most : sum_of(r, c, e, nullptr).m;
      with_type<C>(dtype, y, [&]<typename Out>(Out *to) {
        emit_scaled(e, n, factor_of<C>(t, m), to, contiguous && p.past_caches, from(soon));
      });
    }
    if (!contiguous) put(buffer, n, p.dtype[op_y], r.column(op_y, c), p.column[op_y]);
  }

  void write_constant(char *y, int64_t n, const total &t) {
    std::fill(buffer, buffer + n, constant_of<C>(p, t));
    put(buffer, n, p.dtype[op_y], y, 1);
  }

  const plan &p;
  const addresses &data;
  C *terms;
  bool direct;  // x is read where it lies
  alignas(64) C buffer[chunk];
};

// ---- what softmax_cpu.cpp calls
// -------------------------------------------------------------------------------------------

template <typename C>
void rows_of(const plan &p, const addresses &data, int64_t begin, int64_t end, char *room) {
  walker<C>(p, data, reinterpret_cast<C *>(room)).rows(begin, end);
}

template <typename C>
void sums_of(const plan &p, const addresses &data, int64_t index, int64_t first, int64_t last, pair *chunks) {
  walker<C> w(p, data, nullptr);
  for (int64_t c = first; c < last; ++c) chunks[c] = w.sum_of_chunk(index, c * chunk);
}

template <typename C>
void write_of(const plan &p, const addresses &data, int64_t index, int64_t first, int64_t last,
              const total &t) {
  walker<C> w(p, data, nullptr);
  for (int64_t c = first; c < last; ++c) w.write_chunk(index, c * chunk, t);
  if (p.past_caches) hwy::FlushStream();
}

template <typename C>
total finish_of(const plan &p, const addresses &data, int64_t index, const pair *chunks) {
  return walker<C>(p, data, nullptr).finish_row(index, chunks);
}

template <typename C>
void tiles_of(const plan &p, const addresses &data, std::atomic<int64_t> &next, char *room) {
  with_type<C>(p.dtype[op_x], static_cast<const char *>(data.at[op_x]), [&]<typename T>(const T *) {
    column_tiles<C, T>(p, data, reinterpret_cast<C *>(room)).run(next);
  });
}

template <typename C>
constexpr forward_code code_for = {rows_of<C>, sums_of<C>, write_of<C>, finish_of<C>, tiles_of<C>};

inline const forward_code &forward(bool wide) { return wide ? code_for<double> : code_for<float>; }

}  // namespace HWY_NAMESPACE
}  // namespace sluice::softmax
HWY_AFTER_NAMESPACE();

#endif
