// softmax_row_bits_test.cpp: a row gives the same bits wherever it lies: alone or among others, at every alignment, with
// any step between its columns, beside other rows, on any stream or number of threads. The lengths lie on both sides of
// every extent at which a kernel may change its way.
#include <algorithm>
#include <thread>

#include "driver/driver.hpp"
#include "ops/softmax_rows.hpp"
#include "testkit/testkit.h"

namespace sluice::test {
namespace {

constexpr int64_t longest = 1500000, rows_apart = 61, most_rows = 1100;

std::vector<int64_t> lengths(int32_t device) {
  // The CPU cuts rows at fewer places, and would take a minute for all.
  if (device == cpu) return thin<int64_t>({1, 33, 129, 1000, 4097, 16385, 100000, 300001});
  return thin<int64_t>({1,      5,      32,     33,     127,    128,    129,     255,    256,
                        511,    512,    1000,   1023,   1024,   1025,   2048,    2049,   4096,
                        4097,   8192,   16384,  16385,  20000,  32768,  65536,   100000, 128255,
                        128256, 262144, 262145, 300001, 524288, 600000, 1048576, longest});
}

struct row_param {
  int32_t device;
  direction way;
  dtype in, out;
};

class softmax_row_bits : public testing::TestWithParam<row_param> {
 protected:
  void SetUp() override {
    SLUICE_SKIP_WITHOUT(p.device);
    for (size_t k = 0; k < inputs; ++k) {
      type.push_back(p.way == direction::backward ? p.out : p.in);
      drawn.push_back(drawn_rows(p.device, p.way, k, type[k], longest + rows_apart * most_rows));
    }
    type.push_back(p.way == direction::backward ? p.in : p.out);
  }

  int64_t size(size_t k) const { return size_of(type[k]); }
  // The which-th of many rows that overlap and differ.
  const uint8_t *row(size_t k, int64_t which) const {
    return drawn[k]->at(size_t(which * rows_apart * size(k)));
  }
  // As many rows of n as a test may take.
  int64_t rows_within(int64_t rows, int64_t n) const {
    int64_t elements = p.device == cpu ? 200000 : 100000000;
    return std::clamp<int64_t>(elements / n, 3, rows);
  }

  // Row 0 alone, compact and aligned: what all else is compared with.
  struct wanted {
    std::unique_ptr<block> bits, lse;
  };
  wanted alone(int64_t n) {
    wanted w = {std::make_unique<block>(p.device, size_t(n * size(inputs))),
                std::make_unique<block>(p.device, 4)};
    w.bits->fill(poison);
    rows_views views;
    for (size_t k = 0; k < inputs; ++k) views.push_back({drawn[k]->at(), type[k], 1, n, n});
    views.push_back({w.bits->at(), type[inputs], 1, n, n});
    run_rows(p.device, p.way, views, w.lse->at(), room);
    return w;
  }

  // Row 0 at `positions` among others; `place` says where row r of tensor k begins, in elements, and its step.
  struct places {
    int64_t rows, row_step, column_step;
    int64_t first; // elements before row 0's first column
    int64_t elements; // of the whole storage
  };
  void check_among(int64_t n, const wanted &want, const places &in, const places &out,
                   const std::string &what) {
    std::vector<std::unique_ptr<block>> storage;
    rows_views views;
    const int64_t positions[] = {0, in.rows / 2, in.rows - 1};
    auto is_ours = [&](int64_t r) {
      return std::find(std::begin(positions), std::end(positions), r) != std::end(positions);
    };
    for (size_t k = 0; k <= inputs; ++k) {
      const places &at = k == inputs ? out : in;
      storage.push_back(std::make_unique<block>(p.device, size_t(at.elements * size(k))));
      uint8_t *first = storage[k]->at(size_t(at.first * size(k)));
      views.push_back({first, type[k], at.rows, n, at.row_step, at.column_step});
      storage[k]->fill(k == inputs ? poison : 0xff); // NaN in gaps, and in row 1, which is left as it is
      for (int64_t r = 0; k < inputs && r < at.rows; ++r)
        if (is_ours(r) || r != 1)
          copy_steps(p.device, first + r * at.row_step * size(k), at.column_step,
                     row(k, is_ours(r) ? 0 : r + 1), 1, n, int32_t(size(k)));
    }
    block lse(p.device, size_t(in.rows * 4)), gathered(p.device, size_t(n * size(inputs)));
    run_rows(p.device, p.way, views, lse.at(), room);
    for (int64_t r : positions) {
      const rows_view &y = views[inputs];
      copy_steps(p.device, gathered.at(), 1, static_cast<uint8_t *>(y.data) + r * y.row_step * size(inputs),
                 y.column_step, n, int32_t(size(inputs)));
      EXPECT_EQ(differing(p.device, gathered.at(), want.bits->at(), gathered.bytes()), 0)
          << what << ": row " << r << " of " << in.rows << ", n = " << n;
      if (p.way != direction::forward_with_lse) continue;
      EXPECT_EQ(differing(p.device, lse.at(size_t(4 * r)), want.lse->at(), 4), 0)
          << what << ": lse of row " << r;
    }
    // A second time, over what the first left: every bit again.
    block again(p.device, storage[inputs]->bytes());
    copy_bytes(p.device, again.at(), storage[inputs]->at(), again.bytes());
    run_rows(p.device, p.way, views, lse.at(), room);
    EXPECT_EQ(differing(p.device, again.at(), storage[inputs]->at(), again.bytes()), 0)
        << what << ", again, n = " << n;
    // Where no element is, there is still poison.
    again.fill(poison);
    for (int64_t r = 0; r < out.rows; ++r)
      copy_steps(p.device, storage[inputs]->at(size_t((out.first + r * out.row_step) * size(inputs))),
                 out.column_step, again.at(), 1, n, int32_t(size(inputs)));
    EXPECT_EQ(differing(p.device, again.at(), storage[inputs]->at(), again.bytes()), 0)
        << what << ": wrote beside the rows, n = " << n;
  }

  static constexpr uint8_t poison = 0xa5;
  row_param p = GetParam();
  const size_t inputs = inputs_of(p.way);
  std::vector<std::unique_ptr<block>> drawn;
  std::vector<dtype> type; // of each tensor
  scratch_room room;
};

// Every byte that the dtype allows within a vector of 16, and farther off within a line, for each tensor on its own.
TEST_P(softmax_row_bits, at_every_alignment) {
  constexpr size_t margin = 256;
  for (int64_t n : lengths(p.device)) {
    wanted want = alone(n);
    std::vector<std::unique_ptr<block>> storage;
    for (size_t k = 0; k <= inputs; ++k)
      storage.push_back(std::make_unique<block>(p.device, size_t(n * size(k)) + 2 * margin));
    block expected(p.device, storage[inputs]->bytes()), lse(p.device, 4);

    auto shifts = [&](size_t k) {
      std::vector<int64_t> list;
      for (int64_t byte = 0; byte < 16; byte += size(k)) list.push_back(byte);
      for (int64_t byte : {int64_t(16), 32 + size(k), int64_t(112)}) list.push_back(byte);
      return list;
    };
    const auto ins = shifts(0), outs = shifts(inputs);
    for (size_t i = 0; i < ins.size(); ++i) {
      const int64_t in_shift[2] = {ins[i], ins[(3 * i + 1) % ins.size()]};
      for (size_t k = 0; k < inputs; ++k)
        copy_bytes(p.device, storage[k]->at(margin + size_t(in_shift[k])), row(k, 0), size_t(n * size(k)));
      for (size_t o = 0; o < outs.size(); ++o) {
        if (n > 50000 && i != o && i != 0 && o != 0) continue; // together, and each alone
        rows_views views;
        for (size_t k = 0; k < inputs; ++k)
          views.push_back({storage[k]->at(margin + size_t(in_shift[k])), type[k], 1, n, n});
        size_t start = margin + size_t(outs[o]);
        views.push_back({storage[inputs]->at(start), type[inputs], 1, n, n});
        storage[inputs]->fill(poison);
        expected.fill(poison);
        copy_bytes(p.device, expected.at(start), want.bits->at(), want.bits->bytes());
        run_rows(p.device, p.way, views, lse.at(), room);
        EXPECT_EQ(differing(p.device, expected.at(), storage[inputs]->at(), expected.bytes()), 0)
            << "input " << in_shift[0] << " and result " << outs[o] << " bytes off, n = " << n;
      }
    }
  }
}

TEST_P(softmax_row_bits, among_other_rows) {
  for (int64_t n : lengths(p.device)) {
    wanted want = alone(n);
    int64_t before = 0;
    for (int64_t most : {4, 17, 133, 1057}) {
      int64_t rows = rows_within(most, n);
      if (rows == before) break;
      before = rows;
      for (int64_t pad : {0, 1, 8}) {
        if (pad && rows > 200) continue;
        places at = {rows, n + pad, 1, 0, rows * (n + pad)};
        check_among(n, want, at, at, "padded by " + std::to_string(pad));
      }
    }
  }
}

TEST_P(softmax_row_bits, with_steps_between_columns) {
  for (int64_t n : lengths(p.device)) {
    wanted want = alone(n);
    int64_t rows = rows_within(5, n);
    places compact = {rows, n, 1, 0, rows * n}, every_other = {rows, 2 * n + 1, 2, 1, rows * (2 * n + 1) + 1},
           backwards = {rows, n + 2, -1, n, rows * (n + 2)};
    check_among(n, want, every_other, every_other, "every other element");
    check_among(n, want, every_other, compact, "every other element in");
    check_among(n, want, compact, every_other, "every other element out");
    check_among(n, want, backwards, every_other, "backwards");
  }
}

TEST_P(softmax_row_bits, side_by_side) {
  for (int64_t n : lengths(p.device)) {
    wanted want = alone(n);
    for (int64_t most : {9, 40, 300}) {
      int64_t side = p.device == cpu || n > 100000 ? std::min<int64_t>(most, 9) : most;
      if (side != most || (most == 300 && n > 5000)) continue;
      places at = {side, 1, side, 0, side * n}, compact = {side, n, 1, 0, side * n};
      check_among(n, want, at, at, "side by side");
      check_among(n, want, at, compact, "side by side in");
      check_among(n, want, compact, at, "side by side out");
    }
  }
}

// On the CPU with other numbers of threads; on a GPU on eight streams at the same time.
TEST_P(softmax_row_bits, whoever_computes_it) {
  constexpr size_t streams = 8;
  for (int64_t n : lengths(p.device)) {
    wanted want = alone(n);
    std::vector<std::unique_ptr<block>> results;
    std::vector<scratch_room> rooms(streams);
    std::vector<void *> stream(streams, nullptr);
    block lse(p.device, 4 * streams);
    for (size_t i = 0; i < streams; ++i) {
      results.push_back(std::make_unique<block>(p.device, want.bits->bytes()));
      results[i]->fill(poison);
      if (p.device == cuda) stream[i] = sluice_testkit_stream_create();
    }
    finish(p.device);
    for (size_t i = 0; i < streams; ++i) {
      context with(cpu, int32_t(i % 5 + 1));
      rows_views views;
      for (size_t k = 0; k < inputs; ++k) views.push_back({drawn[k]->at(), type[k], 1, n, n});
      views.push_back({results[i]->at(), type[inputs], 1, n, n});
      run_rows(p.device, p.way, views, lse.at(4 * i), rooms[i],
               p.device == cpu ? static_cast<const sluice_context *>(with) : nullptr,
               static_cast<sluice_stream>(stream[i]));
    }
    finish(p.device);
    for (size_t i = 0; i < streams; ++i) {
      EXPECT_EQ(differing(p.device, results[i]->at(), want.bits->at(), want.bits->bytes()), 0)
          << i << ", n = " << n;
      if (stream[i]) sluice_testkit_stream_destroy(stream[i]);
    }
  }
}

std::vector<row_param> row_params() {
  std::vector<row_param> list;
  for (int32_t device : {cpu, cuda})
    for (direction way : {direction::forward, direction::forward_with_lse, direction::backward})
      for (auto [in, out] : {std::pair{dtype::f32, dtype::f32},
                             {dtype::bf16, dtype::bf16},
                             {dtype::f16, dtype::f16},
                             {dtype::bf16, dtype::f32}}) {
        bool main_types = in == out && in != dtype::f16;
        if (main_types || way != direction::forward_with_lse) list.push_back({device, way, in, out});
      }
  return list;
}

INSTANTIATE_TEST_SUITE_P(all, softmax_row_bits, testing::ValuesIn(row_params()), [](const auto &info) {
  return device_name(info.param.device) + std::string("_") + name_of(info.param.way) + "_" +
         facts(info.param.in).name + "_to_" + facts(info.param.out).name;
});

} // namespace
} // namespace sluice::test
