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
HWY_INLINE pair sweep_as(const plan &p, const T *v, int64_t n, bool scaled, C *e, const T *soon,
                         scaled_writer<C, T> *before = nullptr) {
  C scale = scaled ? C(1) : C(p.does.scale);
  if constexpr (sizeof(C) == 4)  // doubles are never careful
    if (p.does.careful)
      return scale != 1 ? sweep<C, true, true>(v, n, scale, e, soon, before)
                        : sweep<C, true, false>(v, n, scale, e, soon, before);
  return scale != 1 ? sweep<C, false, true>(v, n, scale, e, soon, before)
                    : sweep<C, false, false>(v, n, scale, e, soon, before);
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

  // Takes `per_task` rows at a time from `next` on.
  void run(std::atomic<int64_t> &next) {
    auto take = [&] { return next.fetch_add(p.per_task, std::memory_order_relaxed); };
    for (int64_t begin = take(), after; begin < p.space.rows; begin = after) {
      after = take();
      rows(begin, std::min(p.space.rows, begin + p.per_task), after);
    }
    if (before_y) write_before();
    if (p.past_caches) hwy::FlushStream();
  }

  pair sum_of_chunk(int64_t index, int64_t c) {
    row<C> r(p, data, index);
    return skips(r, c) ? pair{lowest<double>, 0} : sum_of(r, c, nullptr);
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
    write(r, c, t, nullptr);
  }

 private:
  int64_t length(int64_t c) const { return std::min(chunk, p.n - c); }
  bool skips(const row<C> &r, int64_t c) const { return c >= r.columns.last || c + chunk <= r.columns.first; }

  // Rows [begin, end); `after` is the next, if there is one.
  void rows(int64_t begin, int64_t end, int64_t after) {
    bool keeps = p.has(op_y) && !p.does.log && (terms || p.n <= chunk);
    bool in_turn = direct && keeps && p.n > 0 && p.column[op_y] == 1 && same(p.dtype[op_y], p.dtype[op_x]);
    if (!in_turn) {
      for (int64_t index = begin; index < end; ++index) one_row(index, keeps);
      return;
    }
    with_source<C>({static_cast<const char *>(data.at[op_x]), p.dtype[op_x], false},
                   [&]<typename T>(const T *x) {
                     for (int64_t index = begin; index < end; ++index)
                       row_in_turn(x, index, index + 1 < end ? index + 1 : after);
                   });
  }

  // One of many rows: y of the row before is written block by block between the exponentials of this one, which
  // take the place of its own. So memory is read and written at all times, and not by turns.
  template <typename T>
  void row_in_turn(const T *x, int64_t index, int64_t next) {
    const T *v = x + p.space.locate(index, op_x), *next_v = nullptr;
    if (next < p.space.rows) next_v = x + p.space.locate(next, op_x);
    running_total sum;
    for (int64_t c = 0; c < p.n; c += chunk) {
      const T *soon = c + chunk < p.n ? v + c + chunk : next_v;
      pair part;
      if (before_y) {
        scaled_writer<C, T> writer = writer_before<T>(c);
        part = sweep_as(p, v + c, length(c), false, terms_at(c), soon, &writer);
      } else {
        part = sweep_as(p, v + c, length(c), false, terms_at(c), soon);
      }
      most[c / chunk] = part.m;
      sum.add(part);
    }
    char *y = static_cast<char *>(data.at[op_y]) + p.space.locate(index, op_y) * int64_t(sizeof(T));
    if (!p.has(op_sink) && !p.has(op_lse) && !p.has(op_max)) {
      before = finish<C>(sum.get(), false);
    } else {
      row<C> r(p, data, index);
      before = finish(sum.get(), r);
      put_row_results(r, before);
    }
    before_y = y;
    if (before.poisoned || before.empty) write_constants(y);
  }

  template <typename T>
  scaled_writer<C, T> writer_before(int64_t c) {
    return {length(c), reinterpret_cast<T *>(before_y) + c, p.past_caches,
            scaled_terms<C>{terms_at(c), factor_of<C>(before, most[c / chunk])}};
  }

  void write_before() {
    with_type<C>(p.dtype[op_y], before_y, [&]<typename T>(T *) {
      for (int64_t c = 0; c < p.n; c += chunk)
        for (auto writer = writer_before<T>(c); !writer.done();) writer.step();
    });
  }

  // Of a row that was `before`, poisoned or empty: nothing is left to write then.
  void write_constants(char *y) {
    alignas(64) C constants[block];
    std::fill(constants, constants + block, constant_of<C>(p, before));
    for (int64_t j = 0; j < p.n; j += block)
      put(constants, std::min(block, p.n - j), p.dtype[op_y], y + j * bytes_of(p.dtype[op_y]), 1);
    before_y = nullptr;
  }

  void one_row(int64_t index, bool keeps) {
    row<C> r(p, data, index);
    running_total sum;
    for (int64_t c = 0; c < p.n; c += chunk) {
      if (skips(r, c)) continue;
      pair part = sum_of(r, c, keeps ? terms_at(c) : nullptr);
      if (keeps) most[c / chunk] = part.m;
      sum.add(part);
    }
    total t = finish(sum.get(), r);
    put_row_results(r, t);
    for (int64_t c = 0; c < p.n && p.has(op_y); c += chunk)
      write(r, c, t, keeps ? &most[c / chunk] : nullptr);
  }

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
  pair sum_of(const row<C> &r, int64_t c, C *e) {
    source at = piece(r, c, e ? e : buffer);
    pair sum = {};
    with_source<C>(at, [&]<typename T>(const T *v) {
      const T *soon = direct && c + chunk < p.n ? v + chunk : nullptr;
      sum = sweep_as(p, v, length(c), at.scaled, e, soon);
    });
    return sum;
  }

  // The chunk at c of y. most: the chunk's maximum, where its terms are kept.
  void write(row<C> &r, int64_t c, const total &t, const double *most) {
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
      double m = most ? *most : sum_of(r, c, e).m;
      with_type<C>(dtype, y, [&]<typename Out>(Out *to) {
        write_row<C>(n, to, contiguous && p.past_caches, scaled_terms<C>{e, factor_of<C>(t, m)});
      });
    }
    if (!contiguous) put(buffer, n, p.dtype[op_y], r.column(op_y, c), p.column[op_y]);
  }

  const plan &p;
  const addresses &data;
  C *terms;
  bool direct;  // x is read where it lies
  double most[most_chunks];  // of each chunk whose terms are kept
  // Of the row before: nullptr where nothing is left to write.
  char *before_y = nullptr;
  total before;
  alignas(64) C buffer[chunk];
};

// ---- what softmax_cpu.cpp calls
// -------------------------------------------------------------------------------------------

template <typename C>
void rows_of(const plan &p, const addresses &data, std::atomic<int64_t> &next, char *room) {
  walker<C>(p, data, reinterpret_cast<C *>(room)).run(next);
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
