/** @file softmax.h
 *  y [..., n] = softmax of x [..., n] along the last axis, with everything attention and sampling put around
 *  it, and its gradient. Any other axis: permute shape and strides of the views, so that it is last; an axis
 *  whose neighbour is contiguous runs at full speed.
 *
 *  **Order of effects.** With x the input, i the query (the index along axis -2; 0 where x has one axis), j
 *  the column, `queries` the extent of axis -2, and
 *  `p(i) = i + diagonal_offset + (diagonal == SLUICE_DIAGONAL_BOTTOM_RIGHT ? n - queries : 0)`:
 *
 *      v = scale * x                            (scale 0 means 1)
 *      v = softcap * tanh(v / softcap)          (softcap 0: left out)
 *      v = v - slopes * |j - p(i)|              (ALiBi)
 *      v = v + mask
 *      v = v / temperature
 *      v = -inf, x not looked at, where the column is excluded
 *      m = max over j of v, and of sink
 *      s = sum over j of e^(v - m), plus e^(sink - m)
 *      y = e^(v - m) / s,   or with `log`   y = (v - m) - ln(s)
 *      lse = m + ln(s),     max = m
 *
 *  Each line is rounded to the compute type, and no line is fused into the next: fp64 when any floating
 *  operand or result is fp64, else fp32. s is summed with more than fp32's precision.
 *
 *  **Excluded columns.** A column is excluded where `mask` is -inf, `keep` is false, `causal` or `window`
 *  leave it out, or it lies at or beyond the row's length. Its x (NaN included) never reaches the result; its
 *  y is 0, or -inf with `log`. Without any of these every column counts, and an x of -inf contributes 0 by
 *  itself.
 *
 *  **Empty rows.** A row whose every v is -inf and that has no sink (or a sink of -inf) follows `empty_row`;
 *  its lse and max are -inf whatever the policy. An extent of 0 anywhere is SLUICE_OK; with n = 0 rows are
 *  empty, so lse and max are still written.
 *
 *  **NaN and infinity.** A NaN or +inf among the v that count, or a sink of NaN or +inf, makes the whole row
 *  of y NaN, its lse and max too. Subnormal results are kept.
 *
 *  **Broadcasting** is numpy's, right-aligned: `mask` and `keep` against x's shape, `lengths`, `slopes`,
 *  `sink` and `temperature` against x's shape without the last axis (so slopes for [batch, heads, queries, n]
 *  are [heads, 1]). A broadcast axis has extent 1 or is absent; a stride of 0 serves as well.
 *
 *  **Accuracy**, measured against float64 from the final fp32 v on, with d = v - m: |d| + 4 ulp by default
 *  and 4 ulp with SLUICE_ACCURACY_HIGH in fp32 (this version gives the latter in either case); 0.51 ulp for
 *  16-bit y; with `log`, and for lse, an absolute error of at most 4 ulp of max(1, |value|). In fp64 |d| + 4
 *  ulp of fp64, and for lse 4 ulp of max(1, |m|, |value|).
 *
 *  **Determinism.** The bits of a row depend on its own values, its length, the dtypes, the descriptor and
 *  the device's kind (on the CPU its instruction set) alone: not on the batch, strides, alignment, threads,
 *  stream or run.
 *
 *  Method: each piece of a row gives (m, s), and pieces add by
 *  (m, s) + (m', s') = (M, s e^(m - M) + s' e^(m' - M)), M = max(m, m') (Milakov and Gimelshein, "Online
 *  normalizer calculation for softmax", 2018). */
#ifndef SLUICE_OPS_SOFTMAX_H
#define SLUICE_OPS_SOFTMAX_H

#include <sluice/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What y holds in a row that has nothing to distribute over. */
typedef enum sluice_empty_row {
  SLUICE_EMPTY_ROW_NAN = 0,     /**< NaN, as torch and numpy give. */
  SLUICE_EMPTY_ROW_ZERO = 1,    /**< 0; with log -inf. */
  SLUICE_EMPTY_ROW_UNIFORM = 2, /**< 1 / n over all n columns; with log -ln(n). */
  SLUICE_EMPTY_ROW_FORCE32 = 0x7fffffff /**< Keeps the enum 32 bits wide. */
} sluice_empty_row;

/** Which query looks straight at which column. */
typedef enum sluice_diagonal {
  SLUICE_DIAGONAL_TOP_LEFT = 0,     /**< Query 0 at column 0. */
  SLUICE_DIAGONAL_BOTTOM_RIGHT = 1, /**< The last query at the last column. */
  SLUICE_DIAGONAL_FORCE32 = 0x7fffffff /**< Keeps the enum 32 bits wide. */
} sluice_diagonal;

/** How exact fp32 results are; see Accuracy above. No effect on fp64. */
typedef enum sluice_accuracy {
  SLUICE_ACCURACY_DEFAULT = 0, /**< |d| + 4 ulp. */
  SLUICE_ACCURACY_HIGH = 1,    /**< 4 ulp: the rounding error of v - m is carried along. */
  SLUICE_ACCURACY_FORCE32 = 0x7fffffff /**< Keeps the enum 32 bits wide. */
} sluice_accuracy;

/** What softmax does beside the plain thing. Zero everywhere is plain softmax. */
typedef struct sluice_softmax_desc {
  size_t struct_size;      /**< sizeof(sluice_softmax_desc) at the caller; fields are only appended. */
  double scale;            /**< Finite factor on x; 0 means 1. Rounded to the compute type first. */
  double softcap;          /**< Finite, >= 0; 0 leaves it out. Rounded to the compute type first. */
  int32_t log;             /**< 1: log-softmax. */
  int32_t accuracy;        /**< sluice_accuracy. */
  int32_t empty_row;       /**< sluice_empty_row. */
  int32_t causal;          /**< 1: excludes j > p(i). */
  int32_t diagonal;        /**< sluice_diagonal, for causal, window and slopes. */
  int32_t reserved0;       /**< 0. */
  int64_t diagonal_offset; /**< Added to p(i); |diagonal_offset| <= 2^61. */
  int64_t window; /**< w > 0 excludes |j - p(i)| >= w; 0: no window. With causal: the w latest columns. */
  const sluice_tensor *mask; /**< [in] Additive, any float dtype, against x's shape. */
  const sluice_tensor
      *keep; /**< [in] bool, uint8 or int8; nonzero keeps, zero excludes; against x's shape. */
  const sluice_tensor *lengths; /**< [in] int32 or int64; columns that count, clamped to [0, n]; per row. */
  const sluice_tensor *slopes; /**< [in] ALiBi slopes, any float dtype; per row. */
  const sluice_tensor
      *sink; /**< [in] Logit of a column that only the denominator sees, any float; per row. */
  const sluice_tensor
      *temperature; /**< [in] Divisor, > 0, any float; per row. Other values act as arithmetic has it. */
  const sluice_tensor *lse; /**< [out] ln of the denominator, any float; x's shape without the last axis. */
  const sluice_tensor *max; /**< [out] m above, any float; x's shape without the last axis. */
} sluice_softmax_desc;

/** Bytes that sluice_softmax wants, and its dry run: SLUICE_OK here means sluice_softmax accepts the same
 *  arguments. A pure function of descriptor, dtypes, shapes, strides, alignment and context; never looks at
 *  data.
 *  @param[in] context the context.
 *  @param[in] desc NULL: plain softmax.
 *  @param[in] x as for sluice_softmax.
 *  @param[in] y as for sluice_softmax.
 *  @param[out] bytes wanted at 256-byte alignment; on the CPU 0 for rows of at most 4096 columns that lie one
 *    after the other; on CUDA 0 for rows of at most 8192 columns, and for what the clusters of a newer device
 *    hold: 262,144 columns, and 524,288 where rows are aligned to 16 bytes.
 *  @return what sluice_softmax would answer for these arguments. */
SLUICE_API sluice_status sluice_softmax_workspace(const sluice_context *context,
                                                  const sluice_softmax_desc *desc, const sluice_tensor *x,
                                                  const sluice_tensor *y, size_t *bytes);

/** Softmax along the last axis; see the top of this file. Safe to capture; allocates nothing.
 *  @param[in] context the context, whose device holds every tensor.
 *  @param[in] desc NULL: plain softmax.
 *  @param[in] x [..., n] of float32, float64, float16 or bfloat16, any strides.
 *  @param[out] y [..., n] of any of these dtypes, any strides that do not overlap themselves. May be x
 *  itself: the same address, dtype and strides. NULL where desc asks for lse or max: one read of x and no
 *  write of y.
 *  @param[in] workspace memory of sluice_softmax_workspace's size, 256-byte aligned, contents undefined
 *  before and after. NULL where bytes are wanted: hooks.alloc, or SLUICE_WORKSPACE_TOO_SMALL without one.
 *  @param[in] workspace_bytes its size.
 *  @param[in] stream where to enqueue; NULL on a CPU context.
 *  @return SLUICE_OK, or a status whose class and text say which argument does not fit. */
SLUICE_API sluice_status sluice_softmax(const sluice_context *context, const sluice_softmax_desc *desc,
                                        const sluice_tensor *x, const sluice_tensor *y, void *workspace,
                                        size_t workspace_bytes, sluice_stream stream);

/** What the gradient needs and gives. The first block repeats the forward call's descriptor.
 *
 *  With p the probabilities, D = sum of p * dy (with `log`, sum of dy) over the columns that count:
 *
 *      g = p * (dy - D + d_lse),   with `log`   g = dy - p * (D - d_lse)       gradient of the final v
 *      d_temperature = -sum of g * v / temperature
 *      u = g / temperature
 *      d_mask = u,   d_slopes = -sum of u * |j - p(i)|
 *      dx = u * scale * (1 - tanh(scale * x / softcap)^2)
 *      d_sink = e^(sink - lse) * (d_lse - D)
 *
 *  **What each gradient needs.** dx without softcap: y, or x and lse. dx with softcap, d_mask, d_slopes,
 *  d_sink and d_temperature: x and lse. A gradient asked for without them, or of an operand that is NULL, is
 *  SLUICE_INVALID_ARGUMENT. From x and lse, p = e^(v - lse) carries the rounding of the lse that was saved: a
 *  relative error of |lse| * 2^-24 for an fp32 lse. An fp64 lse makes the whole call compute in fp64.
 *
 *  Excluded columns get 0, and their x, y and dy are not read into the result; so do columns whose v is -inf
 *  and, from y, columns whose p is 0. Empty rows: with SLUICE_EMPTY_ROW_NAN NaN (from y without lse: in the
 *  columns that count), else 0; SLUICE_EMPTY_ROW_UNIFORM therefore needs lse even beside y. A broadcast
 *  operand's gradient is summed over the rows that share it in a fixed order, so it is the same bits every
 *  time. `max` has no gradient. */
typedef struct sluice_softmax_backward_desc {
  size_t struct_size; /**< sizeof(sluice_softmax_backward_desc) at the caller; fields are only appended. */
  double scale; /**< As forward. */
  double softcap; /**< As forward. */
  int32_t log; /**< As forward. */
  int32_t empty_row; /**< As forward. */
  int32_t causal; /**< As forward. */
  int32_t diagonal; /**< As forward. */
  int64_t diagonal_offset; /**< As forward. */
  int64_t window; /**< As forward. */
  const sluice_tensor *mask; /**< [in] As forward. */
  const sluice_tensor *keep; /**< [in] As forward. */
  const sluice_tensor *lengths; /**< [in] As forward. */
  const sluice_tensor *slopes; /**< [in] As forward. */
  const sluice_tensor *sink; /**< [in] As forward. */
  const sluice_tensor *temperature; /**< [in] As forward. */
  const sluice_tensor *x; /**< [in] The forward input [..., n]. */
  const sluice_tensor *y; /**< [in] The forward result [..., n]. */
  const sluice_tensor *lse; /**< [in] The forward lse [...]. */
  const sluice_tensor *d_lse; /**< [in] Gradient of lse [...]; NULL: none. */
  const sluice_tensor *d_mask; /**< [out] Shape of mask, any float; every axis of its own memory. */
  const sluice_tensor *d_slopes; /**< [out] Shape of slopes, any float. */
  const sluice_tensor *d_sink; /**< [out] Shape of sink, any float. */
  const sluice_tensor *d_temperature; /**< [out] Shape of temperature, any float. */
} sluice_softmax_backward_desc;

/** Bytes that sluice_softmax_backward wants, and its dry run.
 *  @param[in] context the context.
 *  @param[in] desc as for sluice_softmax_backward.
 *  @param[in] dy as for sluice_softmax_backward.
 *  @param[in] dx as for sluice_softmax_backward.
 *  @param[out] bytes wanted at 256-byte alignment.
 *  @return what sluice_softmax_backward would answer for these arguments. */
SLUICE_API sluice_status sluice_softmax_backward_workspace(const sluice_context *context,
                                                           const sluice_softmax_backward_desc *desc,
                                                           const sluice_tensor *dy, const sluice_tensor *dx,
                                                           size_t *bytes);

/** Gradient of softmax; see sluice_softmax_backward_desc. Deterministic; safe to capture; allocates nothing.
 *  @param[in] context the context, whose device holds every tensor.
 *  @param[in] desc what was saved and what is wanted; never NULL, since y or x is among it.
 *  @param[in] dy [..., n] gradient of y, any float dtype. NULL where only d_lse comes in: taken as zeros.
 *  @param[out] dx [..., n] gradient of x, any float dtype. May be dy, x or y itself (same address, dtype and
 *    strides). NULL where desc asks for another gradient.
 *  @param[in] workspace as for sluice_softmax.
 *  @param[in] workspace_bytes its size.
 *  @param[in] stream where to enqueue; NULL on a CPU context.
 *  @return SLUICE_OK, or a status whose class and text say which argument does not fit. */
SLUICE_API sluice_status sluice_softmax_backward(const sluice_context *context,
                                                 const sluice_softmax_backward_desc *desc,
                                                 const sluice_tensor *dy, const sluice_tensor *dx,
                                                 void *workspace, size_t workspace_bytes,
                                                 sluice_stream stream);

#ifdef __cplusplus
}
#endif

#endif
