// softmax_case.hpp: what a benchmark of softmax measures on any device: a case, the call that it makes, the plan behind
// that call, and the check that comes before the clock. It times nothing and owns no memory.
#pragma once

#include <sluice/sluice.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench.hpp"
#include "core/dtype.hpp"

namespace bench {

inline constexpr sluice_dtype f32 = sluice::dtype_of<float>, f16 = sluice::dtype_of<sluice::float16>,
                              bf16 = sluice::dtype_of<sluice::bfloat16>;

enum class work { forward, backward, logsumexp };

struct softmax_case {
  std::string name;
  work what;
  sluice_dtype dtype;
  std::vector<int64_t> shape;
  int axis = -1; // of softmax; -1: the last
  bool causal = false; // forward only
  bool masked =
      false; // forward of [batch, heads, queries, n]: scale, mask [batch, 1, queries, n], lengths [batch]
  int64_t shift = 0; // bytes by which tensors miss a line of the cache

  std::string pass() const { return what == work::backward ? "backward" : "forward"; }
  std::string dtype_name() const { return sluice::dtype_name(dtype).text; }
  std::string id() const { return pass() + " " + dtype_name() + " " + name; }
  int64_t elements() const;
  int64_t columns() const { return axis < 0 ? shape.back() : shape[size_t(axis)]; }
  int64_t rows() const { return elements() / columns(); }
  int64_t tensor_bytes() const { return elements() * sluice::bytes_of(dtype); }
  int64_t result_bytes() const { return what == work::logsumexp ? rows() * 4 : tensor_bytes(); }
  int64_t mask_elements() const { return masked ? elements() / shape[1] : 0; }
  int64_t length(int64_t batch) const; // of the rows of a masked batch
  int64_t counted(int64_t row) const; // columns of the row that are not excluded

  // What no method can avoid: each input that counts once, each output once.
  traffic moved() const;
  int64_t bytes() const { return moved().read + moved().written; }
};

// `rows` 0: as many as make a tensor of `mib`.
softmax_case in_rows(work what, sluice_dtype dtype, int64_t mib, int64_t rows, int64_t n);

// The case as a call. Views and descriptor are made once, as a caller's own would be; from call to call only addresses
// change. a: x, or backward y. b: backward dy. z: y, dx or lse.
class softmax_call {
 public:
  softmax_call(const softmax_case &c, const sluice_context *context, sluice_device device);
  softmax_call(const softmax_call &) = delete;

  void use(void *a, void *b, void *z) { in.data = a, dy.data = b, out.data = z; }
  void use_effects(void *mask_data, void *lengths_data) {
    mask.data = mask_data, lengths.data = lengths_data;
  }
  size_t workspace() const;
  void run(void *scratch, size_t scratch_bytes, sluice_stream stream) const;
  void make_y(void *x, void *scratch, size_t scratch_bytes,
              sluice_stream stream) const; // in place, for backward
  size_t workspace_of_make_y() const;

  // The plan that the call makes for itself: its variant, and the bytes that it says it moves.
  struct planned {
    std::string variant;
    int64_t bytes;
  };
  planned plan(int32_t width) const; // cores, or multiprocessors

  // Three rows of the result against float64; ends the program where they differ. `read` gives count elements that lie
  // stride apart, wherever the device keeps them.
  using reader = std::function<std::vector<double>(const void *from, int64_t offset, int64_t count,
                                                   int64_t stride, sluice_dtype dtype)>;
  void check(const reader &read) const;

 private:
  void must(sluice_status status) const;
  sluice_tensor view(sluice_dtype dtype, std::vector<int64_t> &extents, int64_t *steps, size_t axes);
  int64_t offset_of(int64_t row) const;

  const softmax_case &c;
  const sluice_context *context;
  sluice_device device;
  std::vector<int64_t> shape, strides; // of x, the axis of softmax last
  std::vector<int64_t> mask_shape, lengths_shape;
  sluice_tensor in, dy, out, mask, lengths;
  sluice_softmax_desc desc = {};
  sluice_softmax_backward_desc back = {};
};

// What every half says of a case: contestant 0 is ours, the others are the floor's.
void print(const softmax_case &c, const softmax_call::planned &plan, int64_t buffer_sets,
           const std::vector<contestant> &contestants, const std::vector<timing> &taken, bool json);

// How a dtype writes numbers: bits of the fraction, and what is added to an exponent.
struct bits_of_float {
  int mantissa, bias;
};
bits_of_float bits_of(sluice_dtype dtype);

// Elements as doubles, for readers.
double element(const void *from, int64_t i, sluice_dtype dtype);

} // namespace bench
