// backward-inl.hpp: the gradient of softmax, a piece of a row at a time, on one thread. Compiled once for
// each instruction set.
#if defined(SLUICE_SOFTMAX_BACKWARD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SOFTMAX_BACKWARD_INL
#undef SLUICE_SOFTMAX_BACKWARD_INL
#else
#define SLUICE_SOFTMAX_BACKWARD_INL
#endif

#include <hwy/highway.h>

#include "ops/softmax/cpu_code.hpp"
#include "ops/softmax/row-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace sluice::softmax {
namespace HWY_NAMESPACE {

// Columns worked on at once: five buffers of them stay in the first-level cache.
constexpr int64_t stretch = 512;

// Sum of f(i) over whole vectors of [0, n), in double.
template <typename C, typename F>
HWY_INLINE double add_up(int64_t n, F &&f) {
  const simd::full<C> d;
  const simd::full<double> dd;
  const int64_t step = int64_t(hn::Lanes(d));
  auto low = hn::Zero(dd), high = hn::Zero(dd);
  for (int64_t i = 0; i < n; i += step) {
    const auto t = f(i);
    if constexpr (sizeof(C) == 8) {
      low = hn::Add(low, t);
    } else {
#if HWY_TARGET == HWY_SCALAR
      low = hn::Add(low, hn::PromoteTo(dd, t));
#else
      const hn::Half<simd::full<float>> half;
      low = hn::Add(low, hn::PromoteTo(dd, hn::LowerHalf(half, t)));
      high = hn::Add(high, hn::PromoteTo(dd, hn::UpperHalf(half, t)));
#endif
    }
  }
  return hn::GetLane(hn::SumOfLanes(dd, hn::Add(low, high)));
}

template <typename C>
class gradient_row {
 public:
  gradient_row(const backward_plan &b, const addresses &data, int64_t index)
      : b(b), r(b.rows, data, index), lse(one(op_lse)), d_lse(one(op_d_lse)) {
    empty = r.at[op_lse] && lse == lowest<C>;
    empty_value =
        b.rows.does.empty_row == SLUICE_EMPTY_ROW_NAN ? std::numeric_limits<double>::quiet_NaN() : 0.0;
  }

  // D: the sum of p * dy, or of dy with log.
  double dot() {
    double sum = 0;
    for (int64_t c = 0; c < b.rows.n && !empty; c += stretch) {
      read(c);
      const simd::full<C> d;
      bool log = b.rows.does.log;
      sum += add_up<C>(padded(count), [&](int64_t i) HWY_ATTR {
        const auto g = hn::LoadU(d, dy + i);
        return log ? g : hn::Mul(g, hn::LoadU(d, p + i));
      });
    }
    return sum;
  }

  // u of columns [c, c + count) into `u`: the gradient of v before temperature. Also g into `dy`.
  void read_u(int64_t c, double dot_of_row) {
    read(c);
    if (empty) {
      std::fill(u, u + padded(count), C(empty_value));
      std::copy(u, u + padded(count), dy);
      return;
    }
    const simd::full<C> d;
    const auto shift = hn::Set(d, C(dot_of_row - double(d_lse)));
    const auto divisor = hn::Set(d, r.at[op_temperature] ? r.temperature : C(1));
    bool log = b.rows.does.log;
    for_each(u, padded(count), [&](auto, int64_t i) HWY_ATTR {
      const auto share = hn::LoadU(d, p + i), incoming = hn::LoadU(d, dy + i);
      auto g = log ? hn::Sub(incoming, hn::Mul(share, shift)) : hn::Mul(share, hn::Sub(incoming, shift));
      // A poisoned row must not reach its excluded columns.
      g = hn::IfThenElse(hn::Eq(hn::LoadU(d, counts + i), hn::Zero(d)), hn::Zero(d), g);
      hn::StoreU(g, d, dy + i);
      return hn::Div(g, divisor);
    });
  }

  struct shares {
    double mask, slopes, sink, temperature;
  };

  // dx of the row, and its shares of the gradients that add up over rows.
  shares finish(double dot_of_row) {
    shares s = {0, 0, 0, 0};
    const simd::full<C> d;
    for (int64_t c = 0; c < b.rows.n; c += stretch) {
      read_u(c, dot_of_row);
      auto sum = [&](auto &&f) HWY_ATTR { return add_up<C>(padded(count), f); };
      if (b.mask.wanted && b.mask.column == 0)
        s.mask += sum([&](int64_t i) HWY_ATTR { return hn::LoadU(d, u + i); });
      if (b.slopes.wanted) {
        clear_ends(other);
        r.distances(c, count, other);
        s.slopes -=
            sum([&](int64_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, u + i), hn::LoadU(d, other + i)); });
      }
      if (b.temperature.wanted) {
        const auto t = hn::Set(d, r.temperature);
        s.temperature -= sum([&](int64_t i) HWY_ATTR {
          const auto g = hn::LoadU(d, dy + i);
          const auto product = hn::Div(hn::Mul(g, hn::LoadU(d, v + i)), t);
          return hn::IfThenElse(hn::Eq(g, hn::Zero(d)), hn::Zero(d), product);  // 0 * -inf
        });
      }
      if (r.at[op_dx]) write_dx(c);
    }
    if (b.sink.wanted) {
      double sink = C(fetch_one(b.rows.dtype[op_sink], r.at[op_sink]));
      s.sink = empty ? empty_value : exp_one(sink - double(lse)) * (double(d_lse) - dot_of_row);
    }
    return s;
  }

  int64_t count = 0;               // columns read
  alignas(64) C u[stretch];

 private:
  C one(operand k) const { return r.at[k] ? C(fetch_one(b.rows.dtype[k], r.at[k])) : C(0); }

  // What lies behind the last column counts for nothing.
  void clear_ends(C *a) const { std::fill(a + count, a + padded(count), C(0)); }

  // p, dy and which columns count, of [c, c + stretch).
  void read(int64_t c) {
    const plan &rows = b.rows;
    const simd::full<C> d;
    count = std::min(stretch, rows.n - c);
    if (b.from_y)
      read_p_from_y(c);
    else
      read_p_from_x(c);
    clear_ends(counts);
    int64_t first = std::clamp<int64_t>(r.columns.first - c, 0, count);
    int64_t last = std::max(first, std::clamp<int64_t>(r.columns.last - c, 0, count));
    std::fill(dy, dy + padded(count), C(0));
    if (r.at[op_dy] && first < last)
      fetch(rows.dtype[op_dy], r.column(op_dy, c + first), rows.column[op_dy], last - first, dy + first);
    const auto zero = hn::Zero(d);
    for_each(dy, padded(count), [&](auto g, int64_t i) HWY_ATTR {
      return hn::IfThenElse(hn::Eq(hn::LoadU(d, counts + i), zero), zero, g);
    });
    for_each(p, padded(count), [&](auto share, int64_t i) HWY_ATTR {
      return hn::IfThenElse(hn::Eq(hn::LoadU(d, counts + i), zero), zero, share);
    });
  }

  void read_p_from_y(int64_t c) {
    const plan &rows = b.rows;
    const simd::full<C> d;
    const C nothing = rows.does.log ? lowest<C> : C(0);
    int64_t first = std::clamp<int64_t>(r.columns.first - c, 0, count);
    int64_t last = std::max(first, std::clamp<int64_t>(r.columns.last - c, 0, count));
    std::fill(v, v + padded(count), nothing);
    if (first < last)
      fetch(rows.dtype[op_y], r.column(op_y, c + first), rows.column[op_y], last - first, v + first);
    if (r.at[op_keep])
      for (int64_t i = first; i < last; ++i)
        if (*r.column(op_keep, c + i) == 0) v[i] = nothing;
    if (r.at[op_mask]) {
      fetch(rows.dtype[op_mask], r.column(op_mask, c + first), rows.column[op_mask], last - first,
            other + first);
      for (int64_t i = first; i < last; ++i)
        if (other[i] == lowest<C>) v[i] = nothing;
    }
    mark(nothing);
    for_each(p, padded(count), [&](auto, int64_t i) HWY_ATTR {
      const auto y = hn::LoadU(d, v + i);
      return rows.does.log ? simd::exp_below(d, y) : y;
    });
  }

  void read_p_from_x(int64_t c) {
    const simd::full<C> d;
    std::fill(v, v + padded(count), lowest<C>);
    r.build(c, count, v);
    mark(lowest<C>);
    const auto base = hn::Set(d, lse);
    for_each(p, padded(count), [&](auto, int64_t i) HWY_ATTR {
      return simd::exp_below(d, hn::Sub(hn::LoadU(d, v + i), base));
    });
  }

  void mark(C nothing) {
    const simd::full<C> d;
    for_each(counts, padded(count), [&](auto, int64_t i) HWY_ATTR {
      return hn::IfThenElse(hn::Eq(hn::LoadU(d, v + i), hn::Set(d, nothing)), hn::Zero(d), hn::Set(d, C(1)));
    });
  }

  void write_dx(int64_t c) {
    const plan &rows = b.rows;
    const simd::full<C> d;
    const auto scale = hn::Set(d, C(rows.does.scale));
    if (rows.does.softcap != 0 && !empty) {
      const auto cap = hn::Set(d, C(rows.does.softcap)), one = hn::Set(d, C(1));
      std::fill(other, other + padded(count), C(0));
      fetch(rows.dtype[op_x], r.column(op_x, c), rows.column[op_x], count, other);
      for_each(u, padded(count), [&](auto g, int64_t i) HWY_ATTR {
        const auto t = tanh_of(d, hn::Div(hn::Mul(hn::LoadU(d, other + i), scale), cap));
        const auto slope = hn::NegMulAdd(t, t, one);
        return hn::IfThenElse(hn::Eq(hn::LoadU(d, counts + i), hn::Zero(d)), hn::Zero(d), hn::Mul(g, slope));
      });
    }
    for_each(u, padded(count), [&](auto g, int64_t) HWY_ATTR { return hn::Mul(g, scale); });
    put(u, count, rows.dtype[op_dx], r.column(op_dx, c), rows.column[op_dx]);
  }

  const backward_plan &b;
  row<C> r;
  C lse, d_lse;
  bool empty;
  double empty_value;
  alignas(64) C p[stretch], dy[stretch], v[stretch], counts[stretch], other[stretch];
};

// ---- what softmax_backward_cpu.cpp calls
// ---------------------------------------------------------------------------------

template <typename C>
void dots_of(const backward_plan &b, const addresses &data, double *dots, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) dots[row] = gradient_row<C>(b, data, row).dot();
}

template <typename C>
void gradients_of(const backward_plan &b, const backward_scratch &s, const addresses &data, int64_t begin,
                  int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    auto share = gradient_row<C>(b, data, row).finish(s.dots[row]);
    if (s.mask) s.mask[row] = share.mask;
    if (s.slopes) s.slopes[row] = share.slopes;
    if (s.sink) s.sink[row] = share.sink;
    if (s.temperature) s.temperature[row] = share.temperature;
  }
}

template <typename C>
void mask_of(const backward_plan &b, const backward_scratch &s, const addresses &data, const gradients &out,
             int64_t kept, int64_t piece) {
  int64_t at[2];
  b.mask.kept.locate(kept, at);
  double sum[stretch] = {};
  int64_t begin = piece * stretch, count = std::min(stretch, b.rows.n - begin);
  for (int64_t k = 0; k < b.mask.shared.rows; ++k) {
    int64_t row = at[1] + b.mask.shared.locate(k, 0);
    gradient_row<C> g(b, data, row);
    g.read_u(begin, s.dots[row]);
    for (int64_t i = 0; i < count; ++i) sum[i] += double(g.u[i]);
  }
  char *to = static_cast<char *>(out.mask) + (at[0] + begin * b.mask.column) * bytes_of(b.mask.dtype);
  put(sum, count, b.mask.dtype, to, b.mask.column);
}

inline int64_t mask_pieces(int64_t n) { return (n + stretch - 1) / stretch; }

template <typename C>
constexpr backward_code backward_for = {dots_of<C>, gradients_of<C>, mask_of<C>, mask_pieces};

inline const backward_code &backward(bool wide) { return wide ? backward_for<double> : backward_for<float>; }

}  // namespace HWY_NAMESPACE
}  // namespace sluice::softmax
HWY_AFTER_NAMESPACE();

#endif
