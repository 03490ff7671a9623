// softmax_rows.cuh: how rows are dealt to lanes, warps, blocks and clusters. What happens to a row is the Row's
// business: softmax_forward.cuh and softmax_gradient_row.cuh. A Row reads the lines of its sources, holds them in
// registers, reduces a lane's columns to a part, and writes once the parts of all chunks are known:
//
//     Row(task, r)                            where row r lies
//     load(from, column, step)                its lines, or fetch them as source(k) and filler(k) say
//     hold(held, from, column, step)          the lines as registers hold them
//     reduce(held, used, team)                -> part, of the team's columns
//     fold(parts, chunks)                     -> part, of a row; by a whole warp
//     finish(part)                            -> part, with what is not in any column
//     write(held, own, all, team, column, step, n)
//     results(all)                            what a row has one of
#pragma once

#include "cuda/cluster.cuh"
#include "cuda/landing.cuh"
#include "cuda/lines.cuh"
#include "cuda/reduce.cuh"
#include "ops/softmax/softmax.hpp"

namespace sluice::softmax {

// What a kernel is compiled for.
enum class rows_are {
  aligned, // v = scale * x; all rows of one dtype, one after the other, of whole lines without gaps
  plain, // v = scale * x
  shaped // everything the header lists
};

// What a kernel is given.
struct row_task {
  plan p;
  addresses data;
};

// How many of a lane's lines, one every `step` columns, a row has from `column`, that of the team's first lane, on.
__device__ inline int lines_in_row(int64_t column, int step, int64_t n) {
  return cuda::within_int(n - column + step - 1) / step;
}

// ---- at most a chunk: each row by a team of lanes, no barrier -------------------------------------------------

inline constexpr int team_block_warps = 4;

// whole: a team is a warp.
template <typename Row, bool whole>
__global__ void __launch_bounds__(32 * team_block_warps, Row::blocks_for(team_block_warps))
    team_per_row(const __grid_constant__ row_task task) {
  const plan &p = task.p;
  const int lanes = whole ? 32 : p.lanes, step = lanes * Row::columns;
  const cuda::team mine = {int(threadIdx.x % lanes), lanes};
  const int64_t column = mine.lane * Row::columns;
  // Teams beyond the last row take part in what warps do, and write nothing.
  int64_t r = int64_t(blockIdx.x) * (blockDim.x / lanes) + threadIdx.x / lanes;
  const bool is_row = r < p.space.rows;
  if (!is_row) r = p.space.rows - 1;

  const Row row(task, r);
  cuda::line from[Row::sources][Row::lines];
  row.load(from, column, step);
  typename Row::held held;
  row.hold(held, from, column, step);

  const typename Row::part own = row.reduce(held, lines_in_row(0, step, p.n), mine);
  const typename Row::part all = row.finish(own);

  row.write(held, own, all, mine, column, step, is_row ? p.n : 0);
  if (is_row && mine.lane == 0) row.results(all);
}

// ---- some chunks: a block a row, a warp a chunk -----------------------------------------------------------------

template <typename Row>
__global__ void __launch_bounds__(32 * block_warps, Row::blocks_for(block_warps))
    block_per_row(const __grid_constant__ row_task task) {
  constexpr int step = 32 * Row::columns;
  __shared__ typename Row::part parts[block_warps];
  const plan &p = task.p;
  const cuda::team mine = cuda::whole_warp();
  const int warp = threadIdx.x / 32;
  const int64_t column = warp * device_chunk + mine.lane * Row::columns;

  for (int64_t r = blockIdx.x; r < p.space.rows; r += gridDim.x) {
    const Row row(task, r);
    cuda::line from[Row::sources][Row::lines];
    row.load(from, column, step);
    typename Row::held held;
    row.hold(held, from, column, step);

    const typename Row::part own = row.reduce(held, lines_in_row(warp * device_chunk, step, p.n), mine);
    if (mine.lane == 0) parts[warp] = own;
    __syncthreads();
    const typename Row::part all = row.finish(Row::fold(parts, p.warps));

    row.write(held, own, all, mine, column, step, p.n);
    if (threadIdx.x == 0) row.results(all);
    __syncthreads(); // parts are read before the next row writes them
  }
}

// ---- many chunks: a cluster a row, one row after the other ------------------------------------------------------

// While a row is reduced and written, the next one is on its way to shared memory. Parts go to every block of the
// cluster, whose first warp folds them; they alternate between two sets, which is enough: whoever sends those of row
// r + 2 has had all of r + 1, which nobody sends before it has read r.
template <typename Row, int most_warps, int chunks_held>
__global__ void __launch_bounds__(32 * most_warps, chunks_held > 1 ? 1 : Row::blocks_for(most_warps))
    cluster_per_row(const __grid_constant__ row_task task) {
  using landing = cuda::landing<Row::lines>;
  using part = typename Row::part;
  constexpr int step = 32 * Row::columns;
  extern __shared__ uint4 room[]; // a landing for each source of each chunk
  __shared__ part parts[2][most_cluster_chunks], of_rows[2];
  __shared__ cuda::mailbox box[2];
  const plan &p = task.p;
  const cuda::team mine = cuda::whole_warp();
  const int warp = threadIdx.x / 32, chunks = int(device_chunks(p.n));
  const int first_chunk = (cuda::block_of_cluster() * int(blockDim.x / 32) + warp) * chunks_held;
  auto *soon = reinterpret_cast<landing *>(room) + warp * chunks_held * Row::sources;
  const bool fetches = Row::fetches(p);
  auto chunk_column = [&](int h) { return int64_t(first_chunk + h) * device_chunk; };

  const int64_t clusters = gridDim.x / p.blocks;
  auto fetch = [&](int64_t r) {
    if (!fetches || r >= p.space.rows) return;
    const Row row(task, r);
#pragma unroll
    for (int h = 0; h < chunks_held; ++h)
      if (first_chunk + h < chunks)
#pragma unroll
        for (int k = 0; k < Row::sources; ++k)
          soon[h * Row::sources + k].fetch(row.source(k), chunk_column(h), p.n);
  };

  int64_t r = blockIdx.x / p.blocks;
  fetch(r);
  if (threadIdx.x == 0) {
    box[0].open();
    box[1].open();
    cuda::mailbox::publish();
  }
  cuda::arrive_at_cluster();
  cuda::wait_for_cluster();

  for (int turn = 0; r < p.space.rows; r += clusters, ++turn) {
    const int set = turn & 1;
    if (threadIdx.x == 0) box[set].expect(uint32_t(chunks * sizeof(part)));

    typename Row::held held[chunks_held];
    part own[chunks_held];
    cuda::wait_for_copies();
    {
      const Row row(task, r);
#pragma unroll
      for (int h = 0; h < chunks_held; ++h) {
        if (first_chunk + h >= chunks) continue;
        const int64_t column = chunk_column(h) + mine.lane * Row::columns;
        cuda::line from[Row::sources][Row::lines];
        if (fetches) {
#pragma unroll
          for (int k = 0; k < Row::sources; ++k)
            soon[h * Row::sources + k].take(from[k], row.source(k).past(), chunk_column(h), p.n,
                                            row.filler(k));
        } else {
          row.load(from, column, step);
        }
        row.hold(held[h], from, column, step);
      }
    }
    fetch(r + clusters);
    const Row row(task, r);
#pragma unroll
    for (int h = 0; h < chunks_held; ++h) {
      if (first_chunk + h >= chunks) continue;
      own[h] = row.reduce(held[h], lines_in_row(chunk_column(h), step, p.n), mine);
      if (mine.lane < p.blocks) box[set].send(mine.lane, &parts[set][first_chunk + h], &own[h]);
    }

    if (warp == 0) {
      box[set].wait(turn >> 1 & 1);
      const part all = row.finish(Row::fold(parts[set], chunks));
      if (mine.lane == 0) of_rows[set] = all;
      if (mine.lane == 0 && first_chunk == 0) row.results(all);
    }
    __syncthreads();
    const part all = of_rows[set];
#pragma unroll
    for (int h = 0; h < chunks_held; ++h)
      if (first_chunk + h < chunks)
        row.write(held[h], own[h], all, mine, chunk_column(h) + mine.lane * Row::columns, step, p.n);
  }
}

// ---- rows that no cluster holds, and devices without clusters ---------------------------------------------------

// A warp takes a chunk wherever it lies: one sweep for the parts, one fold a row, one more sweep for the results.
inline constexpr int split_warps = 4, fold_threads = 1024;

// Cof_rows f(row, chunk) for every chunk of every row, a warp each.
template <typename F>
__device__ void for_each_chunk(const plan &p, F &&f) {
  const int64_t chunks = device_chunks(p.n), warps = int64_t(gridDim.x) * (blockDim.x / 32);
  for (int64_t i = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32; i < p.space.rows * chunks;
       i += warps)
    f(i / chunks, i % chunks);
}

template <typename Row>
__device__ typename Row::part take_chunk(const Row &row, typename Row::held &held, const plan &p, int64_t c) {
  constexpr int step = 32 * Row::columns;
  const cuda::team mine = cuda::whole_warp();
  const int64_t column = c * device_chunk + mine.lane * Row::columns;
  cuda::line from[Row::sources][Row::lines];
  row.load(from, column, step);
  row.hold(held, from, column, step);
  return row.reduce(held, lines_in_row(c * device_chunk, step, p.n), mine);
}

template <typename Row>
__global__ void __launch_bounds__(32 * split_warps, Row::blocks_for(split_warps))
    sweep_chunks(const __grid_constant__ row_task task, typename Row::part *parts) {
  for_each_chunk(task.p, [&](int64_t r, int64_t c) {
    typename Row::held held;
    const typename Row::part own = take_chunk(Row(task, r), held, task.p, c);
    if (threadIdx.x % 32 == 0) parts[r * device_chunks(task.p.n) + c] = own;
  });
}

template <typename Row>
__global__ void __launch_bounds__(fold_threads, 1)
    fold_chunks(const __grid_constant__ row_task task, const typename Row::part *parts,
                typename Row::part *rows) {
  const int64_t chunks = device_chunks(task.p.n);
  for (int64_t r = blockIdx.x; r < task.p.space.rows; r += gridDim.x) {
    typename Row::part all;
    if (chunks > most_folded_by_warp)
      all = Row::fold_by_block(parts + r * chunks, chunks);
    else if (threadIdx.x < 32)
      all = Row::fold(parts + r * chunks, int(chunks));
    if (threadIdx.x == 0) {
      const Row row(task, r);
      rows[r] = all = row.finish(all);
      row.results(all);
    }
  }
}

template <typename Row>
__global__ void __launch_bounds__(32 * split_warps, Row::blocks_for(split_warps))
    write_chunks(const __grid_constant__ row_task task, const typename Row::part *rows) {
  for_each_chunk(task.p, [&](int64_t r, int64_t c) {
    const Row row(task, r);
    typename Row::held held;
    const typename Row::part own = take_chunk(row, held, task.p, c);
    row.write(held, own, rows[r], cuda::whole_warp(), c * device_chunk + threadIdx.x % 32 * Row::columns,
              32 * Row::columns, task.p.n);
  });
}

} // namespace sluice::softmax
