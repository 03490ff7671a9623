// softmax_fuzz.cpp: any bytes become one call of the ABI on a CPU context. What must hold: nothing outside the caller's
// memory is touched, the query and the call agree, and a failure changes no byte.
//
// A view is only run when its whole range, computed here in 128 bits, fits into memory that is exactly as large. Other
// views go to the query alone, which never looks at data.
#include <sluice/sluice.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

namespace {

[[noreturn]] void broken(const char *what) {
  std::fprintf(stderr, "softmax_fuzz: %s; last error: %s\n", what, sluice_last_error());
  std::abort();
}

class reader {
 public:
  reader(const uint8_t *data, size_t size) : at(data), end(data + size) {}
  uint8_t byte() { return at < end ? *at++ : 0; }
  bool once_in(int n) { return byte() % n == 0; }
  uint64_t word() {
    uint64_t v = 0;
    for (int i = 0; i < 8; ++i) v = v << 8 | byte();
    return v;
  }
  // Mostly small, sometimes at an edge, sometimes anything.
  int64_t number() {
    uint8_t kind = byte();
    if (kind < 200) return kind % 12;
    if (kind < 215) return -int64_t(kind % 6);
    if (kind < 240) return int64_t((uint64_t(1) << byte() % 64) + kind % 3 - 1);
    if (kind < 245) return kind % 2 ? INT64_MAX : INT64_MIN;
    return int64_t(word());
  }
  double real() {
    uint8_t kind = byte();
    if (kind < 128) return 0;
    if (kind < 200) return (kind - 160) / 8.0;
    uint64_t bits = word();
    double v;
    std::memcpy(&v, &bits, sizeof v);
    return v;
  }

 private:
  const uint8_t *at, *end;
};

constexpr sluice_dtype floats[] = {{2, 32, 1}, {2, 64, 1}, {2, 16, 1}, {4, 16, 1}};
constexpr sluice_dtype flags[] = {{6, 8, 1}, {1, 8, 1}, {0, 8, 1}};
constexpr sluice_dtype indices[] = {{0, 32, 1}, {0, 64, 1}};

// A tensor with shape, strides and memory of its own.
struct operand {
  std::vector<int64_t> shape, strides;
  std::vector<uint8_t> memory, before; // exactly the view's range
  sluice_tensor tensor{};
  bool output = false;
  bool fits = true; // may be run

  void build(reader &r, const std::vector<int64_t> &like, const sluice_dtype *types, size_t count);
  void allocate(reader &r);
};

// The caller's wish for a shape: `like` itself, broadcast, or anything.
void operand::build(reader &r, const std::vector<int64_t> &like, const sluice_dtype *types, size_t count) {
  uint8_t kind = r.byte();
  shape = like;
  if (kind > 245) {
    shape.assign(r.byte() % 70, 1);
    for (int64_t &extent : shape) extent = r.number();
  } else if (kind > 120 && !output) {
    for (int64_t &extent : shape)
      if (r.once_in(2)) extent = 1;
    shape.erase(shape.begin(),
                shape.begin() + (shape.empty() ? 0 : ptrdiff_t(r.byte() % (shape.size() + 1))));
  } else if (kind == 120 && !shape.empty()) {
    shape[r.byte() % shape.size()] = r.number();
  }
  tensor.ndim = int32_t(shape.size());
  tensor.dtype = types[r.byte() % count];
  tensor.device = {1, 0};

  uint8_t layout = r.byte();
  int64_t step = layout < 40 ? 1 + layout % 3 : 1;
  strides.assign(shape.size(), 0);
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = layout < 80 && r.once_in(3) ? int64_t(-uint64_t(step)) : step;
    if (layout > 250) strides[i] = r.number();
    if (layout > 235 && layout <= 250 && !output) strides[i] = r.once_in(2) ? 0 : step;
    __builtin_mul_overflow(step, shape[i] > 0 ? shape[i] : 1, &step);
  }
  bool compact = layout > 200 && layout <= 235;

  uint8_t odd = r.byte(); // rarely, something that no view may be
  if (odd == 1) tensor.ndim = int32_t(r.number());
  if (odd == 2) tensor.dtype = {r.byte(), r.byte(), r.byte()};
  if (odd == 3) tensor.device = {r.byte(), r.byte() % 2};
  if (odd == 4) tensor.device = {r.once_in(2) ? 3 : 13, 0};
  // A library that believed an ndim larger than the arrays would read past them: they are as long as any it may believe.
  size_t believed =
      tensor.ndim > int32_t(shape.size()) && tensor.ndim <= 64 ? size_t(tensor.ndim) : shape.size();
  shape.resize(believed, 1), strides.resize(believed, 1);
  tensor.shape = odd == 5 || shape.empty() ? nullptr : shape.data();
  tensor.strides = compact || strides.empty() ? nullptr : strides.data();
  allocate(r);
  if (odd == 6) tensor.data = nullptr;
  if (odd == 7) tensor.byte_offset += 1, fits = false;
}

void operand::allocate(reader &r) {
  __int128 low = 0, high = 0, elements = 1, compact = 1;
  int64_t size = tensor.dtype.bits / 8;
  bool sound = tensor.ndim >= 0 && tensor.ndim <= 64 && tensor.dtype.lanes == 1 && size > 0;
  bool empty = false;
  for (int32_t i = sound ? tensor.ndim : 0; i-- > 0 && sound;) {
    int64_t extent = shape[size_t(i)];
    if (extent < 0) sound = false;
    if (extent == 0) empty = true;
    __int128 stride = tensor.strides ? strides[size_t(i)] : compact;
    __int128 reach = stride * (extent > 0 ? extent - 1 : 0);
    (reach < 0 ? low : high) += reach;
    elements *= extent > 0 ? extent : 1;
    compact *= extent > 0 ? extent : 1;
    if (elements > 1 << 20) sound = false; // too slow, and 128 bits end somewhere too
  }
  constexpr __int128 largest = 1 << 18;
  fits = sound && (empty || ((high - low + 1) * size <= largest && elements <= (1 << 15)));
  if (!fits || empty) {
    tensor.data =
        empty && r.once_in(2) ? nullptr : reinterpret_cast<void *>(uintptr_t(0x1000)); // never touched
    return;
  }
  memory.resize(size_t((high - low + 1) * size));
  uint64_t seed = r.word();
  for (uint8_t &b : memory) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    b = uint8_t(seed >> 56);
  }
  before = memory;
  tensor.data = memory.data();
  tensor.byte_offset = uint64_t(-low * size);
}

struct scene {
  std::deque<operand> operands;
  bool fits = true;

  const sluice_tensor *add(reader &r, bool output, const std::vector<int64_t> &like,
                           const sluice_dtype *types, size_t count, int absent_once_in) {
    if (r.once_in(absent_once_in)) return nullptr;
    operand &o = operands.emplace_back();
    o.output = output;
    o.build(r, like, types, count);
    fits = fits && o.fits;
    return &o.tensor;
  }
  const sluice_tensor *floating(reader &r, bool output, const std::vector<int64_t> &like, int absent) {
    return add(r, output, like, floats, 4, absent);
  }
  void want_unchanged(bool outputs_too) const {
    for (const operand &o : operands)
      if ((outputs_too || !o.output) && o.memory != o.before) broken("a call changed what it may not");
  }
};

int64_t keep_alive[32];

void *lend(void *, size_t bytes, sluice_stream) { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }
void take_back(void *, void *memory, size_t, sluice_stream) { std::free(memory); }
void backwards(void *, int64_t n, void (*body)(void *, int64_t), void *arg) {
  for (int64_t i = n; i-- > 0;) body(arg, i);
}

const sluice_context *context_for(uint8_t kind) {
  static sluice_context *made[3] = {};
  int which = kind % 3;
  if (!made[which]) {
    sluice_hooks hooks = {sizeof hooks, keep_alive, lend, take_back, nullptr, backwards};
    sluice_context_desc desc = {sizeof desc, 1, 0, 0, which == 0 ? 1 : 3, which == 2 ? &hooks : nullptr};
    if (sluice_context_create(&desc, &made[which]) != SLUICE_OK) broken("no context");
  }
  return kind > 250 ? nullptr : made[which];
}

// The descriptor in memory that ends where its struct_size says, so that a read beyond it is seen.
template <typename D>
class sized {
 public:
  sized(reader &r, const D &d) {
    uint8_t kind = r.byte();
    size_t size = kind < 230 ? sizeof d : kind < 240 ? sizeof d + kind % 32 : size_t(r.number());
    bool refused = size < sizeof d || size > 4096;
    memory.reset(new (std::align_val_t(8)) unsigned char[refused ? 8 : size]());
    std::memcpy(memory.get(), &d, refused ? 8 : sizeof d);
    std::memcpy(memory.get(), &size, sizeof size);
    if (!refused && size > sizeof d && r.once_in(2))
      memory.get()[sizeof d + r.byte() % (size - sizeof d)] = r.byte();
    null = kind == 255;
  }
  const D *get() const { return null ? nullptr : reinterpret_cast<const D *>(memory.get()); }

 private:
  struct release {
    void operator()(unsigned char *p) const { ::operator delete[](p, std::align_val_t(8)); }
  };
  std::unique_ptr<unsigned char, release> memory;
  bool null = false;
};

// Query and run(workspace, bytes) have to agree.
template <typename Query, typename Run>
void check(reader &r, const scene &s, const sluice_context *context, Query &&query, Run &&run) {
  constexpr size_t untouched = 0xabcdef;
  size_t wanted = untouched;
  sluice_status asked = query(&wanted);
  if (asked != SLUICE_OK && wanted != untouched) broken("a failed query wrote its result");
  if (asked == SLUICE_INTERNAL) broken("internal");
  s.want_unchanged(true);
  if (!s.fits) return;
  if (asked != SLUICE_OK) {
    if (run(nullptr, 0) != asked) broken("the call accepts what its query refuses");
    s.want_unchanged(true);
    return;
  }
  bool hooked = context == context_for(2);
  if (wanted && r.once_in(4)) {
    size_t less = size_t(uint64_t(r.number()) % wanted);
    std::unique_ptr<void, void (*)(void *)> room(std::aligned_alloc(256, (wanted + 255) / 256 * 256),
                                                 std::free);
    if (run(room.get(), less) != SLUICE_WORKSPACE_TOO_SMALL) broken("a short workspace was taken");
    if (!hooked && run(nullptr, 0) != SLUICE_WORKSPACE_TOO_SMALL) broken("no workspace was enough");
    s.want_unchanged(!hooked);
    if (hooked) return;
  }
  std::unique_ptr<void, void (*)(void *)> room(
      wanted ? std::aligned_alloc(256, (wanted + 255) / 256 * 256) : nullptr, std::free);
  if (wanted) std::memset(room.get(), 0xff, wanted);
  if (run(room.get(), wanted) != SLUICE_OK) broken("the call refuses what its query accepts");
  s.want_unchanged(false);
}

template <typename D>
void numbers(reader &r, D &d) {
  d.scale = r.real();
  d.softcap = r.once_in(2) ? 0 : r.real();
  auto small = [&](int n) { return r.once_in(40) ? int32_t(r.number()) : int32_t(r.byte() % n); };
  d.log = small(2), d.empty_row = small(3), d.causal = small(2), d.diagonal = small(2);
  d.diagonal_offset = r.once_in(2) ? 0 : r.number();
  d.window = r.once_in(2) ? 0 : r.number();
}

template <typename D>
void shared_operands(reader &r, scene &s, const std::vector<int64_t> &shape, const std::vector<int64_t> &rows,
                     D &d) {
  d.mask = s.floating(r, false, shape, 2);
  d.keep = r.once_in(2) ? nullptr : s.add(r, false, shape, flags, 3, 2);
  d.lengths = r.once_in(2) ? nullptr : s.add(r, false, rows, indices, 2, 2);
  d.slopes = r.once_in(2) ? nullptr : s.floating(r, false, rows, 2);
  d.sink = r.once_in(2) ? nullptr : s.floating(r, false, rows, 2);
  d.temperature = r.once_in(2) ? nullptr : s.floating(r, false, rows, 2);
}

std::vector<int64_t> draw_shape(reader &r) {
  std::vector<int64_t> shape(r.once_in(30) ? size_t(r.byte() % 66) : size_t(1 + r.byte() % 4), 1);
  for (int64_t &extent : shape)
    if (shape.size() < 8 || r.once_in(8)) extent = r.number();
  if (!shape.empty() && r.once_in(6)) shape.back() = 60 + r.byte();
  if (r.once_in(40))
    shape = {1 + r.byte() % 2, 4000 + 256 * int64_t(r.byte() % 50) + r.byte()}; // cut among threads
  return shape;
}

void forward(reader &r) {
  std::vector<int64_t> shape = draw_shape(r), rows(shape);
  if (!rows.empty()) rows.pop_back();
  scene s;
  sluice_softmax_desc d{};
  numbers(r, d);
  d.accuracy = r.byte() % 2;
  const sluice_tensor *x = s.floating(r, false, shape, 60), *y = s.floating(r, true, shape, 8);
  if (x && r.once_in(8)) y = x, s.operands.front().output = true;
  shared_operands(r, s, shape, rows, d);
  d.lse = s.floating(r, true, rows, 2);
  d.max = s.floating(r, true, rows, 2);
  sized<sluice_softmax_desc> desc(r, d);
  const sluice_context *context = context_for(r.byte());
  check(
      r, s, context,
      [&](size_t *bytes) { return sluice_softmax_workspace(context, desc.get(), x, y, bytes); },
      [&](void *room, size_t bytes) {
        return sluice_softmax(context, desc.get(), x, y, room, bytes, nullptr);
      });
}

void backward(reader &r) {
  std::vector<int64_t> shape = draw_shape(r), rows(shape);
  if (!rows.empty()) rows.pop_back();
  scene s;
  sluice_softmax_backward_desc d{};
  numbers(r, d);
  const sluice_tensor *dy = s.floating(r, false, shape, 8), *dx = s.floating(r, true, shape, 6);
  if (dy && r.once_in(8)) dx = dy, s.operands.front().output = true;
  d.x = s.floating(r, false, shape, 6);
  d.y = s.floating(r, false, shape, 3);
  d.lse = s.floating(r, false, rows, 6);
  d.d_lse = s.floating(r, false, rows, 3);
  shared_operands(r, s, shape, rows, d);
  auto gradient_of = [&](const sluice_tensor *t) -> const sluice_tensor * {
    if (!t && !r.once_in(30)) return nullptr;
    if (!t || t->ndim < 0 || t->ndim > 64 || !t->shape) return s.floating(r, true, shape, 2);
    return s.floating(r, true, std::vector<int64_t>(t->shape, t->shape + t->ndim), 2);
  };
  d.d_mask = gradient_of(d.mask), d.d_slopes = gradient_of(d.slopes), d.d_sink = gradient_of(d.sink);
  d.d_temperature = gradient_of(d.temperature);
  sized<sluice_softmax_backward_desc> desc(r, d);
  const sluice_context *context = context_for(r.byte());
  check(
      r, s, context,
      [&](size_t *bytes) { return sluice_softmax_backward_workspace(context, desc.get(), dy, dx, bytes); },
      [&](void *room, size_t bytes) {
        return sluice_softmax_backward(context, desc.get(), dy, dx, room, bytes, nullptr);
      });
}

void everything_else(reader &r) {
  sluice_context_desc d{};
  sluice_hooks h{};
  h.struct_size = r.once_in(8) ? size_t(r.number()) : sizeof h;
  if (r.once_in(2)) h.alloc = lend;
  if (r.once_in(2)) h.release = take_back;
  d.device_type = int32_t(r.number()), d.device_id = int32_t(r.number());
  d.debug_sync = int32_t(r.number()), d.threads = int32_t(r.number());
  // A CUDA context is another test's business, and slow to make.
  if (d.device_type == 2) d.device_type = 1;
  bool larger = h.struct_size > sizeof h && h.struct_size <= 4096;
  if (r.once_in(2) && !larger) d.hooks = &h;
  sized<sluice_context_desc> desc(r, d);
  sluice_context *made = nullptr;
  if (sluice_context_create(desc.get(), &made) == SLUICE_OK) {
    sluice_dtype types[3] = {floats[r.byte() % 4], {r.byte(), r.byte(), r.byte()}, floats[r.byte() % 4]};
    char name[9] = {};
    for (char &c : name) c = char(r.byte());
    name[8] = '\0';
    (void)sluice_op_supports(made, r.once_in(2) ? name : sluice_op_name(r.byte() % 4), types, r.byte() % 4);
    (void)sluice_context_warm(made, r.once_in(2) ? name : sluice_op_name(r.byte() % 4));
    sluice_context_destroy(made);
  } else if (made) {
    broken("a failed context_create wrote its result");
  }
  (void)sluice_status_name(static_cast<sluice_status>(int32_t(r.word() & 0x7fffffff)));
  (void)sluice_op_name(int32_t(r.number()));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  reader r(data, size);
  uint8_t kind = r.byte();
  if (kind < 140)
    forward(r);
  else if (kind < 250)
    backward(r);
  else
    everything_else(r);
  const char *line = sluice_last_error();
  if (std::strchr(line, '\n') || std::strlen(line) > 400) broken("an error text that is not a line");
  return 0;
}
