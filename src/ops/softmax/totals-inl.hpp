// totals-inl.hpp: from the pairs of a row's chunks to what every column of y needs, and the run-time choices
// (dtype, form) turned into types. Compiled once for each instruction set.
#if defined(SLUICE_SOFTMAX_TOTALS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SOFTMAX_TOTALS_INL
#undef SLUICE_SOFTMAX_TOTALS_INL
#else
#define SLUICE_SOFTMAX_TOTALS_INL
#endif

#include <hwy/highway.h>

#include "ops/softmax/sweep-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace sluice::softmax {
namespace HWY_NAMESPACE {

// Chunks added up in their order.
class running_total {
 public:
  void add(const pair &c) {
    if (c.m == lowest<double>) {  // nothing there, or NaN in the sum
      if (c.s != 0) s = c.s;
      return;
    }
    if (m == lowest<double> && s == 0) {
      m = c.m, s = c.s;
    } else if (c.m > m) {
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
total finish(pair sum, bool wants_log) {
  constexpr double infinite = -lowest<double>;
  total t = {};
  t.m = sum.m;
  t.s = sum.s;
  t.poisoned = !(t.s < infinite) || !(t.m < infinite);
  t.empty = !t.poisoned && t.s == 0;
  if (wants_log) {
    t.log_s = log_one(t.s);
    t.lse = t.empty ? lowest<double> : t.m + t.log_s;
  }
  if (t.poisoned) t.m = t.lse = std::numeric_limits<double>::quiet_NaN();
  return t;
}

// The sum of a row with its sink, and what follows from it.
template <typename C>
total finish(pair sum, const row<C> &r) {
  if (r.at[op_sink]) {
    double sink = C(fetch_one(r.p.dtype[op_sink], r.at[op_sink]));
    running_total with;
    with.add(sum);
    with.add({sink, sink == sink && sink != lowest<double> ? 1.0 : sink == sink ? 0.0 : sink});
    sum = with.get();
  }
  return finish<C>(sum, r.p.does.log || r.at[op_lse]);
}

template <typename C>
void put_row_results(row<C> &r, const total &t) {
  if (r.at[op_lse]) put_one(t.lse, r.p.dtype[op_lse], r.at[op_lse]);
  if (r.at[op_max]) put_one(t.empty ? lowest<double> : t.m, r.p.dtype[op_max], r.at[op_max]);
}

// What every column of y holds where that does not depend on x: a poisoned or an empty row, or excluded
// columns.
template <typename C>
C constant_of(const plan &p, const total &t) {
  double none = p.does.log ? lowest<double> : 0.0;
  if (t.poisoned) return std::numeric_limits<C>::quiet_NaN();
  if (!t.empty || p.does.empty_row == SLUICE_EMPTY_ROW_ZERO) return C(none);
  if (p.does.empty_row == SLUICE_EMPTY_ROW_NAN) return std::numeric_limits<C>::quiet_NaN();
  return C(p.does.log ? -log_one(double(p.n)) : 1.0 / double(p.n));
}

// What turns e^(v - m) of a chunk whose maximum is m into y.
template <typename C>
C factor_of(const total &t, double m) {
  return C((m == t.m ? 1.0 : exp_one(m - t.m)) / t.s);
}

// f(pointer) for a float dtype that C computes; `byte` says char, const or not.
template <typename C, typename byte, typename F>
void with_type(sluice_dtype dtype, byte *p, F &&f) {
  auto as = [&]<typename T>(T) {
    using pointer = std::conditional_t<std::is_const_v<byte>, const T *, T *>;
    f(reinterpret_cast<pointer>(p));
  };
  if (same(dtype, dtype_of<float>)) return as(float());
  if (same(dtype, dtype_of<bfloat16>)) return as(bfloat16());
  if (same(dtype, dtype_of<float16>)) return as(float16());
  if constexpr (sizeof(C) == 8) as(double());
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::softmax
HWY_AFTER_NAMESPACE();

#endif
