// softmax_plan.cpp: make_plan() of the forward direction and what both directions check alike. Pure:
// descriptor, views and machine in, a plan or the reason against it out.
#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/softmax/layout.hpp"
#include "ops/softmax/softmax.hpp"

namespace sluice::softmax {

const char *variant_name(variant how) {
  switch (how) {
    case variant::nothing: return "nothing";
    case variant::rows: return "rows";
    case variant::pieces: return "pieces";
    case variant::columns: return "columns";
    case variant::team_per_row: return "team_per_row";
    case variant::block_per_row: return "block_per_row";
    case variant::cluster_per_row: return "cluster_per_row";
    case variant::split_row: return "split_row";
    case variant::block_per_wide_row: return "block_per_wide_row";
  }
  return "unknown";
}

namespace {

constexpr int64_t largest_offset = int64_t(1) << 61;  // p(i) stays inside int64

// What a body takes at a time.
constexpr int64_t task_bytes = 128 << 10;
// Results larger than this are written past the caches, which spares reading each line before it is
// overwritten.
constexpr int64_t cached_bytes = 4 << 20;
// Elements of a tile, so that two stay in a core's second-level cache.
constexpr int64_t tile_elements = 128 << 10;
// Exponentials of a row that are kept between its two loops: with the row itself they fill such a cache.
constexpr int64_t kept_bytes = 1 << 20;
static_assert(kept_bytes / 4 <= most_chunks * chunk);
// Waking threads twice takes longer than one thread needs for the first; what each is woken for at least.
constexpr int64_t one_thread_elements = 32 << 10;
constexpr int64_t thread_elements = 16 << 10;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool has_fp32_result(const tensors &t, operand k) {
  return t.present[k] && same(t.of[k].dtype, dtype_of<float>);
}

// Rows of x stand side by side: one step along the last joined axis is one element, in x and in y.
bool rows_side_by_side(const plan &p) {
  if (p.space.axes == 0 || p.column[op_x] == 1) return false;
  int last = p.space.axes - 1;
  bool y_too = !p.has(op_y) || (p.space.stride[last][op_y] == 1 && p.column[op_y] != 1);
  return p.space.extent[last] >= 8 && p.space.stride[last][op_x] == 1 && y_too;
}

void choose_cpu(plan &p, int32_t width) {
  int64_t row_bytes = std::max<int64_t>(1, p.n * bytes_of(p.dtype[op_x]));
  if (rows_side_by_side(p)) {
    int64_t side = p.space.extent[p.space.axes - 1], length = std::min(p.n, chunk);
    p.how = variant::columns;
    p.tile =
        std::min(std::clamp<int64_t>(tile_elements / length / 16 * 16, 16, 256), ceil_div(side, 16) * 16);
    p.tasks = std::min<int64_t>(width, p.space.rows / side * ceil_div(side, p.tile));
    return;
  }
  int64_t elements = p.space.rows * p.n;
  int64_t bodies = elements < one_thread_elements ? 1 : std::min<int64_t>(width, elements / thread_elements);
  if (bodies > 1 && p.space.rows < 4 * bodies && p.n >= 4 * chunk) {
    p.how = variant::pieces;
    int64_t chunks = chunks_of(p.n);
    p.per_task = ceil_div(chunks, std::min(chunks, ceil_div(2 * bodies, p.space.rows)));
    p.tasks = p.space.rows * ceil_div(chunks, p.per_task);
    return;
  }
  p.how = variant::rows;
  p.keeps_exponentials = p.has(op_y) && !p.does.log && p.n > chunk && p.n * (p.wide ? 8 : 4) <= kept_bytes;
  p.per_task =
      std::clamp<int64_t>(task_bytes / row_bytes, 1, std::max<int64_t>(1, p.space.rows / (4 * bodies)));
  p.tasks = std::min(bodies, ceil_div(p.space.rows, p.per_task));
}

// Blocks of a cluster, each with as many warps, and those with as few chunks, as hold the row; more blocks where rows
// alone would leave multiprocessors idle. False: no cluster holds the row.
bool choose_cluster(plan &p, int32_t share, int32_t most_chunks_held, const machine &on) {
  const int64_t chunks = device_chunks(p.n);
  const struct {
    int32_t warps, held, share;
  } ways[] = {{block_warps, 1, share}, {large_block_warps, 1, 1}, {large_block_warps, most_held, 1}};
  for (const auto &way : ways) {
    if (way.held > most_chunks_held) return false;
    const int32_t (&at_once)[cuda::cluster_sizes] = on.clusters.of_share[way.share];
    int size = 0;  // log2 of the blocks
    while (size < cuda::cluster_sizes && (int64_t(way.warps * way.held) << size) < chunks) ++size;
    if (size == cuda::cluster_sizes || at_once[size] == 0) continue;
    while (size + 1 < cuda::cluster_sizes && p.space.rows << (size + 1) <= on.width &&
           chunks >> (size + 1) > 0 && at_once[size + 1] > 0)
      ++size;
    p.how = variant::cluster_per_row;
    p.held = way.held;
    p.blocks = 1 << size;
    p.warps = int32_t(ceil_div(chunks, int64_t(p.blocks) * p.held));
    p.rows_at_once = std::min<int64_t>(p.space.rows, at_once[size]);
    return true;
  }
  return false;
}

void choose_cuda(plan &p, const tensors &t, const machine &on) {
  if (p.wide) {
    p.how = variant::block_per_wide_row;
    return;
  }
  // A scale that rounds to 0 would make NaN of the -inf that stand for columns beyond the row.
  p.shaped = p.shapes_x || p.has(op_sink) || float(p.does.scale) == 0;
  p.aligned = !p.shaped && rows_are_aligned(p, t, op_x) &&
              (!p.has(op_y) || (same(p.dtype[op_x], p.dtype[op_y]) && rows_are_aligned(p, t, op_y)));
  choose_device_rows(p, p.dtype[op_x], p.aligned ? 3 : 2, p.aligned ? most_held : 1, on);
}

}  // namespace

bool rows_are_aligned(const plan &p, const tensors &t, operand k) {
  const int64_t bytes = bytes_of(p.dtype[k]);
  return p.space.axes <= 1 && p.column[k] == 1 && p.n * bytes % 16 == 0 &&
         reinterpret_cast<uintptr_t>(t.of[k].data) % 16 == 0 &&
         (p.space.axes == 0 || p.space.stride[0][k] * bytes % 16 == 0);
}

void choose_device_rows(plan &p, sluice_dtype lines_of, int32_t share, int32_t most_chunks_held,
                        const machine &on) {
  const int64_t chunks = device_chunks(p.n);
  if (chunks <= 1) {
    // Two lanes at least: 32 bytes that lie together are what memory moves.
    const int64_t all = ceil_div(std::max<int64_t>(p.n, 1), 16 / bytes_of(lines_of));
    const int64_t lanes = std::clamp<int64_t>(ceil_div(all, team_lines), std::min<int64_t>(all, 2), 32);
    p.how = variant::team_per_row;
    p.lanes = int32_t(std::bit_ceil(uint64_t(lanes)));
    p.lines = all <= p.lanes ? 1 : all <= p.lanes * team_lines ? team_lines : 2 * team_lines;
  } else if (chunks <= block_warps) {
    p.how = variant::block_per_row;
    p.warps = int32_t(chunks);
  } else if (!choose_cluster(p, share, most_chunks_held, on)) {
    p.how = variant::split_row;
  }
}

result<void> want_flag_value(int32_t value, const char *field) {
  if (value == 0 || value == 1) return {};
  return fail(SLUICE_INVALID_ARGUMENT, "desc.%s is %d, want 0 or 1", field, value);
}

result<effects> read_effects(double scale, double softcap, int32_t log, int32_t empty_row, int32_t causal,
                             int32_t diagonal, int64_t offset, int64_t window, bool wide) {
  double largest = wide ? 1.7976931348623157e308 : 3.4028234663852886e38;
  if (!(std::fabs(scale) <= largest))
    return fail(SLUICE_INVALID_ARGUMENT, "desc.scale is %g, want a finite number in the compute type", scale);
  if (!(softcap >= 0 && softcap <= largest))
    return fail(SLUICE_INVALID_ARGUMENT, "desc.softcap is %g, want a finite number >= 0 in the compute type",
                softcap);
  if (auto r = want_flag_value(log, "log"); !r) return r.error();
  if (empty_row < 0 || empty_row > SLUICE_EMPTY_ROW_UNIFORM)
    return fail(SLUICE_INVALID_ARGUMENT, "desc.empty_row is %d, want 0 to 2", empty_row);
  if (auto r = want_flag_value(causal, "causal"); !r) return r.error();
  if (auto r = want_flag_value(diagonal, "diagonal"); !r) return r.error();
  if (offset < -largest_offset || offset > largest_offset)
    return fail(SLUICE_INVALID_ARGUMENT, "desc.diagonal_offset is %lld, want at most 2^61 either way",
                (long long)offset);
  if (window < 0 || window > largest_offset)
    return fail(SLUICE_INVALID_ARGUMENT, "desc.window is %lld, want 0 to 2^61", (long long)window);
  effects does = {};
  does.scale = scale == 0 ? 1.0 : wide ? scale : double(float(scale));
  does.softcap = wide ? softcap : double(float(softcap));
  does.diagonal = offset;
  does.window = window;
  does.causal = causal;
  does.log = log;
  does.empty_row = empty_row;
  return does;
}

bool computes_in_double(const tensors &t) {
  for (int k = 0; k < operands; ++k)
    if (t.present[k] && same(t.of[k].dtype, dtype_of<double>)) return true;
  auto is_double = [](bool wanted, const view &v) { return wanted && same(v.dtype, dtype_of<double>); };
  return is_double(t.wants_mask, t.d_mask) || is_double(t.wants_slopes, t.d_slopes) ||
         is_double(t.wants_sink, t.d_sink) || is_double(t.wants_temperature, t.d_temperature);
}

result<void> lay_out(const tensors &t, operand reference, const char *name, bool bottom_right, plan &p) {
  const view &x = t.of[reference];
  if (x.axes == 0) return fail(SLUICE_INVALID_SHAPE, "%s.ndim is 0, want at least 1", name);
  int32_t leading = x.axes - 1;
  p.n = x.shape[leading];
  p.does.diagonal += bottom_right && leading > 0 ? p.n - x.shape[leading - 1] : bottom_right ? p.n - 1 : 0;

  int64_t stride[max_axes][operands];  // of the leading axes
  std::fill_n(&stride[0][0], leading * operands, 0);
  for (int k = 0; k < operands; ++k) p.column[k] = 0, p.dtype[k] = {};
  for (const operand_rule &rule : rules) {
    operand k = rule.which;
    if (!t.present[k]) continue;
    const view &v = t.of[k];
    p.dtype[k] = v.dtype;
    int64_t seen[max_axes];
    result<void> fits;
    switch (rule.shape) {
      case shaped::like_x: fits = want_shape(v, name_of(rule, t), x.shape, x.axes); break;
      case shaped::like_row: fits = want_shape(v, name_of(rule, t), x.shape, leading); break;
      case shaped::against_x: fits = broadcast(v, name_of(rule, t), name, x.shape, x.axes, seen); break;
      case shaped::against_row:
        fits = broadcast(v, name_of(rule, t), "the rows", x.shape, leading, seen);
        break;
    }
    if (!fits) return fits;
    bool exact = rule.shape == shaped::like_x || rule.shape == shaped::like_row;
    const int64_t *strides = exact ? v.strides : seen;
    for (int a = 0; a < leading; ++a) stride[a][k] = strides[a];
    bool has_columns = rule.shape == shaped::like_x || rule.shape == shaped::against_x;
    if (has_columns) p.column[k] = rule.shape == shaped::like_x && p.n == 1 ? 1 : strides[leading];
  }
  bool counts_queries = p.does.causal || p.does.window || t.present[op_slopes];
  if (leading > 0 && counts_queries) stride[leading - 1][op_query] = 1;

  if (auto r = join_axes(leading, x.shape, stride, p.space); !r) return r;
  p.shapes_x = p.does.softcap != 0 || p.does.causal || p.does.window || t.present[op_mask] ||
               t.present[op_keep] || t.present[op_lengths] || t.present[op_slopes] ||
               t.present[op_temperature];
  return {};
}

result<plan> make_plan(const sluice_softmax_desc &desc, const tensors &t, machine on) {
  plan p = {};
  p.wide = computes_in_double(t);
  auto does = read_effects(desc.scale, desc.softcap, desc.log, desc.empty_row, desc.causal, desc.diagonal,
                           desc.diagonal_offset, desc.window, p.wide);
  if (!does) return does.error();
  p.does = *does;
  if (desc.accuracy < 0 || desc.accuracy > SLUICE_ACCURACY_HIGH)
    return fail(SLUICE_INVALID_ARGUMENT, "desc.accuracy is %d, want 0 or 1", desc.accuracy);
  if (desc.reserved0 != 0)
    return fail(SLUICE_INVALID_ARGUMENT, "desc.reserved0 is %d, want 0", desc.reserved0);
  // The rounding of v - m moves every term by up to |v - m| / 2 ulp, and where many small terms make the sum,
  // the sum by several: more than the largest probabilities may be off by, whatever `accuracy` says. Only
  // 16-bit results hide it.
  p.does.careful = !p.wide && (has_fp32_result(t, op_y) || has_fp32_result(t, op_lse));
  if (!t.present[op_y] && !t.present[op_lse] && !t.present[op_max])
    return fail(SLUICE_INVALID_ARGUMENT, "y is NULL, want an output here or in desc.lse or desc.max");
  if (auto r = lay_out(t, op_x, "x", desc.diagonal == SLUICE_DIAGONAL_BOTTOM_RIGHT, p); !r) return r.error();
  if (auto r = want_outputs_apart(t, {{op_y, op_x}}); !r) return r.error();

  bool writes_rows = t.present[op_lse] || t.present[op_max];
  p.bytes = p.space.rows * p.n * (bytes_of(p.dtype[op_x]) + (p.has(op_y) ? bytes_of(p.dtype[op_y]) : 0));
  p.past_caches = p.has(op_y) && p.space.rows * p.n * bytes_of(p.dtype[op_y]) > cached_bytes &&
                  t.of[op_x].data != t.of[op_y].data;
  if (p.space.rows == 0 || (p.n == 0 && !writes_rows))
    p.how = variant::nothing;
  else if (on.cuda)
    choose_cuda(p, t, on);
  else
    choose_cpu(p, on.width);
  return p;
}

}  // namespace sluice::softmax
