// cases.cpp: see cases.hpp.
#include "conformance/cases.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace sluice::test {

namespace {

dtype dtype_named(const std::string &name) {
  static const std::map<std::string, dtype> known = {
      {"float16", dtype::f16},  {"bfloat16", dtype::bf16}, {"float32", dtype::f32},
      {"float64", dtype::f64},  {"int8", dtype::i8},       {"uint8", dtype::u8},
      {"bool", dtype::boolean}, {"int32", dtype::i32},     {"int64", dtype::i64}};
  return known.at(name);
}

shape_list read_shape(const std::string &text) {
  shape_list shape;
  std::stringstream parts(text == "-" ? "" : text);
  for (std::string extent; std::getline(parts, extent, ',');) shape.push_back(std::stoll(extent));
  return shape;
}

std::vector<real> read_numbers(std::istream &words) {
  std::vector<real> values;
  for (std::string word; words >> word;) values.push_back(std::strtod(word.c_str(), nullptr));
  return values;
}

std::vector<real> read_fill(std::istream &words, size_t count) {
  std::string kind;
  words >> kind;
  std::vector<real> values(count);
  if (kind == "hash") {
    uint64_t seed;
    int64_t minus;
    int bits, shift;
    words >> seed >> bits >> minus >> shift;
    for (size_t i = 0; i < count; ++i)
      values[i] = std::ldexp(real(int64_t(hash(seed, i) >> (64 - bits)) - minus), shift);
  } else if (kind == "ascending") {
    std::vector<real> step = read_numbers(words);
    for (size_t i = 0; i < count; ++i) values[i] = real(i) * step.at(0);
  } else {
    std::vector<real> given = read_numbers(words);
    if (kind == "list" && given.size() != count)
      throw std::runtime_error("a list of another length than its shape");
    for (size_t i = 0; i < count; ++i) values[i] = given[i % given.size()];
  }
  return values;
}

operand &find(conformance_case &c, const std::string &name) {
  auto at = std::find_if(c.call.operands.begin(), c.call.operands.end(),
                         [&](const operand &o) { return o.name == name; });
  if (at == c.call.operands.end()) throw std::runtime_error(c.name + " has no tensor " + name);
  return *at;
}

void read_tensor(conformance_case &c, std::istream &words, bool output) {
  std::string name, type, shape;
  words >> name >> type >> shape;
  operand o{.name = name, .type = dtype_named(type), .shape = read_shape(shape), .output = output};
  if (!output) o.packed = pack(o.type, read_fill(words, size_t(count_of(o.shape))));
  c.call.operands.push_back(o);
}

void read_line(conformance_case &c, const std::string &key, std::istream &words) {
  std::string name;
  if (key == "input" || key == "output") return read_tensor(c, words, key == "output");
  if (key == "text") {
    std::getline(words >> std::ws, c.text);
    return;
  }
  words >> name;
  if (key == "case") {
    c.name = name;
  } else if (key == "desc") {
    words >> c.desc[name];
  } else if (key == "device") {
    words >> c.devices[name].type >> c.devices[name].id;
  } else if (key == "workspace") {
    c.workspace = size_t(std::stoull(name));
  } else if (key == "status") {
    c.status = name;
  } else if (key == "at") {
    for (real v : read_numbers(words)) c.at[name].push_back(int64_t(v));
  } else if (key == "values") {
    find(c, name).values = read_numbers(words);
  } else if (key == "tolerance") {
    operand &o = find(c, name);
    real units, absolute;
    words >> units >> absolute;
    for (real v : o.values) o.allowed.push_back(std::isfinite(v) ? units * ulp(o.type, v) + absolute : 0);
  } else {
    throw std::runtime_error("unknown key " + key);
  }
}

}  // namespace

double conformance_case::number(const char *field) const {
  auto at = desc.find(field);
  return at == desc.end() ? 0 : std::strtod(at->second.c_str(), nullptr);
}

std::vector<conformance_case> read_cases(const std::string &path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<conformance_case> cases;
  conformance_case next;
  std::string op;
  for (std::string line; std::getline(file, line);) {
    std::stringstream words(line);
    std::string key;
    if (!(words >> key) || key == "sluice-cases") continue;
    if (key == "op") {
      words >> op;
    } else if (key == "end") {
      next.op = op;
      cases.push_back(std::move(next));
      next = {};
    } else {
      read_line(next, key, words);
    }
  }
  return cases;
}

}  // namespace sluice::test
