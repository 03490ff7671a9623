// softmax_cuda_float32.cu: softmax of float32 logits on CUDA.
#include "ops/softmax/softmax_by_dtype.cuh"

namespace sluice::softmax {

template result<void> run_cuda_of<float>(const plan &, const scratch &, const addresses &, sluice_stream);
template result<void> warm_cuda_of<float>();

}  // namespace sluice::softmax
