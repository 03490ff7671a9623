// softmax.hpp: what softmax and its gradient decide, and the only place where they decide.
#pragma once

#include <sluice/ops/softmax.h>

#include <cstdint>

#include "core/arena.hpp"
#include "core/dtype.hpp"
#include "core/result.hpp"
#include "core/rows.hpp"
#include "core/sides.hpp"
#include "core/view.hpp"
#include "cuda/device.hpp"

namespace sluice::softmax {

// ---- operands
// --------------------------------------------------------------------------------------------------------

// Everything a row may touch. The descriptors name them; `query` is no tensor but an index that walks along
// axis -2.
enum operand : int32_t {
  op_x,
  op_y,
  op_mask,
  op_keep,
  op_lengths,
  op_slopes,
  op_sink,
  op_temperature,
  op_lse,
  op_max,
  op_dy,
  op_dx,
  op_d_lse,
  op_query,
  operands
};

struct addresses {
  void *at[operands];  // nullptr where absent
};

// Where the gradients of broadcast operands go; nullptr where not wanted.
struct gradients {
  void *mask, *slopes, *sink, *temperature;
};

// ---- what both directions do to x
// ----------------------------------------------------------------------------------------

// x to v: the lines of the header's "order of effects", as numbers. Plain data for host and device.
struct effects {
  double scale;       // never 0
  double softcap;     // 0: none
  int64_t diagonal;   // p(i) = i + diagonal
  int64_t window;     // 0: none
  int32_t causal;
  int32_t log;
  int32_t careful;    // carries what v - m loses: see make_plan
  int32_t empty_row;

  // [first, last): the columns of a row that causal, window and its length leave. Empty ranges come as {0,
  // 0}.
  struct range {
    int64_t first, last;
  };
  SLUICE_BOTH_SIDES range columns(int64_t query, int64_t length) const {
    int64_t p = query + diagonal, first = 0, last = length;
    if (causal && p + 1 < last) last = p + 1;
    if (window && p - window + 1 > first) first = p - window + 1;
    if (window && p + window < last) last = p + window;
    if (first >= last) return {0, 0};
    return {first, last};
  }
};

// ---- the plans
// -------------------------------------------------------------------------------------------------------------

// On the CPU a row is cut into chunks; each sums against its own maximum, and chunks are added up in their
// order. Every variant there keeps to this, which is why all of them give the same bits.
inline constexpr int64_t chunk = 4096;
inline constexpr int64_t most_chunks = 64;  // of a row whose exponentials are kept

// On CUDA too, and there a warp holds a chunk in registers.
inline constexpr int device_chunk = 1024;
inline constexpr int team_lines = 4; // of a lane, where more lanes would only add to the work of a row
inline constexpr int block_warps = 8; // of a block that holds a row or a part of it; three such at once
inline constexpr int large_block_warps = 16; // where a cluster of those does not hold the row; one at once
inline constexpr int most_cluster_blocks = 16;
inline constexpr int most_held = 2; // chunks of a warp
inline constexpr int most_cluster_chunks = most_cluster_blocks * large_block_warps * most_held;
inline constexpr int most_folded_by_warp = 1024; // pairs of a row
static_assert(most_cluster_chunks <= most_folded_by_warp);
SLUICE_BOTH_SIDES inline int64_t device_chunks(int64_t n) { return (n + device_chunk - 1) / device_chunk; }

enum class variant : int32_t {
  nothing, // an extent of 0 and nothing to write
  rows, // CPU: a task takes whole rows, one after the other
  pieces, // CPU, few long rows: a task takes chunks of one row; two rounds
  columns, // CPU, rows that stand side by side: a task copies a tile of them, and each row is a lane
  team_per_row, // CUDA, at most a device chunk: lanes of a warp hold the row
  block_per_row, // CUDA: a warp holds each chunk
  cluster_per_row, // CUDA, sm_90: the same over several blocks, one row after the other
  split_row, // CUDA, longer rows and older devices: two sweeps over chunks
  block_per_wide_row // CUDA, computing in double: three sweeps
};
const char *variant_name(variant how);

struct plan {
  row_space<operands> space; // rows: all axes of x but the last
  int64_t n; // columns
  int64_t column[operands]; // elements from column to column; 0 for what a row has one of
  sluice_dtype dtype[operands]; // lanes 0: absent
  effects does;
  bool wide; // computes in double
  bool shapes_x; // some effect beside scale, or an exclusion: v is built in scratch first
  variant how;
  int64_t tasks; // bodies of a parallel round
  int64_t per_task; // rows: rows of a task; pieces: chunks of a task
  int64_t tile; // columns: rows of a tile
  int32_t lanes, lines; // team_per_row: lanes of a row, 16-byte lines of a lane
  int32_t blocks, warps,
      held; // block_ and cluster_per_row: blocks of a row, warps of a block, chunks of a warp
  int64_t rows_at_once; // cluster_per_row
  bool aligned; // CUDA: see rows_are
  bool shaped;
  bool keeps_exponentials; // rows: each body has room for a row's e^(v - m); else longer ones are made twice
  bool past_caches; // the results are too large to stay in a cache
  int64_t bytes; // moved through memory when nothing is cached: what a benchmark divides by

  bool has(operand k) const { return dtype[k].lanes != 0; }
  // Scratch of one body, in whole blocks of columns.
  int64_t body_bytes() const {
    int64_t columns = how == variant::columns ? (n < chunk ? n : chunk) : n;
    int64_t copies = how == variant::columns ? 2 * tile : keeps_exponentials ? 1 : 0;
    return (columns + 63) / 64 * 64 * copies * (wide ? 8 : 4);
  }
};

// What a chunk or row came to: its maximum and the sum of e^(v - m).
struct pair {
  double m, s;
};

// What a row came to, with its sink: y = e^(v - m) / s, or (v - m) - log_s; or a constant for the whole row.
struct total {
  double m, s, log_s, lse;
  int32_t empty; // follows the empty-row policy
  int32_t poisoned; // holds a NaN or +inf
};

// scratch:  | pairs [rows, chunks]   | totals [rows] |  pieces
//           | e^(v - m) of a row [tasks, n] of the compute type |  rows that keep_exponentials
//           | two tiles [tasks, 2, tile / lanes, min(n, chunk) in blocks of 64, lanes] of the compute type |
//             columns
//           | pairs [rows, device chunks] | pairs [rows] |  split_row
struct scratch {
  pair *pairs;
  total *totals;
  char *bodies; // body_bytes() for each
  pair *device_pairs, *device_rows;
};

SLUICE_BOTH_SIDES inline int64_t chunks_of(int64_t n) { return (n + chunk - 1) / chunk; }

inline scratch carve(arena &room, const plan &p) {
  bool pieces = p.how == variant::pieces, split = p.how == variant::split_row;
  return {room.take<pair>(pieces ? p.space.rows * chunks_of(p.n) : 0),
          room.take<total>(pieces ? p.space.rows : 0), room.take<char>(p.tasks * p.body_bytes()),
          room.take<pair>(split ? p.space.rows * device_chunks(p.n) : 0),
          room.take<pair>(split ? p.space.rows : 0)};
}

// One gradient of a broadcast operand: the rows that share an element, in order.
struct reduction {
  row_space<2> kept; // elements of the gradient: {its offset, the first row that shares it}
  row_space<1> shared; // {rows from there on}
  int64_t column; // d_mask: its stride along the last axis; 0: summed over the columns as well
  bool wanted;
  sluice_dtype dtype;
};

struct backward_plan {
  plan rows; // operands, effects, n; `how` counts tasks for the round over rows
  bool from_y; // p from y; else from x and lse
  bool is_plain; // CUDA: dx from y and dy of its own dtype alone, which is read and written in lines
  reduction mask, slopes, sink, temperature;

  bool reduces() const { return mask.wanted || slopes.wanted || sink.wanted || temperature.wanted; }
};

// scratch:  | dots [rows] | d_mask of whole rows [rows] | d_slopes [rows] | d_sink [rows] | d_temperature
// [rows] |
//           | parts [rows, device chunks] | parts [rows] |  is_plain and split_row, instead of the dots
struct backward_scratch {
  double *dots, *mask, *slopes, *sink, *temperature;
  pair *device_parts, *device_rows;
};

inline backward_scratch carve(arena &room, const backward_plan &p) {
  int64_t rows = p.rows.how == variant::nothing ? 0 : p.rows.space.rows;
  int64_t split = p.rows.how == variant::split_row ? rows : 0;
  return {room.take<double>(p.is_plain ? 0 : rows),
          room.take<double>(p.mask.wanted && p.mask.column == 0 ? rows : 0),
          room.take<double>(p.slopes.wanted ? rows : 0),
          room.take<double>(p.sink.wanted ? rows : 0),
          room.take<double>(p.temperature.wanted ? rows : 0),
          room.take<pair>(split * device_chunks(p.rows.n)),
          room.take<pair>(split)};
}

// What a plan may know of the machine.
struct machine {
  bool cuda;
  int32_t width; // CPU: bodies that run at once. CUDA: multiprocessors
  cuda::cluster_counts clusters; // CUDA
};
machine machine_of(const sluice_context &context);

// The caller's tensors after read_view; `present` tells which were given.
struct tensors {
  addresses addresses_of() const {
    addresses a;
    for (int k = 0; k < operands; ++k) a.at[k] = present[k] ? of[k].data : nullptr;
    return a;
  }
  gradients gradients_of() const {
    return {wants_mask ? d_mask.data : nullptr, wants_slopes ? d_slopes.data : nullptr,
            wants_sink ? d_sink.data : nullptr, wants_temperature ? d_temperature.data : nullptr};
  }

  bool backward = false; // which call they were given to
  view of[operands];
  bool present[operands] = {};
  view d_mask, d_slopes, d_sink, d_temperature;
  bool wants_mask = false, wants_slopes = false, wants_sink = false, wants_temperature = false;
};

result<plan> make_plan(const sluice_softmax_desc &desc, const tensors &t, machine on);
result<backward_plan> make_plan(const sluice_softmax_backward_desc &desc, const tensors &t, machine on);

} // namespace sluice::softmax
