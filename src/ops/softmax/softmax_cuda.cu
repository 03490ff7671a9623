// softmax_cuda.cu: softmax along rows. make_plan() chose; here x's dtype becomes a type.
#include "cuda/launch.cuh"
#include "ops/softmax/run.hpp"
#include "ops/softmax/softmax_wide.cuh"

namespace sluice::softmax {

template <typename X>
result<void> run_cuda_of(const plan &p, const scratch &s, const addresses &data, sluice_stream stream);

template <typename X>
result<void> warm_cuda_of();

result<void> run_cuda(const plan &p, const scratch &s, const addresses &data, sluice_stream stream) {
  if (p.how == variant::block_per_wide_row)
    return cuda::launch(block_per_wide_row, row_blocks(p.space.rows), row_threads(p.n), stream, p, data);
  const sluice_dtype type = p.dtype[op_x];
  if (type.bits == 32) return run_cuda_of<float>(p, s, data, stream);
  return type.code == kind_bfloat ? run_cuda_of<__nv_bfloat16>(p, s, data, stream)
                                  : run_cuda_of<__half>(p, s, data, stream);
}

result<void> warm_cuda(const sluice_context &) {
  return first_failure([] { return cuda::warm(block_per_wide_row); }, [] { return warm_cuda_of<float>(); },
                       [] { return warm_cuda_of<__half>(); }, [] { return warm_cuda_of<__nv_bfloat16>(); });
}

}  // namespace sluice::softmax
