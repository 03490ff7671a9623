// cpu_floor.cpp: plain kernels that move bytes, and the threads that run them.
#include "cpu_floor.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bench {

namespace {

// ---- Threads --------------------------------------------------------------------------------------------------------

// Runs body(i) for i in [0, threads), body(0) on the caller. Between calls the others spin for a moment, so that calls
// in a row pay no wake-up, and then sleep.
class team {
 public:
  explicit team(int threads) {
    for (int i = 1; i < threads; ++i) workers.emplace_back([this, i] { work(i); });
  }
  ~team() {
    body = nullptr;
    announce();
    for (std::thread &worker : workers) worker.join();
  }

  void run(const std::function<void(int)> &what) {
    body = &what;
    busy.store(uint32_t(workers.size()), std::memory_order_relaxed);
    announce();
    what(0);
    while (busy.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

 private:
  void announce() {
    round.fetch_add(1, std::memory_order_release);
    round.notify_all();
  }

  void work(int i) {
    for (uint32_t seen = 0;;) {
      for (int spin = 0; spin < 2000 && round.load(std::memory_order_acquire) == seen; ++spin)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      round.wait(seen, std::memory_order_acquire);
      ++seen;
      if (!body) return;
      (*body)(i);
      busy.fetch_sub(1, std::memory_order_release);
    }
  }

  const std::function<void(int)> *body = nullptr;
  std::atomic<uint32_t> round{0}, busy{0};
  std::vector<std::thread> workers;
};

// ---- Kernels --------------------------------------------------------------------------------------------------------

// What a read-only kernel leaves behind, so that the compiler keeps its loads.
std::atomic<uint64_t> sink;

// What one writes without a thought: the C library's copy, or a loop left to the compiler.
template <mix what>
void plain_move(void *to, const void *a, const void *b, size_t bytes) {
  if constexpr (what == mix::copy) {
    std::memcpy(to, a, bytes);
  } else {
    const auto *x = static_cast<const uint64_t *>(a), *y = static_cast<const uint64_t *>(b);
    auto *z = static_cast<uint64_t *>(to);
    uint64_t all = 0;
    for (size_t i = 0; i < bytes / 8; ++i) {
      if constexpr (what == mix::combine)
        z[i] = x[i] ^ y[i];
      else
        all ^= x[i];
    }
    if constexpr (what == mix::read_only) sink.store(all, std::memory_order_relaxed);
  }
}

#if defined(__x86_64__)

void repeat_move(void *to, const void *a, const void *, size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(a), "+c"(bytes) : : "memory");
}

// How a kernel walks: `pages` places a page apart, `lines` of 64 bytes in each; loads asked for `ahead` bytes early (0:
// left to the hardware); stores past the caches (stream) or through them. Several pages at once are what the C library
// does for large copies: on the server CPUs tried it moves a quarter more than one page after the other.
struct walk {
  int pages, lines, ahead;
  bool stream;
};
constexpr size_t page = 4096;

namespace avx512 {
#define BENCH_TARGET [[gnu::target("avx512f")]]
using vector = __m512i;
BENCH_TARGET inline vector load(const void *from) { return _mm512_loadu_si512(from); }
BENCH_TARGET inline void store(void *to, vector v) { _mm512_storeu_si512(to, v); }
BENCH_TARGET inline void stream(void *to, vector v) { _mm512_stream_si512(static_cast<vector *>(to), v); }
#include "cpu_floor-inl.hpp"
#undef BENCH_TARGET
}  // namespace avx512

namespace avx2 {
#define BENCH_TARGET [[gnu::target("avx2")]]
using vector = __m256i;
BENCH_TARGET inline vector load(const void *from) {
  return _mm256_loadu_si256(static_cast<const vector *>(from));
}
BENCH_TARGET inline void store(void *to, vector v) { _mm256_storeu_si256(static_cast<vector *>(to), v); }
BENCH_TARGET inline void stream(void *to, vector v) { _mm256_stream_si256(static_cast<vector *>(to), v); }
#include "cpu_floor-inl.hpp"
#undef BENCH_TARGET
}  // namespace avx2

#endif

// ---- The list -------------------------------------------------------------------------------------------------------

std::string on(int threads) { return threads == 1 ? ", 1 thread" : ", all threads"; }

#if defined(__x86_64__)
std::string describe(const char *isa, walk w) {
  return isa + std::string(w.stream ? " stream" : "") + ", " + std::to_string(w.pages) +
         (w.pages == 1 ? " page x" : " pages x") + std::to_string(w.lines) +
         (w.ahead ? ", ahead " + std::to_string(w.ahead) : "");
}
#endif

template <mix what>
std::vector<floor_kernel> list(int threads) {
  std::vector<floor_kernel> kernels;
  std::string plain = what == mix::copy ? "memcpy" : "plain loop";
  for (int few : {threads, 1}) kernels.push_back({plain + on(few), plain_move<what>, few, 0});

#if defined(__x86_64__)
  constexpr bool writes = what != mix::read_only;
  if (what == mix::copy) kernels.push_back({"rep movsb" + on(threads), repeat_move, threads, 0});
  auto avx512 = [&]<walk w>(int few, size_t block = 0) {
    if (!__builtin_cpu_supports("avx512f")) return;
    std::string blocks = block ? ", in blocks of " + std::to_string(block >> 10) + " KiB" : "";
    kernels.push_back({describe("avx512", w) + blocks + on(few), avx512::move<what, w>, few, block});
  };
  auto avx2 = [&]<walk w>() {
    if (!__builtin_cpu_supports("avx2")) return;
    kernels.push_back({describe("avx2", w) + on(threads), avx2::move<what, w>, threads, 0});
  };

  for (int few : {threads, 1}) {
    avx512.template operator()<walk{1, 4, 0, false}>(few);
    avx512.template operator()<walk{4, 2, 16384, writes}>(few);
  }
  if (writes) {
    avx512.template operator()<walk{1, 1, 0, true}>(threads);
    avx512.template operator()<walk{1, 4, 0, true}>(threads);
    avx512.template operator()<walk{1, 4, 4096, true}>(threads);
    avx512.template operator()<walk{2, 2, 8192, true}>(threads);
  }
  avx512.template operator()<walk{4, 1, 0, writes}>(threads);
  avx512.template operator()<walk{8, 1, 32768, writes}>(threads);
  avx512.template operator()<walk{8, 2, 32768, writes}>(threads);
  avx512.template operator()<walk{8, 2, 32768, writes}>(threads, 1 << 20);
  avx2.template operator()<walk{1, 1, 0, false}>();
  avx2.template operator()<walk{1, 1, 4096, writes}>();
  avx2.template operator()<walk{8, 1, 32768, writes}>();
#endif
  return kernels;
}

}  // namespace

int cores() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0)
    return int(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, CPU_COUNT(&mask));
}

std::vector<floor_kernel> floor_kernels(mix what, int threads) {
  switch (what) {
    case mix::copy: return list<mix::copy>(threads);
    case mix::combine: return list<mix::combine>(threads);
    case mix::read_only: return list<mix::read_only>(threads);
  }
  return {};
}

void run(const floor_kernel &kernel, void *to, const void *a, const void *b, size_t bytes) {
  // Pieces begin at multiples of a page, so that no two threads share a line.
  auto piece = [&](size_t begin, size_t end) {
    begin = std::min(begin, bytes), end = std::min(end, bytes);
    kernel.move(static_cast<std::byte *>(to) + begin, static_cast<const std::byte *>(a) + begin,
                static_cast<const std::byte *>(b) + begin, end - begin);
  };
  if (kernel.threads == 1) return piece(0, bytes);

  static team everybody(kernel.threads);  // the list is made for one number of threads
  size_t threads = size_t(kernel.threads);
  size_t block = kernel.block ? kernel.block : ((bytes + threads - 1) / threads + 4095) / 4096 * 4096;
  everybody.run([&](int i) {
    for (size_t begin = size_t(i) * block; begin < bytes; begin += threads * block)
      piece(begin, begin + block);
  });
}

}  // namespace bench
