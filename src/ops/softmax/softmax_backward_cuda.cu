// softmax_backward_cuda.cu: the gradient in three steps: what each row comes to, what rows that share an
// element of a broadcast operand add up to, and dx. dx comes last, as it may be written over dy, x or y.
#include <cmath>

#include "cuda/launch.cuh"
#include "cuda/reduce.cuh"
#include "ops/softmax/run.hpp"
#include "ops/softmax/softmax_gradient.cuh"
#include "ops/softmax/softmax_gradient_row.cuh"
#include "ops/softmax/softmax_launch.cuh"

namespace sluice::softmax {
namespace {

// ---- step 1: a row's D, and its part of gradients that have no columns ------------------------------------

template <typename C>
__global__ void __launch_bounds__(row_threads_limit, row_blocks_at_once)
    sum_row(const __grid_constant__ plan p, const __grid_constant__ addresses data, bool from_y,
            backward_scratch out) {
  __shared__ int64_t offset[operands];
  __shared__ cuda::running_sum<C> room[cuda::most_warps];
  bool sums_g = out.mask || out.slopes || out.temperature;

  for (int64_t r = blockIdx.x; r < p.space.rows; r += gridDim.x) {
    locate_row(p, r, offset);
    row_gradients<C> row(p, data, from_y, offset);
    auto [first, last] = row.columns();

    cuda::running_sum<C> dots = {};
    for (int64_t j = first + threadIdx.x; j < last; j += blockDim.x) dots.add(row.dot(row.column(j)));
    double D = cuda::block_sum(dots, room);

    double mask = 0, slopes = 0, temperature = 0;
    if (sums_g) {
      cuda::running_sum<C> u_terms = {}, slope_terms = {}, temperature_terms = {};
      for (int64_t j = first + threadIdx.x; j < last; j += blockDim.x) {
        auto column = row.column(j);
        C g = row.g(column, D);
        if (g == 0) continue;
        double u = row.u(g);
        u_terms.add(u);
        slope_terms.add(cuda::times(u, double(row.logits.distance(j))));
        temperature_terms.add(cuda::times(u, double(column.v)));
      }
      mask = cuda::block_sum(u_terms, room);
      slopes = -cuda::block_sum(slope_terms, room);
      temperature = -cuda::block_sum(temperature_terms, room);
    }

    if (threadIdx.x == 0) {
      out.dots[r] = D;
      if (out.mask) out.mask[r] = mask;
      if (out.slopes) out.slopes[r] = slopes;
      if (out.temperature) out.temperature[r] = temperature;
      if (out.sink) out.sink[r] = row.d_sink(D);
    }
  }
}

// ---- step 2: rows that share an element -------------------------------------------------------------------

// What step 1 left of each row. Without it there are no rows, or rows without columns, and the gradient is 0.
struct saved_terms {
  const double *of_row;
  __device__ double operator()(int64_t row, int64_t) const { return of_row ? of_row[row] : 0; }
};

// d_mask where the mask has columns: u, made again.
template <typename C>
struct mask_terms {
  plan p;
  addresses data;
  const double *dots;
  __device__ double operator()(int64_t r, int64_t column) const {
    int64_t offset[operands];
    p.space.locate(r, offset);
    row_gradients<C> row(p, data, false, offset);
    return row.u(row.g(row.column(column), dots[r]));
  }
};

constexpr int fold_threads = 256, fold_blocks_at_once = 2;

// Threads along x take elements, those along y each blockDim.y-th of the rows that share one; then pairs of
// threads fold. blockDim.y follows from the number of rows alone: the order of additions is the same every
// time.
template <typename Terms>
__global__ void __launch_bounds__(fold_threads, fold_blocks_at_once)
    fold_rows(const __grid_constant__ reduction over, int64_t columns, void *out,
              const __grid_constant__ Terms terms) {
  __shared__ cuda::running_sum<double> room[fold_threads];
  int64_t elements = over.kept.rows * columns;
  int mine = int(threadIdx.y * blockDim.x + threadIdx.x);

  for (int64_t first = int64_t(blockIdx.x) * blockDim.x; first < elements;
       first += int64_t(gridDim.x) * blockDim.x) {
    int64_t element = first + threadIdx.x;
    bool inside = element < elements;
    int64_t kept = inside ? element / columns : 0, column = inside ? element % columns : 0;
    int64_t first_row = over.kept.locate(kept, 1);
    cuda::running_sum<double> sum = {};
    if (inside)
      for (int64_t i = threadIdx.y; i < over.shared.rows; i += blockDim.y)
        sum.add(terms(first_row + over.shared.locate(i, 0), column));

    room[mine] = sum;
    for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.y < half) room[mine].add(room[mine + int(half * blockDim.x)]);
    }
    if (inside && threadIdx.y == 0)
      cuda::store_as(cuda::element(out, over.kept.locate(kept, 0) + column * over.column, over.dtype),
                     over.dtype, room[mine].total());
    __syncthreads();
  }
}

// ---- step 3: dx -------------------------------------------------------------------------------------------

template <typename C>
__global__ void __launch_bounds__(row_threads_limit, row_blocks_at_once)
    write_dx(const __grid_constant__ plan p, const __grid_constant__ addresses data, bool from_y,
             const double *dots) {
  __shared__ int64_t offset[operands];
  for (int64_t r = blockIdx.x; r < p.space.rows; r += gridDim.x) {
    locate_row(p, r, offset);
    row_gradients<C> row(p, data, from_y, offset);
    double D = dots[r];
    for (int64_t j = threadIdx.x; j < p.n; j += blockDim.x)
      row.logits.template put<op_dx>(row.dx(row.g(row.column(j), D), j), j);
  }
}

// ---- launches ---------------------------------------------------------------------------------------------

// `most_rows`: threads along y at most; what is left of the block stands side by side in memory.
template <typename Terms>
result<void> fold(const reduction &over, int64_t columns, void *out, int most_rows, const Terms &terms,
                  sluice_stream stream) {
  int64_t elements = over.kept.rows * columns;
  if (!out || elements == 0) return {};
  int rows = 1;
  while (rows < most_rows && 2 * rows <= over.shared.rows) rows *= 2;
  int side = fold_threads / rows;
  return cuda::launch(fold_rows<Terms>, row_blocks((elements + side - 1) / side), dim3(side, rows), stream,
                      over, columns, out, terms);
}

template <typename C>
result<void> run(const backward_plan &b, const backward_scratch &s, const addresses &data,
                 const gradients &out, sluice_stream stream) {
  const plan &p = b.rows;
  bool has_rows = p.how != variant::nothing;
  dim3 blocks = row_blocks(p.space.rows), threads = row_threads(p.n);
  auto fold_saved = [&](const reduction &over, void *gradient, const double *of_row) {
    return fold(over, 1, gradient, fold_threads, saved_terms{of_row}, stream);
  };
  auto fold_mask = [&]() -> result<void> {
    if (b.mask.column == 0) return fold_saved(b.mask, out.mask, s.mask);
    return fold(b.mask, p.n, out.mask, fold_threads / cuda::warp_threads, mask_terms<C>{p, data, s.dots},
                stream);
  };
  return first_failure(
      [&]() -> result<void> {
        if (!has_rows) return {};
        return cuda::launch(sum_row<C>, blocks, threads, stream, p, data, b.from_y, s);
      },
      fold_mask, [&] { return fold_saved(b.slopes, out.slopes, s.slopes); },
      [&] { return fold_saved(b.sink, out.sink, s.sink); },
      [&] { return fold_saved(b.temperature, out.temperature, s.temperature); },
      [&]() -> result<void> {
        if (!has_rows || !data.at[op_dx]) return {};
        return cuda::launch(write_dx<C>, blocks, threads, stream, p, data, b.from_y, s.dots);
      });
}

template <typename C>
result<void> warm() {
  return first_failure([] { return cuda::warm(sum_row<C>); },
                       [] { return cuda::warm(fold_rows<mask_terms<C>>); },
                       [] { return cuda::warm(write_dx<C>); });
}

template <typename X>
result<void> run_plain(const backward_plan &b, const backward_scratch &s, const addresses &data,
                       sluice_stream stream) {
  const row_task task = {b.rows, data};
  auto run = [&]<rows_are kind>() {
    return launches::all<gradient_row, X, kind>(task, s.device_parts, s.device_rows, true, stream);
  };
  return b.rows.aligned ? run.template operator()<rows_are::aligned>()
                        : run.template operator()<rows_are::plain>();
}

template <typename X>
result<void> warm_plain() {
  return first_failure([] { return launches::warm<gradient_row, X, rows_are::aligned>(); },
                       [] { return launches::warm<gradient_row, X, rows_are::plain>(); });
}

} // namespace

result<void> run_cuda(const backward_plan &p, const backward_scratch &s, const addresses &data,
                      const gradients &out, sluice_stream stream) {
  if (p.is_plain) {
    const sluice_dtype type = p.rows.dtype[op_y];
    if (type.bits == 32) return run_plain<float>(p, s, data, stream);
    return type.code == kind_bfloat ? run_plain<__nv_bfloat16>(p, s, data, stream)
                                    : run_plain<__half>(p, s, data, stream);
  }
  return p.rows.wide ? run<double>(p, s, data, out, stream) : run<float>(p, s, data, out, stream);
}

result<void> warm_backward_cuda(const sluice_context &) {
  return first_failure([] { return warm<float>(); }, [] { return warm<double>(); },
                       [] { return cuda::warm(fold_rows<saved_terms>); }, [] { return warm_plain<float>(); },
                       [] { return warm_plain<__half>(); }, [] { return warm_plain<__nv_bfloat16>(); });
}

} // namespace sluice::softmax
