// softmax_logit.cuh: one row as device code sees it: which columns count, and their final v by the header's
// order of effects. Both directions share it. Each line is rounded on its own (cuda/rounded.cuh).
#pragma once

#include <cmath>

#include "cuda/convert.cuh"
#include "cuda/rounded.cuh"
#include "ops/softmax/softmax.hpp"

namespace sluice::softmax {

// ---- blocks that own a row --------------------------------------------------------------------------------

// Two such blocks at once leave a thread 64 registers. Kernels are told both numbers: left to itself, ptxas
// spills for an occupancy of its own choice.
inline constexpr int row_threads_limit = 512, row_blocks_at_once = 2;
inline constexpr int64_t grid_limit = 0x7fffffff;

// From the row's length alone: the number of threads decides the order of its sums, and so its bits.
inline int row_threads(int64_t n) { return n <= 32 ? 32 : n <= 1024 ? 128 : row_threads_limit; }
// Where there are more rows than a grid has blocks, a block takes several.
inline unsigned row_blocks(int64_t rows) { return unsigned(rows < grid_limit ? rows : grid_limit); }

// Offsets of the row's first elements, shared by the block: a thread finds that of one operand, since the
// divisions that lead there would cost every thread more registers than the row itself.
__device__ inline void locate_row(const plan &p, int64_t row, int64_t (&offset)[operands]) {
  static_assert(operands <= 32, "the smallest block has a thread for every operand");
  __syncthreads();
  if (threadIdx.x < operands) offset[threadIdx.x] = p.space.locate(row, int(threadIdx.x));
  __syncthreads();
}

// ---- a row ------------------------------------------------------------------------------------------------

template <typename C>
class row_logits {
 public:
  __device__ row_logits(const plan &p, const addresses &data, const int64_t (&offset)[operands]) : p(p) {
    for (int k = 0; k < op_query; ++k)
      first[k] = data.at[k] ? cuda::element(data.at[k], offset[k], p.dtype[k]) : nullptr;
    int64_t length = p.n;
    if (has(op_lengths)) {
      length = cuda::load_index(first[op_lengths], p.dtype[op_lengths]);
      length = length < 0 ? 0 : length > p.n ? p.n : length;
    }
    diagonal = offset[op_query] + p.does.diagonal;
    counted = p.does.columns(offset[op_query], length);
    if (has(op_slopes)) slope = at<op_slopes>();
    if (has(op_temperature)) temperature = at<op_temperature>();
  }

  // An operand without elements has no address either, and nobody asks for its elements.
  __device__ bool has(operand k) const { return first[k] != nullptr; }

  template <operand k>
  __device__ C at(int64_t column = 0) const {
    return cuda::load_as<C>(cuda::element(first[k], column * p.column[k], p.dtype[k]), p.dtype[k]);
  }
  template <operand k>
  __device__ void put(C value, int64_t column = 0) const {
    cuda::store_as(cuda::element(first[k], column * p.column[k], p.dtype[k]), p.dtype[k], value);
  }

  // No other column can count. Begins with a multiple of the block, so that a column belongs to the same
  // thread, and the sum has the same bits, whether a window or a mask excludes what is before it.
  __device__ effects::range columns() const {
    return {counted.first - counted.first % blockDim.x, counted.last};
  }

  // Looks at keep and mask and at nothing else.
  __device__ bool counts(int64_t j) const {
    if (j < counted.first || j >= counted.last) return false;
    if (has(op_keep) && first[op_keep][j * p.column[op_keep]] == 0) return false;
    return !has(op_mask) || at<op_mask>(j) != -INFINITY;
  }

  // The final v; -inf, with x not read, where the column does not count.
  __device__ C operator()(int64_t j) const {
    if (!counts(j)) return -INFINITY;
    C v = cuda::times(C(p.does.scale), at<op_x>(j));
    if (p.does.softcap != 0) v = cuda::times(C(p.does.softcap), tanh(cuda::over(v, C(p.does.softcap))));
    if (has(op_slopes)) v = cuda::minus(v, cuda::times(slope, distance(j)));
    if (has(op_mask)) v = cuda::plus(v, at<op_mask>(j));
    if (has(op_temperature)) v = cuda::over(v, temperature);
    return v;
  }

  // |j - p(i)|
  __device__ C distance(int64_t j) const { return C(j > diagonal ? j - diagonal : diagonal - j); }

  // 1 - tanh(scale * x / softcap)^2, as a product: near saturation a difference of squares would keep no
  // digit.
  __device__ C slope_of_cap(int64_t j) const {
    if (p.does.softcap == 0) return 1;
    C t = tanh(cuda::over(cuda::times(C(p.does.scale), at<op_x>(j)), C(p.does.softcap)));
    return cuda::times(cuda::minus(C(1), t), cuda::plus(C(1), t));
  }

  C temperature = 1;

 private:
  const plan &p;
  char *first[op_query]; // the row's first element of each tensor
  int64_t diagonal; // p(i)
  effects::range counted;
  C slope = 0;
};

} // namespace sluice::softmax
