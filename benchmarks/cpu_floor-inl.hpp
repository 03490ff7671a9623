// cpu_floor-inl.hpp: one kernel that moves bytes in the ways that differ in speed. Included once an instruction set, in
// a namespace that holds `vector`, load(), store() and stream(); BENCH_TARGET names the instruction set.
// No include guard: see above.

// The last bytes of a slice, fewer than a vector.
template <mix what>
inline void finish(std::byte *z, const std::byte *x, const std::byte *y, size_t bytes) {
  if constexpr (what == mix::read_only) return;
  for (size_t i = 0; i < bytes; ++i) z[i] = what == mix::combine ? x[i] ^ y[i] : x[i];
}

// Moves `count` bytes of `w.pages` places that are a page apart, the same offset in each: as many pages of memory are
// open at once.
template <mix what, walk w>
BENCH_TARGET void pages(std::byte *z, const std::byte *x, const std::byte *y, size_t count, vector &all) {
  constexpr size_t per_page = 64 * w.lines / sizeof(vector), vectors = w.pages * per_page;
  auto place = [](size_t k) { return k / per_page * page + k % per_page * sizeof(vector); };
  vector v[vectors];
  for (size_t i = 0; i < count; i += 64 * w.lines) {
    if constexpr (w.ahead != 0)
#pragma GCC unroll 32
      for (int p = 0; p < w.pages; ++p)
#pragma GCC unroll 8
        for (int line = 0; line < w.lines; ++line) {
          _mm_prefetch(x + i + size_t(p) * page + 64 * line + w.ahead, _MM_HINT_T0);
          if constexpr (what == mix::combine)
            _mm_prefetch(y + i + size_t(p) * page + 64 * line + w.ahead, _MM_HINT_T0);
        }
#pragma GCC unroll 32
    for (size_t k = 0; k < vectors; ++k) {
      v[k] = load(x + i + place(k));
      if constexpr (what == mix::combine) v[k] = v[k] ^ load(y + i + place(k));
      if constexpr (what == mix::read_only) all = all ^ v[k];
    }
    if constexpr (what != mix::read_only)
#pragma GCC unroll 32
      for (size_t k = 0; k < vectors; ++k)
        w.stream ? stream(z + i + place(k), v[k]) : store(z + i + place(k), v[k]);
  }
}

template <mix what, walk w>
BENCH_TARGET void move(void *to, const void *a, const void *b, size_t bytes) {
  const auto *x = static_cast<const std::byte *>(a), *y = static_cast<const std::byte *>(b);
  auto *z = static_cast<std::byte *>(to);
  constexpr walk one_line = {1, 1, 0, w.stream};
  vector all = {};
  size_t i = 0;
  if constexpr (w.pages > 1) {
    for (; i + w.pages * page <= bytes; i += w.pages * page) pages<what, w>(z + i, x + i, y + i, page, all);
  } else {
    i = bytes / (64 * w.lines) * (64 * w.lines);
    pages<what, w>(z, x, y, i, all);
  }
  size_t lines = (bytes - i) / 64 * 64;
  pages<what, one_line>(z + i, x + i, y + i, lines, all);
  if constexpr (w.stream) _mm_sfence();
  if constexpr (what == mix::read_only) sink.store(uint64_t(all[0]), std::memory_order_relaxed);
  i += lines;
  finish<what>(z + i, x + i, y + i, bytes - i);
}
