// lines.cuh: rows read and written 16 bytes at a time, wherever they begin. A lane owns the same columns of a row
// whether the row is aligned, lies some bytes past a multiple of 16, or has gaps between its elements: what is
// computed from them has the same bits in all three.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/reduce.cuh"

namespace sluice::cuda {

inline constexpr int line_bytes = 16;
template <typename T>
inline constexpr int line_columns = line_bytes / int(sizeof(T));

// ---- one line ---------------------------------------------------------------------------------------------

// 16 bytes of a row, as they lie in memory.
struct line {
  uint32_t word[4];
};

__device__ inline line line_of(uint4 v) { return {{v.x, v.y, v.z, v.w}}; }

template <typename T>
__device__ uint32_t bits_of(T value) {
  if constexpr (sizeof(T) == 4)
    return reinterpret_cast<const uint32_t &>(value);
  else
    return reinterpret_cast<const uint16_t &>(value);
}

// `value` in every column.
template <typename T>
__device__ line filled(T value) {
  uint32_t bits = bits_of(value);
  if constexpr (sizeof(T) == 2) bits |= bits << 16;
  return {{bits, bits, bits, bits}};
}

template <typename T>
__device__ float column_of(const line &from, int i) {
  if constexpr (sizeof(T) == 4)
    return __uint_as_float(from.word[i]);
  else if constexpr (__is_same(T, __half))
    return __half2float(__ushort_as_half(uint16_t(from.word[i / 2] >> (16 * (i % 2)))));
  else
    return __uint_as_float(i % 2 ? from.word[i / 2] & 0xffff0000u : from.word[i / 2] << 16);
}

template <typename T>
__device__ void set_column(line &to, int i, uint32_t bits) {
  if constexpr (sizeof(T) == 4)
    to.word[i] = bits;
  else
    to.word[i / 2] = __byte_perm(to.word[i / 2], bits, i % 2 ? 0x5410 : 0x3254);
}

// Two columns of a line, rounded to nearest even.
template <typename T>
__device__ uint32_t packed(float low, float high) {
  if constexpr (sizeof(T) == 4)
    return __float_as_uint(low);
  else if constexpr (__is_same(T, __half)) {
    __half2 both = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t &>(both);
  } else {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t &>(both);
  }
}

// The 16 bytes that begin `shift` bytes into `low` and run on into `high`; shift in [0, 16).
__device__ inline line joined(const line &low, const line &high, int shift) {
  uint32_t w[8];
  for (int i = 0; i < 4; ++i) w[i] = low.word[i], w[i + 4] = high.word[i];
  for (int i = 0; i < 6; ++i) w[i] = shift & 8 ? w[i + 2] : w[i];
  for (int i = 0; i < 5; ++i) w[i] = shift & 4 ? w[i + 1] : w[i];
  line out;
  for (int i = 0; i < 4; ++i) out.word[i] = __funnelshift_r(w[i], w[i + 1], 8 * (shift & 3));
  return out;
}

// ---- a row ------------------------------------------------------------------------------------------------

// Columns of a row of T as memory has them. The same for every lane that works on the row. aligned: known to have no
// gaps, to begin at a multiple of 16 bytes and to end at one.
template <typename T, bool aligned>
class strip {
 public:
  __device__ strip(void *first, int64_t stride)
      : first(static_cast<T *>(first)), gap(stride),
        after(int(reinterpret_cast<uintptr_t>(first) % line_bytes)) {}

  __device__ T *at(int64_t column) const { return first + column * stride(); }
  __device__ int64_t stride() const { return aligned ? 1 : gap; }
  // Bytes that the row lies past a multiple of 16.
  __device__ int past() const { return aligned ? 0 : after; }

 private:
  T *first;
  int64_t gap;
  int after;
};

// Distances between columns, where what is far is far enough.
__device__ inline int within_int(int64_t v) {
  constexpr int64_t far = 1 << 30;
  return int(v < -far ? -far : v > far ? far : v);
}

// Lane's lines k = 0 ... lines - 1 begin at columns `column` + k * step. Reads those that meet [begin, end); columns
// at or beyond n are not read and come as `filler`, as do lines outside. The first line of a strip that is not
// aligned may be read together with the bytes before it, which belong to the same 16.
template <int lines, typename T, bool aligned>
__device__ void load_lines(line (&to)[lines], const strip<T, aligned> &row, int64_t column, int step,
                           int64_t begin, int64_t end, int64_t n, T filler) {
  constexpr int columns = line_columns<T>;
  const int left = within_int(n - column), start = within_int(begin - column),
            stop = within_int(end - column);
  auto wanted = [&](int k) { return k * step < stop && k * step + columns > start; };
  auto each = [&](int k, auto &&whole) {
    if (wanted(k) && !whole(k))
#pragma unroll
      for (int i = 0; i < columns; ++i)
        if (k * step + i < left) set_column<T>(to[k], i, bits_of(*row.at(column + k * step + i)));
  };
#pragma unroll
  for (int k = 0; k < lines; ++k) to[k] = filled(filler);

  if (row.stride() != 1) {
#pragma unroll
    for (int k = 0; k < lines; ++k) each(k, [](int) { return false; });
    return;
  }
  const char *at = reinterpret_cast<const char *>(row.at(column)) - row.past();
  const int reach = row.past() == 0 ? columns : 2 * columns - row.past() / int(sizeof(T));
  auto whole = [&](int k) { return k * step + reach <= left; };
  if (row.past() == 0) {
#pragma unroll
    for (int k = 0; k < lines; ++k)
      if (wanted(k) && whole(k))
        to[k] = line_of(*reinterpret_cast<const uint4 *>(at + k * step * int(sizeof(T))));
  } else {
#pragma unroll
    for (int k = 0; k < lines; ++k)
      if (wanted(k) && whole(k)) {
        const uint4 *two = reinterpret_cast<const uint4 *>(at + k * step * int(sizeof(T)));
        to[k] = joined(line_of(two[0]), line_of(two[1]), row.past()); // the second is the next lane's first
      }
  }
  if constexpr (!aligned)
    if (row.past() != 0 || left % columns != 0)
#pragma unroll
      for (int k = 0; k < lines; ++k) each(k, whole);
}

// Writes f(k, v), the `columns` values of line k, to columns `column` + k * step, ..., those below n, past the caches.
// All lanes of the team take part; each owns the line after its neighbour's.
template <int lines, int columns, typename T, bool aligned, typename F>
__device__ void store_lines(const strip<T, aligned> &row, team mine, int64_t column, int step, int64_t n,
                            F &&f) {
  constexpr int bytes = columns * int(sizeof(T)), per_word = 4 / int(sizeof(T));
  const int left = within_int(n - column);
  T *const at = row.at(column);
  auto one = [&](int k, int i, float v) {
    if (k * step + i < left) at[(k * step + i) * row.stride()] = T(v);
  };
  auto line_from = [](const float *v) {
    line out;
#pragma unroll
    for (int w = 0; w < 4; ++w) out.word[w] = packed<T>(v[w * per_word], v[w * per_word + per_word - 1]);
    return out;
  };
  auto put = [](T *to, const line &l) {
    __stcs(reinterpret_cast<uint4 *>(to), make_uint4(l.word[0], l.word[1], l.word[2], l.word[3]));
  };

  const bool fits = row.past() % (bytes < line_bytes ? bytes : line_bytes) == 0;
  if (row.stride() == 1 && (aligned || __all_sync(0xffffffffu, fits))) { // teams may differ
#pragma unroll
    for (int k = 0; k < lines; ++k) {
      float v[columns];
      f(k, v);
      if (k * step + columns <= left) {
        if constexpr (bytes < line_bytes) {
          __stcs(reinterpret_cast<uint2 *>(at + k * step),
                 make_uint2(packed<T>(v[0], v[1]), packed<T>(v[2], v[3])));
        } else {
#pragma unroll
          for (int part = 0; part < columns; part += line_columns<T>)
            put(at + k * step + part, line_from(v + part));
        }
      } else if constexpr (!aligned) {
#pragma unroll
        for (int i = 0; i < columns; ++i) one(k, i, v[i]);
      }
    }
    return;
  }
  if constexpr (bytes == line_bytes && !aligned) {
    if (row.stride() == 1) {
      // A lane's block: the end of the line before its own and the beginning of its own.
      const int own = columns - row.past() / int(sizeof(T)); // columns of a line that fall into its own block
      line before = {};
#pragma unroll
      for (int k = 0; k < lines; ++k) {
        float v[columns];
        f(k, v);
        line here = line_from(v), given = mine.lane + 1 < mine.lanes ? here : before;
        before = here;
#pragma unroll
        for (int w = 0; w < 4; ++w)
          given.word[w] = __shfl_sync(0xffffffffu, given.word[w], mine.lane + mine.lanes - 1, mine.lanes);
        const bool follows = mine.lane > 0 || k > 0 || row.past() == 0;
        const bool whole = follows && k * step + own <= left;
        if (whole)
          put(at + k * step - row.past() / int(sizeof(T)),
              row.past() == 0 ? here : joined(given, here, line_bytes - row.past()));
        const bool is_followed = mine.lane + 1 < mine.lanes || k + 1 < lines;
        const bool covered = is_followed && k * step + columns + own <= left;
        if (!whole || !covered)
#pragma unroll
          for (int i = 0; i < columns; ++i)
            if (i < own ? !whole : !covered) one(k, i, v[i]);
      }
      return;
    }
  }
#pragma unroll
  for (int k = 0; k < lines; ++k) {
    float v[columns];
    f(k, v);
#pragma unroll
    for (int i = 0; i < columns; ++i) one(k, i, v[i]);
  }
}

} // namespace sluice::cuda
