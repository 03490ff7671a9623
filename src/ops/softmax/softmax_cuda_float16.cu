// softmax_cuda_float16.cu: softmax of float16 logits on CUDA.
#include "ops/softmax/softmax_by_dtype.cuh"

namespace sluice::softmax {

template result<void> run_cuda_of<__half>(const plan &, const scratch &, const addresses &, sluice_stream);
template result<void> warm_cuda_of<__half>();

}  // namespace sluice::softmax
