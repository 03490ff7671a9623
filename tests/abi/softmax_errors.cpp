// softmax_errors.cpp: the rows of error_table.hpp for the tensors and numbers of softmax and softmax_backward, each also
// for their queries, which have to refuse the same with the same words.
#include <cmath>

#include "abi/error_table.hpp"

namespace sluice::test {
namespace {

using holds = operand_facts::holds;
using fits = operand_facts::fits;

const shape_list x_shape = {2, 3, 4}, row_shape = {2, 3};

scene forward_scene(int32_t device) {
  scene s(device);
  s.add("x", dtype::f32, x_shape, false);
  s.add("y", dtype::f32, x_shape, true);
  s.add("mask", dtype::f16, {4}, false);
  s.add("keep", dtype::boolean, {3, 4}, false);
  s.add("lengths", dtype::i32, {2, 1}, false);
  s.add("slopes", dtype::bf16, {3}, false);
  s.add("sink", dtype::f32, {3}, false);
  s.add("temperature", dtype::f32, {2, 3}, false);
  s.add("lse", dtype::f32, row_shape, true);
  s.add("max", dtype::f32, row_shape, true);
  return s;
}

scene backward_scene(int32_t device) {
  scene s(device);
  s.add("dy", dtype::f32, x_shape, false);
  s.add("dx", dtype::f32, x_shape, true);
  for (const char *name : {"x", "y"}) s.add(name, dtype::f32, x_shape, false);
  s.add("mask", dtype::f16, {4}, false);
  s.add("keep", dtype::boolean, {3, 4}, false);
  s.add("lengths", dtype::i32, {2, 1}, false);
  s.add("slopes", dtype::bf16, {3}, false);
  s.add("sink", dtype::f32, {3}, false);
  s.add("temperature", dtype::f32, {2, 3}, false);
  s.add("lse", dtype::f32, row_shape, false);
  s.add("d_lse", dtype::f32, row_shape, false);
  s.add("d_mask", dtype::f32, {4}, true);
  s.add("d_slopes", dtype::f32, {3}, true);
  s.add("d_sink", dtype::f32, {3}, true);
  s.add("d_temperature", dtype::f32, {2, 3}, true);
  return s;
}

void fill(scene &s, sluice_softmax_desc &d) {
  d.mask = s.view("mask"), d.keep = s.view("keep"), d.lengths = s.view("lengths"),
  d.slopes = s.view("slopes");
  d.sink = s.view("sink"), d.temperature = s.view("temperature"), d.lse = s.view("lse"),
  d.max = s.view("max");
}
void fill(scene &s, sluice_softmax_backward_desc &d) {
  d.mask = s.view("mask"), d.keep = s.view("keep"), d.lengths = s.view("lengths"),
  d.slopes = s.view("slopes");
  d.sink = s.view("sink"), d.temperature = s.view("temperature"), d.x = s.view("x"), d.y = s.view("y");
  d.lse = s.view("lse"), d.d_lse = s.view("d_lse"), d.d_mask = s.view("d_mask"),
  d.d_slopes = s.view("d_slopes");
  d.d_sink = s.view("d_sink"), d.d_temperature = s.view("d_temperature");
}

sluice_status run(const sluice_softmax_desc &d, scene &s, const sluice_context *c, void *w, size_t n,
                  sluice_stream q) {
  return sluice_softmax(c, &d, s.view("x"), s.view("y"), w, n, q);
}
sluice_status query(const sluice_softmax_desc &d, scene &s, const sluice_context *c, size_t *bytes) {
  return sluice_softmax_workspace(c, &d, s.view("x"), s.view("y"), bytes);
}
sluice_status run(const sluice_softmax_backward_desc &d, scene &s, const sluice_context *c, void *w, size_t n,
                  sluice_stream q) {
  return sluice_softmax_backward(c, &d, s.view("dy"), s.view("dx"), w, n, q);
}
sluice_status query(const sluice_softmax_backward_desc &d, scene &s, const sluice_context *c, size_t *bytes) {
  return sluice_softmax_backward_workspace(c, &d, s.view("dy"), s.view("dx"), bytes);
}

// The rows of one direction: D is its descriptor.
template <typename D>
class table {
 public:
  using breaker = std::function<std::string(scene &, D &)>;

  table(const char *op, scene (*make)(int32_t), int32_t device) : op(op), make(make), device(device) {}

  // Breaks scene and descriptor; both the call and its query must say so and touch nothing.
  void add(const std::string &name, sluice_status status, const breaker &apply) {
    for (bool asks : {false, true})
      rows.push_back({std::string(op) + (asks ? "_workspace_" : "_") + name, status,
                      [=, op = op, make = make, device = device](std::string &want) {
                        scene s = make(device);
                        D d{};
                        d.struct_size = sizeof d;
                        std::string text = apply(s, d);
                        fill(s, d);
                        want = std::string(op) + (asks ? "_workspace: " : ": ") + text;
                        memory room(device, 1 << 16, 0);
                        room.upload();
                        size_t bytes = 12345;
                        sluice_status got =
                            asks ? query(d, s, shared_context(device), &bytes)
                                 : run(d, s, shared_context(device), room.address(), room.bytes(), nullptr);
                        if (!s.untouched() || bytes != 12345) want += ", with outputs untouched";
                        return got;
                      }});
  }
  void broken(const operand_facts &o, const shape_list &measure) {
    for (const broken_view &b : broken_views(o, measure, device))
      add(b.name, b.status, [apply = b.apply](scene &s, D &) { return apply(s); });
  }
  // A number of the descriptor that is out of range.
  template <typename T>
  void number(const char *field, T D::*member, T value, const char *text) {
    add(field + std::string("_") + std::to_string(rows.size()), SLUICE_INVALID_ARGUMENT, [=](scene &, D &d) {
      d.*member = value;
      return std::string(text);
    });
  }

  const char *op;
  scene (*make)(int32_t);
  int32_t device;
  std::vector<error_row> rows;
};

// `measure`: the tensor that gives the shape, in texts.
template <typename D>
void shared_rows(table<D> &t, const char *measure) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = INFINITY;
  t.number("scale", &D::scale, nan, "desc.scale is nan, want a finite number in the compute type");
  t.number("scale", &D::scale, inf, "desc.scale is inf, want a finite number in the compute type");
  t.number("scale", &D::scale, -1e39, "desc.scale is -1e+39, want a finite number in the compute type");
  t.number("softcap", &D::softcap, -1.0, "desc.softcap is -1, want a finite number >= 0 in the compute type");
  t.number("softcap", &D::softcap, nan, "desc.softcap is nan, want a finite number >= 0 in the compute type");
  t.number("softcap", &D::softcap, 1e300,
           "desc.softcap is 1e+300, want a finite number >= 0 in the compute type");
  t.number("log", &D::log, 2, "desc.log is 2, want 0 or 1");
  t.number("log", &D::log, -1, "desc.log is -1, want 0 or 1");
  t.number("empty_row", &D::empty_row, 3, "desc.empty_row is 3, want 0 to 2");
  t.number("empty_row", &D::empty_row, -1, "desc.empty_row is -1, want 0 to 2");
  t.number("causal", &D::causal, 7, "desc.causal is 7, want 0 or 1");
  t.number("diagonal", &D::diagonal, 2, "desc.diagonal is 2, want 0 or 1");
  t.number("diagonal", &D::diagonal, int32_t(SLUICE_DIAGONAL_FORCE32),
           "desc.diagonal is 2147483647, want 0 or 1");
  int64_t far = (int64_t(1) << 61) + 1;
  t.number("diagonal_offset", &D::diagonal_offset, far,
           "desc.diagonal_offset is 2305843009213693953, want at most 2^61 either way");
  t.number("diagonal_offset", &D::diagonal_offset, INT64_MIN,
           "desc.diagonal_offset is -9223372036854775808, want at most 2^61 either way");
  t.number("window", &D::window, int64_t(-1), "desc.window is -1, want 0 to 2^61");
  t.number("window", &D::window, far, "desc.window is 2305843009213693953, want 0 to 2^61");

  for (size_t size : {size_t(0), size_t(1), sizeof(D) - 1, size_t(4097), SIZE_MAX})
    t.add("struct_size_" + std::to_string(size), SLUICE_INVALID_ARGUMENT, [=](scene &, D &d) {
      d.struct_size = size;
      return format("desc.struct_size is %zu, want sizeof of the struct (%zu to 4096)", size, sizeof(D));
    });

  t.broken({"mask", "desc.mask", holds::floats, fits::against, measure, false}, x_shape);
  t.broken({"keep", "desc.keep", holds::flags, fits::against, measure, false}, x_shape);
  t.broken({"lengths", "desc.lengths", holds::indices, fits::against, "the rows", false}, row_shape);
  t.broken({"slopes", "desc.slopes", holds::floats, fits::against, "the rows", false}, row_shape);
  t.broken({"sink", "desc.sink", holds::floats, fits::against, "the rows", false}, row_shape);
  t.broken({"temperature", "desc.temperature", holds::floats, fits::against, "the rows", false}, row_shape);
}

// Seventeen axes of extent 2 that no two strides join.
void spread_out(scene::slot &s) {
  s.tensor.ndim = 18;
  for (int i = 0; i < 18; ++i) s.shape[i] = i == 17 ? 4 : 2, s.strides[i] = 1;
}

} // namespace

std::vector<error_row> softmax_errors(int32_t device) {
  using D = sluice_softmax_desc;
  table<D> t("softmax", forward_scene, device);
  shared_rows(t, "x");
  t.number("accuracy", &D::accuracy, 2, "desc.accuracy is 2, want 0 or 1");
  t.number("accuracy", &D::accuracy, -5, "desc.accuracy is -5, want 0 or 1");
  t.number("reserved0", &D::reserved0, 1, "desc.reserved0 is 1, want 0");
  t.broken({"x", "x", holds::floats, fits::reference, "", false}, x_shape);
  t.broken({"y", "y", holds::floats, fits::like, "", true}, x_shape);
  t.broken({"lse", "desc.lse", holds::floats, fits::like, "", true}, row_shape);
  t.broken({"max", "desc.max", holds::floats, fits::like, "", true}, row_shape);

  t.add("x_null", SLUICE_INVALID_ARGUMENT, [](scene &s, D &) { return s["x"].given = false, "x is NULL"; });
  t.add("no_output", SLUICE_INVALID_ARGUMENT, [](scene &s, D &) {
    for (const char *name : {"y", "lse", "max"}) s[name].given = false;
    return "y is NULL, want an output here or in desc.lse or desc.max";
  });
  t.add("x_without_axes", SLUICE_INVALID_SHAPE, [](scene &s, D &) {
    s["x"].tensor.ndim = 0;
    return "x.ndim is 0, want at least 1";
  });
  t.add("axes_that_do_not_join", SLUICE_UNSUPPORTED, [](scene &s, D &) {
    spread_out(s["x"]);
    for (const char *name : {"y", "max", "mask", "keep", "lengths", "slopes", "sink", "temperature"})
      s[name].given = false;
    s["lse"].tensor.ndim = 17;
    for (int i = 0; i < 17; ++i) s["lse"].shape[i] = 2;
    s["lse"].tensor.strides = nullptr;
    return "leading axes do not join into 16, want fewer that no stride crosses";
  });
  t.add("y_over_mask", SLUICE_INVALID_ARGUMENT, [](scene &s, D &) {
    s["y"].tensor.data = s["mask"].tensor.data;
    s["y"].tensor.strides = nullptr;
    return "y overlaps desc.mask, want memory apart from it or the very same view";
  });
  t.add("y_half_over_x", SLUICE_INVALID_ARGUMENT, [](scene &s, D &) {
    s["y"].tensor.data = static_cast<char *>(s["x"].tensor.data) + 4;
    return "y overlaps x, want memory apart from it or the very same view";
  });
  t.add("y_over_x_in_another_dtype", SLUICE_INVALID_ARGUMENT, [](scene &s, D &) {
    s["y"].tensor = s["x"].tensor;
    s["y"].tensor.dtype = {4, 16, 1};
    return "y overlaps x, want memory apart from it or the very same view";
  });
  t.add("y_over_x_transposed", SLUICE_INVALID_ARGUMENT, [](scene &s, D &) {
    s["y"].tensor.data = s["x"].tensor.data;
    s["y"].strides[0] = 1, s["y"].strides[1] = 2, s["y"].strides[2] = 6;
    return "y overlaps x, want memory apart from it or the very same view";
  });
  t.add("lse_over_x", SLUICE_INVALID_ARGUMENT, [](scene &s, D &) {
    s["lse"].tensor.data = s["x"].tensor.data;
    return "desc.lse overlaps x, want memory apart from it or the very same view";
  });
  t.add("max_over_lse", SLUICE_INVALID_ARGUMENT, [](scene &s, D &) {
    s["max"].tensor.data = s["lse"].tensor.data;
    return "desc.max overlaps desc.lse, want memory apart from it or the very same view";
  });

  return std::move(t.rows);
}

std::vector<error_row> softmax_backward_errors(int32_t device) {
  using D = sluice_softmax_backward_desc;
  table<D> t("softmax_backward", backward_scene, device);
  shared_rows(t, "dy");
  t.broken({"dy", "dy", holds::floats, fits::reference, "", false}, x_shape);
  t.broken({"dx", "dx", holds::floats, fits::like, "", true}, x_shape);
  t.broken({"x", "desc.x", holds::floats, fits::like, "", false}, x_shape);
  t.broken({"y", "desc.y", holds::floats, fits::like, "", false}, x_shape);
  t.broken({"lse", "desc.lse", holds::floats, fits::like, "", false}, row_shape);
  t.broken({"d_lse", "desc.d_lse", holds::floats, fits::like, "", false}, row_shape);
  t.broken({"d_mask", "desc.d_mask", holds::floats, fits::like, "", true}, {4});
  t.broken({"d_slopes", "desc.d_slopes", holds::floats, fits::like, "", true}, {3});
  t.broken({"d_sink", "desc.d_sink", holds::floats, fits::like, "", true}, {3});
  t.broken({"d_temperature", "desc.d_temperature", holds::floats, fits::like, "", true}, row_shape);

  t.add("nothing_comes_in", SLUICE_INVALID_ARGUMENT, [](scene &s, D &) {
    s["dy"].given = s["d_lse"].given = false;
    return "dy is NULL, want it or desc.d_lse";
  });
  t.add("nothing_goes_out", SLUICE_INVALID_ARGUMENT, [](scene &s, D &) {
    for (const char *name : {"dx", "d_mask", "d_slopes", "d_sink", "d_temperature"}) s[name].given = false;
    return "dx is NULL, want it or a gradient in desc";
  });
  for (const char *operand : {"mask", "slopes", "sink", "temperature"})
    t.add(std::string(operand) + "_missing", SLUICE_INVALID_ARGUMENT, [=](scene &s, D &) {
      s[operand].given = false;
      return format("desc.%s is NULL, want it beside desc.d_%s", operand, operand);
    });
  // Each reason for x and lse, alone.
  struct reason {
    const char *gradient, *text;
  };
  for (const char *missing : {"x", "lse"})
    for (reason r : {reason{"d_mask", "desc.d_mask"},
                     {"d_slopes", "desc.d_slopes"},
                     {"d_sink", "desc.d_sink"},
                     {"d_temperature", "desc.d_temperature"},
                     {"softcap", "dx with desc.softcap"},
                     {"no y", "dx without desc.y"}})
      t.add(std::string(missing) + "_missing_for_" + r.gradient, SLUICE_INVALID_ARGUMENT,
            [=](scene &s, D &d) {
              for (const char *name : {"d_mask", "d_slopes", "d_sink", "d_temperature"})
                s[name].given = std::string(name) == r.gradient;
              s[missing].given = false;
              if (r.gradient == std::string("softcap")) d.softcap = 1;
              if (r.gradient == std::string("no y")) s["y"].given = false;
              return format("desc.%s is NULL, want it for %s", missing, r.text);
            });
  t.add("lse_missing_for_uniform", SLUICE_INVALID_ARGUMENT, [](scene &s, D &d) {
    for (const char *name : {"d_mask", "d_slopes", "d_sink", "d_temperature", "lse"}) s[name].given = false;
    d.empty_row = SLUICE_EMPTY_ROW_UNIFORM;
    return "desc.lse is NULL, want it where desc.empty_row is uniform";
  });
  for (const char *reference : {"dy", "y", "x"})
    t.add(std::string(reference) + "_without_axes", SLUICE_INVALID_SHAPE, [=](scene &s, D &) {
      for (const char *name : {"d_mask", "d_slopes", "d_sink", "d_temperature"}) s[name].given = false;
      if (reference != std::string("dy")) s["dy"].given = false;
      if (reference == std::string("x")) s["y"].given = false;
      s[reference].tensor.ndim = 0;
      return format("%s%s.ndim is 0, want at least 1", reference == std::string("dy") ? "" : "desc.",
                    reference);
    });
  struct overlap {
    const char *out, *in, *out_text, *in_text;
  };
  for (overlap o : {overlap{"d_mask", "mask", "desc.d_mask", "desc.mask"},
                    {"d_sink", "sink", "desc.d_sink", "desc.sink"},
                    {"d_slopes", "d_sink", "", ""},
                    {"d_temperature", "lse", "desc.d_temperature", "desc.lse"},
                    {"dx", "d_mask", "desc.d_mask", "dx"}})
    t.add(std::string(o.out) + "_over_" + o.in, SLUICE_INVALID_ARGUMENT, [=](scene &s, D &) {
      s[o.out].tensor.data = s[o.in].tensor.data;
      bool later = o.out == std::string("d_slopes");
      return format("%s overlaps %s, want memory apart from it or the very same view",
                    later ? "desc.d_sink" : o.out_text, later ? "desc.d_slopes" : o.in_text);
    });
  t.add("dx_half_over_dy", SLUICE_INVALID_ARGUMENT, [](scene &s, D &) {
    s["dx"].tensor.data = static_cast<char *>(s["dy"].tensor.data) + 4;
    return "dx overlaps dy, want memory apart from it or the very same view";
  });

  return std::move(t.rows);
}

} // namespace sluice::test
