// tile-inl.hpp: rows that stand side by side in memory, transposed into scratch and back, so that each can be read like
// any other row. Compiled once for each instruction set.
#if defined(SLUICE_SOFTMAX_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_SOFTMAX_TILE_INL
#undef SLUICE_SOFTMAX_TILE_INL
#else
#define SLUICE_SOFTMAX_TILE_INL
#endif

#include <hwy/highway.h>

#include "ops/softmax/row-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace sluice::softmax {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// Four vectors as 4 x 4 squares of floats, each square transposed. Its own inverse.
HWY_INLINE void transpose_squares(hn::Vec<simd::full<float>> (&v)[4]) {
  const simd::full<float> d;
  const hn::Repartition<uint64_t, decltype(d)> pairs;
  const auto t0 = hn::BitCast(pairs, hn::InterleaveLower(d, v[0], v[1]));
  const auto t1 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[0], v[1]));
  const auto t2 = hn::BitCast(pairs, hn::InterleaveLower(d, v[2], v[3]));
  const auto t3 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[2], v[3]));
  v[0] = hn::BitCast(d, hn::InterleaveLower(pairs, t0, t2));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, t0, t2));
  v[2] = hn::BitCast(d, hn::InterleaveLower(pairs, t1, t3));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, t1, t3));
}
#endif

// Columns ahead that are fetched while some are transposed: they lie a row of the matrix apart, too far for the
// processor to guess.
constexpr int64_t columns_ahead = 16;

// tile[w * pitch + j] = x[j * stride + w] for w in [0, side), j in [0, n).
template <typename C, typename T>
void read_tile(const T *x, int64_t stride, int64_t side, int64_t n, C *tile, int64_t pitch) {
  int64_t w = 0, j = 0;  // what the vectors did: rows below w, columns below j
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(C) == 4) {
    const simd::full<float> d;
    const hn::Full128<float> quad;
    const int64_t lanes = int64_t(hn::Lanes(d));
    w = side / lanes * lanes;
    j = n / 4 * 4;
    for (int64_t jj = 0; jj < j; jj += 4) {
      for (int k = 0; k < 4 && jj + k + columns_ahead < n; ++k)
        for (int64_t b = 0; b < side; b += int64_t(64 / sizeof(T))) hwy::Prefetch(x + (jj + k + columns_ahead) * stride + b);
      for (int64_t ww = 0; ww < w; ww += lanes) {
        hn::Vec<simd::full<float>> v[4];
        for (int k = 0; k < 4; ++k) v[k] = simd::load(d, x + (jj + k) * stride + ww);
        transpose_squares(v);
        alignas(64) float square[4 * 16];
        for (int k = 0; k < 4; ++k) hn::Store(v[k], d, square + k * lanes);
        for (int64_t b = 0; b < lanes; b += 4)
          for (int k = 0; k < 4; ++k)
            hn::StoreU(hn::Load(quad, square + k * lanes + b), quad, tile + (ww + b + k) * pitch + jj);
      }
    }
  }
#endif
  for (int64_t jj = 0; jj < n; ++jj)
    for (int64_t ww = jj < j ? w : 0; ww < side; ++ww) tile[ww * pitch + jj] = C(to_float(x[jj * stride + ww]));
}

// y[j * stride + w] = tile[w * pitch + j].
template <typename C, typename T>
void write_tile(const C *tile, int64_t pitch, int64_t side, int64_t n, T *y, int64_t stride, bool past_caches) {
  int64_t w = 0, j = 0;  // what the vectors did: rows below w, columns below j
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(C) == 4) {
    const simd::full<float> d;
    const hn::Full128<float> quad;
    const int64_t lanes = int64_t(hn::Lanes(d));
    w = side / lanes * lanes;
    j = n / 4 * 4;
    past_caches = past_caches && (reinterpret_cast<uintptr_t>(y) | uint64_t(stride) * sizeof(T)) % (lanes * sizeof(T)) == 0;
    for (int64_t jj = 0; jj < j; jj += 4)
      for (int64_t ww = 0; ww < w; ww += lanes) {
        alignas(64) float square[4 * 16];
        for (int64_t b = 0; b < lanes; b += 4)
          for (int k = 0; k < 4; ++k)
            hn::Store(hn::LoadU(quad, tile + (ww + b + k) * pitch + jj), quad, square + k * lanes + b);
        hn::Vec<simd::full<float>> v[4];
        for (int k = 0; k < 4; ++k) v[k] = hn::Load(d, square + k * lanes);
        transpose_squares(v);
        for (int k = 0; k < 4; ++k) {
          if (past_caches)
            simd::stream(d, v[k], y + (jj + k) * stride + ww);
          else
            simd::store(d, v[k], y + (jj + k) * stride + ww);
        }
      }
  }
#else
  (void)past_caches;
#endif
  for (int64_t jj = 0; jj < n; ++jj)
    for (int64_t ww = jj < j ? w : 0; ww < side; ++ww) y[jj * stride + ww] = from_double<T>(tile[ww * pitch + jj]);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::softmax
HWY_AFTER_NAMESPACE();

#endif
