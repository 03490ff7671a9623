// layout.hpp: names and shapes of softmax's operands, and the checks that both directions make with them.
#pragma once

#include <initializer_list>

#include "ops/softmax/softmax.hpp"

namespace sluice::softmax {

enum class shaped { like_x, like_row, against_x, against_row };
enum class holds { floats, flags, indices };

struct operand_rule {
  operand which;
  const char *name;   // in error texts
  const char *saved;  // the same of backward calls
  shaped shape;
  holds what;
};

// In the order in which they are checked.
inline constexpr operand_rule rules[] = {
    {op_x, "x", "desc.x", shaped::like_x, holds::floats},
    {op_y, "y", "desc.y", shaped::like_x, holds::floats},
    {op_dy, "dy", "dy", shaped::like_x, holds::floats},
    {op_dx, "dx", "dx", shaped::like_x, holds::floats},
    {op_mask, "desc.mask", "desc.mask", shaped::against_x, holds::floats},
    {op_keep, "desc.keep", "desc.keep", shaped::against_x, holds::flags},
    {op_lengths, "desc.lengths", "desc.lengths", shaped::against_row, holds::indices},
    {op_slopes, "desc.slopes", "desc.slopes", shaped::against_row, holds::floats},
    {op_sink, "desc.sink", "desc.sink", shaped::against_row, holds::floats},
    {op_temperature, "desc.temperature", "desc.temperature", shaped::against_row, holds::floats},
    {op_lse, "desc.lse", "desc.lse", shaped::like_row, holds::floats},
    {op_max, "desc.max", "desc.max", shaped::like_row, holds::floats},
    {op_d_lse, "desc.d_lse", "desc.d_lse", shaped::like_row, holds::floats},
};

inline const char *name_of(const operand_rule &rule, const tensors &t) {
  return t.backward ? rule.saved : rule.name;
}

// Numbers of a descriptor, checked; scale 0 becomes 1 and both factors are rounded to the compute type.
result<effects> read_effects(double scale, double softcap, int32_t log, int32_t empty_row, int32_t causal,
                             int32_t diagonal, int64_t offset, int64_t window, bool wide);
bool computes_in_double(const tensors &t);

// Fits every operand to the shape of `reference` and fills n, space, columns, dtypes and shapes_x of the
// plan.
result<void> lay_out(const tensors &t, operand reference, const char *name, bool bottom_right, plan &p);

// No output overlaps itself, an input or another output, except that the first of a pair may be the very view
// that the second is.
struct in_place {
  operand output, input;
};
result<void> want_outputs_apart(const tensors &t, std::initializer_list<in_place> allowed);

// Rows of operand k lie one stride after the other, begin at a multiple of 16 bytes and are whole lines of 16 bytes.
bool rows_are_aligned(const plan &p, const tensors &t, operand k);
// CUDA: the variant for rows of n columns that are read in lines of 16 bytes of a dtype. share: blocks of block_warps
// that a multiprocessor has room for.
void choose_device_rows(plan &p, sluice_dtype lines_of, int32_t share, int32_t most_chunks_held,
                        const machine &on);

}  // namespace sluice::softmax
