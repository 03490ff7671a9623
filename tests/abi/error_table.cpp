// error_table.cpp: the scene, and the ways to break a tensor that all operations have in common.
#include "abi/error_table.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace sluice::test {

std::string format(const char *text, ...) {
  char line[400];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(line, sizeof line, text, arguments);
  va_end(arguments);
  return line;
}

void scene::add(const std::string &name, dtype type, const shape_list &shape, bool output) {
  operand o{.name = name, .type = type, .shape = shape, .output = output};
  o.packed = pack(type, std::vector<real>(size_t(count_of(shape)), 1));
  slot &s = slots[name];
  s.type = type;
  s.output = output;
  s.at = std::make_unique<placed>(device, o, layouts[0]);
  s.tensor = *s.at->view();
  std::fill(std::begin(s.shape), std::end(s.shape), 1);
  std::fill(std::begin(s.strides), std::end(s.strides), 1);
  std::copy_n(shape.begin(), shape.size(), s.shape);
  if (!shape.empty()) std::copy_n(s.tensor.strides, shape.size(), s.strides);
  s.tensor.shape = s.shape;
  s.tensor.strides = s.strides;
  order.push_back(name);
}

scene::slot &scene::operator[](const std::string &name) { return slots.at(name); }

sluice_tensor *scene::view(const std::string &name) {
  auto found = slots.find(name);
  return found == slots.end() || !found->second.given ? nullptr : &found->second.tensor;
}

bool scene::untouched() {
  return std::all_of(slots.begin(), slots.end(), [](auto &s) {
    s.second.at->store.download();
    return s.second.at->store.untouched();
  });
}

namespace {

const char *wanted_dtypes(operand_facts::holds what) {
  switch (what) {
    case operand_facts::holds::floats: return "float32, float64, float16 or bfloat16";
    case operand_facts::holds::flags: return "bool, uint8 or int8";
    case operand_facts::holds::indices: return "int32 or int64";
  }
  return "";
}

struct named_dtype {
  sluice_dtype type;
  const char *name;
};
constexpr named_dtype known_dtypes[] = {
    {{0, 8, 1}, "int8"},       {{0, 16, 1}, "int16"},       {{0, 32, 1}, "int32"},   {{0, 64, 1}, "int64"},
    {{1, 8, 1}, "uint8"},      {{1, 16, 1}, "uint16"},      {{1, 32, 1}, "uint32"},  {{1, 64, 1}, "uint64"},
    {{2, 16, 1}, "float16"},   {{2, 32, 1}, "float32"},     {{2, 64, 1}, "float64"}, {{4, 16, 1}, "bfloat16"},
    {{5, 64, 1}, "complex64"}, {{5, 128, 1}, "complex128"}, {{6, 8, 1}, "bool"},
};
constexpr named_dtype unknown_dtypes[] = {
    {{7, 9, 1}, "dtype(7,9,1)"},
    {{2, 32, 4}, "dtype(2,32,4)"},
    {{2, 32, 0}, "dtype(2,32,0)"},
    {{0, 4, 1}, "int4"},
    {{2, 8, 1}, "float8"},
    {{4, 32, 1}, "bfloat32"},
    {{3, 64, 1}, "dtype(3,64,1)"},
    {{6, 1, 1}, "dtype(6,1,1)"},
    {{1, 0, 1}, "uint0"},
    {{5, 32, 1}, "complex32"},
    {{255, 255, 65535}, "dtype(255,255,65535)"},
};

bool takes(operand_facts::holds what, const std::string &dtype) {
  std::string list = std::string(" ") + wanted_dtypes(what);
  return list.find(" " + dtype) != list.npos;  // "int8" is not the end of "uint8"
}

class view_breaker {
 public:
  view_breaker(const operand_facts &o, const shape_list &measure, int32_t device)
      : o(o), measure(measure), device(device) {}

  std::vector<broken_view> all() {
    axes();
    dtypes();
    devices();
    addresses();
    extents();
    if (o.how == operand_facts::fits::like) same_shape();
    if (o.how == operand_facts::fits::against) broadcast_shape();
    if (o.output) overlaps_itself();
    return std::move(rows);
  }

 private:
  using slot = scene::slot;
  void add(const std::string &name, sluice_status status, std::function<std::string(slot &)> f) {
    rows.push_back({std::string(o.name) + "_" + name, status,
                    [f, key = std::string(o.name)](scene &s) { return f(s[key]); }});
  }

  void axes() {
    for (int ndim : {-1, 65, INT32_MIN, INT32_MAX})
      add("ndim_" + std::to_string(ndim), SLUICE_INVALID_ARGUMENT, [=, t = o.text](slot &s) {
        s.tensor.ndim = ndim;
        return format("%s.ndim is %d, want 0 to 64", t, ndim);
      });
    add("shape_null", SLUICE_INVALID_ARGUMENT, [t = o.text](slot &s) {
      if (s.tensor.ndim == 0) s.tensor.ndim = 1;
      s.tensor.shape = nullptr;
      return format("%s.shape is NULL, want %d extents", t, s.tensor.ndim);
    });
  }

  void dtypes() {
    for (const named_dtype &d : unknown_dtypes)
      add("dtype_" + std::string(d.name), SLUICE_UNSUPPORTED_DTYPE, [=, t = o.text](slot &s) {
        s.tensor.dtype = d.type;
        return format("%s.dtype is %s, want a DLPack dtype of one lane", t, d.name);
      });
    for (const named_dtype &d : known_dtypes)
      if (!takes(o.what, d.name))
        add("dtype_" + std::string(d.name), SLUICE_UNSUPPORTED_DTYPE,
            [=, t = o.text, what = o.what](slot &s) {
              s.tensor.dtype = d.type;
              return format("%s.dtype is %s, want %s", t, d.name, wanted_dtypes(what));
            });
  }

  void devices() {
    const int32_t other = device == cpu ? cuda : cpu;
    for (auto [type, id] : {std::pair{other, 0}, {device, 1}, {0, 0}, {8, 0}, {-1, -1}})
      add("device_" + std::to_string(type) + "_" + std::to_string(id), SLUICE_INVALID_DEVICE,
          [=, t = o.text, type = type, id = id, ours = device](slot &s) {
            s.tensor.device = {type, id};
            return format("%s.device is (%d, %d), want (%d, 0)", t, type, id, ours);
          });
  }

  void addresses() {
    add("data_null", SLUICE_INVALID_ARGUMENT, [t = o.text](slot &s) {
      s.tensor.data = nullptr;
      return format("%s.data is NULL, want an address", t);
    });
    add("misaligned", SLUICE_INVALID_ARGUMENT, [t = o.text](slot &s) {
      // A byte has no alignment to miss: the dtype is one that is wider, and refused for its address first.
      if (size_of(s.type) == 1) s.tensor.dtype = {0, 32, 1};
      s.tensor.byte_offset += 1;
      return format("%s.data + byte_offset is %p, want a multiple of %d", t,
                    static_cast<void *>(static_cast<char *>(s.tensor.data) + s.tensor.byte_offset),
                    s.tensor.dtype.bits / 8);
    });
  }

  void extents() {
    auto one_axis = [](slot &s) {
      if (s.tensor.ndim == 0) s.tensor.ndim = 1;
      return s.tensor.ndim - 1;
    };
    for (int64_t extent : {int64_t(-1), INT64_MIN})
      add(extent == -1 ? "negative_extent" : "most_negative_extent", SLUICE_INVALID_SHAPE,
          [=, t = o.text](slot &s) {
            int last = one_axis(s);
            s.shape[last] = extent;
            return format("%s.shape[%d] is %lld, want >= 0", t, last, (long long)extent);
          });
    for (int64_t extent : {int64_t(1) << 60, INT64_MAX})
      add("extent_" + std::to_string(extent), SLUICE_INVALID_SHAPE, [=, t = o.text](slot &s) {
        int last = one_axis(s);
        s.shape[last] = extent;
        return format("%s.shape[%d] is %lld with stride 1, want a tensor below 2^60 bytes", t, last,
                      (long long)extent);
      });
    for (int64_t stride : {int64_t(1) << 61, -(int64_t(1) << 61), INT64_MIN, INT64_MAX})
      add("stride_" + std::to_string(stride), SLUICE_INVALID_SHAPE, [=, t = o.text](slot &s) {
        int last = one_axis(s);
        s.shape[last] = 9;  // so that the step alone is too far for one byte too
        s.strides[last] = stride;
        return format("%s.shape[%d] is 9 with stride %lld, want a tensor below 2^60 bytes", t, last,
                      (long long)stride);
      });
    add("extents_that_multiply_too_far", SLUICE_INVALID_SHAPE, [t = o.text](slot &s) {
      s.tensor.ndim = 3;
      for (int i = 0; i < 3; ++i) s.shape[i] = int64_t(1) << 30, s.strides[i] = 0;
      return format("%s.shape[1] is 1073741824 with stride 0, want a tensor below 2^60 bytes", t);
    });
    add("empty_but_too_far", SLUICE_INVALID_SHAPE, [t = o.text](slot &s) {
      s.tensor.ndim = 4;
      s.shape[0] = 0;
      for (int i = 1; i < 4; ++i) s.shape[i] = int64_t(1) << 40, s.strides[i] = 0;
      return format("%s.shape[2] is 1099511627776 with stride 0, want a tensor below 2^60 bytes", t);
    });
  }

  void same_shape() {
    int32_t axes = int32_t(measure.size());
    for (int32_t other : {axes - 1, axes + 1})
      add("ndim_is_" + std::to_string(other), SLUICE_INVALID_SHAPE, [=, t = o.text](slot &s) {
        s.tensor.ndim = other;
        return format("%s.ndim is %d, want %d", t, other, axes);
      });
    for (int32_t axis = 0; axis < axes; ++axis)
      for (int64_t extent : {measure[size_t(axis)] - 1, measure[size_t(axis)] + 1, int64_t(0)})
        add("axis_" + std::to_string(axis) + "_is_" + std::to_string(extent), SLUICE_INVALID_SHAPE,
            [=, t = o.text, want = measure[size_t(axis)]](slot &s) {
              s.shape[axis] = extent;
              return format("%s.shape[%d] is %lld, want %lld", t, axis, (long long)extent, (long long)want);
            });
  }

  void broadcast_shape() {
    int32_t axes = int32_t(measure.size());
    add("too_many_axes", SLUICE_INVALID_SHAPE, [=, t = o.text, m = o.measure](slot &s) {
      s.tensor.ndim = axes + 1;
      for (int32_t i = 0; i <= axes; ++i) s.shape[i] = 1;
      return format("%s.ndim is %d, want at most %d to broadcast against %s", t, axes + 1, axes, m);
    });
    for (int64_t extent : {measure.back() + 1, measure.back() - 1, int64_t(0)})
      add("last_axis_is_" + std::to_string(extent), SLUICE_INVALID_SHAPE,
          [=, t = o.text, m = o.measure, want = measure.back()](slot &s) {
            s.tensor.ndim = 1;
            s.shape[0] = extent;
            s.strides[0] = 1;
            return format("%s.shape[0] is %lld, want 1 or %lld to broadcast against %s", t, (long long)extent,
                          (long long)want, m);
          });
  }

  void overlaps_itself() {
    add("stride_0", SLUICE_INVALID_ARGUMENT, [t = o.text](slot &s) {
      s.strides[s.tensor.ndim - 1] = 0;
      return format("%s.strides[%d] is 0, want an output whose elements do not overlap", t,
                    s.tensor.ndim - 1);
    });
    if (measure.size() < 2) return;
    add("strides_that_meet", SLUICE_INVALID_ARGUMENT, [t = o.text](slot &s) {
      s.strides[0] = -1, s.strides[1] = 1;
      return format("%s.strides[1] is 1 beside strides[0] -1, want an output whose elements do not overlap",
                    t);
    });
  }

  const operand_facts &o;
  const shape_list &measure;
  const int32_t device;
  std::vector<broken_view> rows;
};

}  // namespace

std::vector<broken_view> broken_views(const operand_facts &o, const shape_list &measure, int32_t device) {
  return view_breaker(o, measure, device).all();
}

}  // namespace sluice::test
