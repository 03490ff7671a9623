// softmax_launch.cuh: the launches of softmax_rows.cuh's kernels over one kind of Row. make_plan() chose the variant;
// nothing is decided here.
#pragma once

#include "cuda/launch.cuh"
#include "ops/softmax/softmax_rows.cuh"

namespace sluice::softmax::launches {

// Where there is more work than a grid has blocks, a block takes several parts.
inline constexpr int64_t largest_grid = 0x7fffffff;
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline unsigned grid_of(int64_t blocks) { return unsigned(blocks < largest_grid ? blocks : largest_grid); }

template <typename Row, bool whole>
result<void> teams(const row_task &task, sluice_stream stream) {
  const int64_t rows_of_block = 32 * team_block_warps / task.p.lanes;
  return cuda::launch(team_per_row<Row, whole>, grid_of(ceil_div(task.p.space.rows, rows_of_block)),
                      32 * team_block_warps, stream, task);
}

template <typename Row, int most_warps, int chunks_held>
result<void> clusters(const row_task &task, sluice_stream stream) {
  const plan &p = task.p;
  auto kernel = cluster_per_row<Row, most_warps, chunks_held>;
  constexpr int chunk_bytes = chunks_held * Row::sources * int(sizeof(cuda::landing<Row::lines>));
  cuda::launch_extras extras = {p.warps * chunk_bytes, p.blocks};
  // The same for every call, since others may be between their two lines here.
  if (auto allowed = cuda::allow(kernel, {most_warps * chunk_bytes, most_cluster_blocks}); !allowed)
    return allowed;
  return cuda::launch(kernel, unsigned(p.rows_at_once * p.blocks), 32 * p.warps, extras, stream, task);
}

template <typename Row>
result<void> split(const row_task &task, typename Row::part *parts, typename Row::part *rows, bool writes,
                   sluice_stream stream) {
  const plan &p = task.p;
  const unsigned blocks = grid_of(ceil_div(p.space.rows * device_chunks(p.n), split_warps));
  return first_failure(
      [&] { return cuda::launch(sweep_chunks<Row>, blocks, 32 * split_warps, stream, task, parts); },
      [&] {
        return cuda::launch(fold_chunks<Row>, grid_of(p.space.rows), fold_threads, stream, task, parts, rows);
      },
      [&]() -> result<void> {
        if (!writes) return {};
        return cuda::launch(write_chunks<Row>, blocks, 32 * split_warps, stream, task, rows);
      });
}

// row<kind, lines>: the Row of a kind.
template <template <typename, rows_are, int> typename row, typename X, rows_are kind>
result<void> all(const row_task &task, void *parts, void *rows, bool writes, sluice_stream stream) {
  constexpr int most_lines = device_chunk / 32 / cuda::line_columns<X>;
  constexpr rows_are split_kind = kind == rows_are::shaped ? rows_are::shaped : rows_are::plain;
  using chunk_row = row<X, kind, most_lines>;
  using split_row = row<X, split_kind, most_lines>;
  const plan &p = task.p;
  switch (p.how) {
    case variant::team_per_row:
      if (p.lanes == 32 && p.lines == most_lines) return teams<chunk_row, true>(task, stream);
      if constexpr (kind != rows_are::shaped) {
        if (p.lanes == 32) return teams<row<X, kind, team_lines>, true>(task, stream);
        if (p.lines == 1) return teams<row<X, kind, 1>, false>(task, stream);
      }
      return teams<row<X, kind, team_lines>, false>(task, stream);
    case variant::block_per_row:
      return cuda::launch(block_per_row<chunk_row>, grid_of(p.space.rows), 32 * p.warps, stream, task);
    case variant::cluster_per_row:
      if constexpr (chunk_row::most_chunks_held > 1)
        if (p.held > 1) return clusters<chunk_row, large_block_warps, most_held>(task, stream);
      return p.warps > block_warps ? clusters<chunk_row, large_block_warps, 1>(task, stream)
                                   : clusters<chunk_row, block_warps, 1>(task, stream);
    case variant::split_row:
      return split<split_row>(task, static_cast<typename split_row::part *>(parts),
                              static_cast<typename split_row::part *>(rows), writes, stream);
    default: return fail(SLUICE_INTERNAL, "a plan for %s has no kernel", variant_name(p.how));
  }
}

// Loads every kernel that all() may launch.
template <template <typename, rows_are, int> typename row, typename X, rows_are kind>
result<void> warm() {
  constexpr int most_lines = device_chunk / 32 / cuda::line_columns<X>;
  using chunk_row = row<X, kind, most_lines>;
  auto load = [](auto... kernels) { return first_failure([=] { return cuda::warm(kernels); }...); };
  return first_failure(
      [&] {
        return load(team_per_row<chunk_row, true>, team_per_row<row<X, kind, team_lines>, false>,
                    block_per_row<chunk_row>, cluster_per_row<chunk_row, block_warps, 1>,
                    cluster_per_row<chunk_row, large_block_warps, 1>);
      },
      [&]() -> result<void> {
        if constexpr (kind == rows_are::shaped)
          return {};
        else
          return load(team_per_row<row<X, kind, team_lines>, true>, team_per_row<row<X, kind, 1>, false>);
      },
      [&]() -> result<void> {
        if constexpr (chunk_row::most_chunks_held == 1)
          return {};
        else
          return load(cluster_per_row<chunk_row, large_block_warps, most_held>);
      },
      [&]() -> result<void> {
        if constexpr (kind == rows_are::aligned)
          return {};
        else
          return load(sweep_chunks<chunk_row>, fold_chunks<chunk_row>, write_chunks<chunk_row>);
      });
}

} // namespace sluice::softmax::launches
