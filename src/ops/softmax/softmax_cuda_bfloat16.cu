// softmax_cuda_bfloat16.cu: softmax of bfloat16 logits on CUDA.
#include "ops/softmax/softmax_by_dtype.cuh"

namespace sluice::softmax {

template result<void> run_cuda_of<__nv_bfloat16>(const plan &, const scratch &, const addresses &,
                                                 sluice_stream);
template result<void> warm_cuda_of<__nv_bfloat16>();

}  // namespace sluice::softmax
