// softmax_row.cuh: one row as a team of lanes sees it, 16 bytes at a time: where it lies, which of its columns
// count, and their final v by the header's order of effects, each line of which is rounded on its own.
#pragma once

#include <cmath>

#include "cuda/convert.cuh"
#include "cuda/lines.cuh"
#include "cuda/rounded.cuh"
#include "ops/softmax/softmax_rows.cuh"

namespace sluice::softmax {

// ---- where a row lies -------------------------------------------------------------------------------------

// Offsets of a row's first element in the operands asked for.
template <operand... asked>
class places {
 public:
  // joined: there is at most one axis.
  __device__ places(const plan &p, const addresses &data, int64_t row, bool joined = false) {
    if (joined)
      ((offset[place_of(asked)] = row * p.space.stride[0][asked]), ...);
    else
      walk(p, row);
    ((at[place_of(asked)] = first_byte(data.at[asked], offset[place_of(asked)], p.dtype[asked])), ...);
  }

  // The row's first element of an operand; nullptr where it is absent.
  template <operand k>
  __device__ char *of() const {
    return at[place_of(k)];
  }
  __device__ int64_t query() const { return offset[place_of(op_query)]; }

 private:
  __device__ void walk(const plan &p, int64_t row) {
    for (int a = p.space.axes - 1; a >= 0; --a) {
      int64_t index = a > 0 ? take_index(row, p.space.extent[a]) : row;
      ((offset[place_of(asked)] += index * p.space.stride[a][asked]), ...);
    }
  }

  static constexpr int count = sizeof...(asked);
  static __device__ constexpr int place_of(operand k) {
    int i = 0, found = 0;
    ((asked == k ? found = i++ : i++), ...);
    return found;
  }
  static __device__ char *first_byte(void *base, int64_t elements, sluice_dtype type) {
    return base ? cuda::element(base, elements, type) : nullptr;
  }
  // row % extent, and row / extent in its place. A division of 64 bits takes five times as long.
  static __device__ int64_t take_index(int64_t &row, int64_t extent) {
    int64_t whole = row;
    row = (row | extent) >> 32 == 0 ? int64_t(uint32_t(row) / uint32_t(extent)) : row / extent;
    return whole - row * extent;
  }

  int64_t offset[count] = {};
  char *at[count];
};

// ---- what every row has -----------------------------------------------------------------------------------

template <typename X>
inline constexpr sluice_dtype storage_dtype = __is_same(X, float)    ? dtype_of<float>
                                              : __is_same(X, __half) ? dtype_of<float16>
                                                                     : dtype_of<bfloat16>;

// v = scale * x, and every column counts.
template <typename X, rows_are kind>
class row_of_x {
 public:
  static constexpr bool aligned = kind == rows_are::aligned;
  using place = places<op_x, op_y, op_lse, op_max>;
  static constexpr int columns = cuda::line_columns<X>;

  __device__ row_of_x(const plan &p, const place &at)
      : n(p.n), x(at.template of<op_x>(), p.column[op_x]), scale(float(p.does.scale)) {}

  // Lines of a lane, one every `step` columns from `column` on.
  template <int lines>
  __device__ void load(cuda::line (&to)[lines], int64_t column, int step) const {
    cuda::load_lines(to, x, column, step, 0, n, n, beyond(scale));
  }
  template <int lines>
  __device__ void values(float (&v)[lines * columns], const cuda::line (&from)[lines], int64_t, int) const {
#pragma unroll
    for (int i = 0; i < lines * columns; ++i) v[i] = cuda::column_of<X>(from[i / columns], i % columns);
    if (scale == 1) return;
#pragma unroll
    for (float &each : v) each = cuda::times(each, scale);
  }
  __device__ float sink() const { return -INFINITY; }

  // What stands where there is no column: scaled, -inf.
  static __device__ X beyond(float scale) { return X(scale < 0 ? INFINITY : -INFINITY); }

  const int64_t n;
  const cuda::strip<X, aligned> x;

 private:
  const float scale;
};

// ---- everything the header lists --------------------------------------------------------------------------

template <typename X>
class row_of_x<X, rows_are::shaped> {
 public:
  static constexpr bool aligned = false;
  using place = places<op_x, op_y, op_lse, op_max, op_mask, op_keep, op_lengths, op_slopes, op_sink,
                       op_temperature, op_query>;
  static constexpr int columns = cuda::line_columns<X>;

  __device__ row_of_x(const plan &p, const place &at)
      : n(p.n), x(at.template of<op_x>(), p.column[op_x]), p(p), mask(at.template of<op_mask>()),
        keep(at.template of<op_keep>()), diagonal(at.query() + p.does.diagonal) {
    int64_t length = n;
    if (const void *given = at.template of<op_lengths>()) {
      length = cuda::load_index(given, p.dtype[op_lengths]);
      length = length < 0 ? 0 : length > n ? n : length;
    }
    counted = p.does.columns(at.query(), length);
    auto one = [&]<operand k>(float otherwise) {
      const void *given = at.template of<k>();
      return given ? cuda::load_as<float>(given, p.dtype[k]) : otherwise;
    };
    slope = one.template operator()<op_slopes>(0.0f);
    below = one.template operator()<op_sink>(-INFINITY);
    temperature = one.template operator()<op_temperature>(1.0f);
  }

  template <int lines>
  __device__ void load(cuda::line (&to)[lines], int64_t column, int step) const {
    cuda::load_lines(to, x, column, step, counted.first, counted.last, n, X(0.0f));
  }

  template <int lines>
  __device__ void values(float (&v)[lines * columns], const cuda::line (&from)[lines], int64_t column,
                         int step) const {
    const effects &does = p.does;
    uint32_t counts = in_range<lines>(column, step);
    if (keep && counts) counts &= kept<lines>(column, step, counts);

#pragma unroll
    for (int i = 0; i < lines * columns; ++i)
      v[i] = cuda::times(cuda::column_of<X>(from[i / columns], i % columns), float(does.scale));
    if (does.softcap != 0)
#pragma unroll
      for (float &each : v)
        each = cuda::times(float(does.softcap), tanhf(cuda::over(each, float(does.softcap))));
    if (p.dtype[op_slopes].lanes)
#pragma unroll
      for (int i = 0; i < lines * columns; ++i) {
        int64_t away = column + i / columns * step + i % columns - diagonal;
        v[i] = cuda::minus(v[i], cuda::times(slope, float(away < 0 ? -away : away)));
      }
    if (mask && counts) counts &= masked<lines>(v, column, step, counts);
    if (p.dtype[op_temperature].lanes)
#pragma unroll
      for (float &each : v) each = cuda::over(each, temperature);
#pragma unroll
    for (int i = 0; i < lines * columns; ++i)
      if (!(counts >> i & 1)) v[i] = -INFINITY;
  }
  __device__ float sink() const { return below; }

  const int64_t n;
  const cuda::strip<X, aligned> x;

 private:
  // A bit for each of the lane's columns that the range leaves.
  template <int lines>
  __device__ uint32_t in_range(int64_t column, int step) const {
    static_assert(lines * columns <= 32, "a bit for each column of a lane");
    const int start = cuda::within_int(counted.first - column),
              stop = cuda::within_int(counted.last - column);
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < lines * columns; ++i) {
      const int j = i / columns * step + i % columns;
      if (j >= start && j < stop) bits |= 1u << i;
    }
    return bits;
  }

  template <int lines>
  __device__ uint32_t kept(int64_t column, int step, uint32_t wanted) const {
    const int64_t stride = p.column[op_keep];
    const char *at = keep + column * stride;
    const bool whole = stride == 1 && reinterpret_cast<uintptr_t>(at) % columns == 0;
    uint32_t bits = 0;
#pragma unroll
    for (int k = 0; k < lines; ++k) {
      if (whole && column + k * step + columns <= n) {
        uint32_t flags[2] = {};
        if constexpr (columns == 8) {
          uint2 two = *reinterpret_cast<const uint2 *>(at + k * step);
          flags[0] = two.x, flags[1] = two.y;
        } else {
          flags[0] = *reinterpret_cast<const uint32_t *>(at + k * step);
        }
#pragma unroll
        for (int i = 0; i < columns; ++i)
          if (flags[i / 4] >> (8 * (i % 4)) & 0xff) bits |= 1u << (k * columns + i);
      } else {
#pragma unroll
        for (int i = 0; i < columns; ++i)
          if (wanted >> (k * columns + i) & 1 && at[(k * step + i) * stride] != 0)
            bits |= 1u << (k * columns + i);
      }
    }
    return bits;
  }

  // Adds the mask, and tells where it is not -inf.
  template <int lines>
  __device__ uint32_t masked(float (&v)[lines * columns], int64_t column, int step, uint32_t wanted) const {
    uint32_t bits = 0;
    auto add = [&](int i, float m) {
      v[i] = cuda::plus(v[i], m);
      if (m != -INFINITY) bits |= 1u << i;
    };
    if (same(p.dtype[op_mask], storage_dtype<X>)) {
      cuda::line from[lines];
      cuda::strip<X, aligned> strip(mask, p.column[op_mask]);
      cuda::load_lines(from, strip, column, step, counted.first, counted.last, n, X(0.0f));
#pragma unroll
      for (int i = 0; i < lines * columns; ++i) add(i, cuda::column_of<X>(from[i / columns], i % columns));
    } else {
#pragma unroll
      for (int i = 0; i < lines * columns; ++i)
        if (wanted >> i & 1) {
          int64_t j = column + i / columns * step + i % columns;
          add(i, cuda::load_as<float>(cuda::element(mask, j * p.column[op_mask], p.dtype[op_mask]),
                                      p.dtype[op_mask]));
        }
    }
    return bits;
  }

  const plan &p;
  char *const mask, *const keep;
  const int64_t diagonal;
  effects::range counted;
  float slope, temperature, below;
};

} // namespace sluice::softmax
