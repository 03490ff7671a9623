/* fields.c: see fields.h. */
#include "fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sluice_dtype dtype_of(const char *name) {
  static const struct {
    const char *name;
    sluice_dtype type;
  } known[] = {{"float16", {2, 16, 1}}, {"bfloat16", {4, 16, 1}}, {"float32", {2, 32, 1}},
               {"float64", {2, 64, 1}}, {"int8", {0, 8, 1}},      {"uint8", {1, 8, 1}},
               {"bool", {6, 8, 1}},     {"int32", {0, 32, 1}},    {"int64", {0, 64, 1}}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (strcmp(known[i].name, name) == 0) return known[i].type;
  return (sluice_dtype){255, 0, 0};
}

size_t bytes_of(sluice_dtype type) { return type.bits / 8u; }

static bool is_float(sluice_dtype type) { return type.code == 2 || type.code == 4; }
static int exponent_bits(sluice_dtype type) {
  return type.code == 4 ? 8 : type.bits == 16 ? 5 : type.bits == 32 ? 8 : 11;
}
static int fraction_bits(sluice_dtype type) { return type.bits - 1 - exponent_bits(type); }

static uint16_t encode_16(sluice_dtype type, double value) {
  int e = exponent_bits(type), f = fraction_bits(type), bias = (1 << (e - 1)) - 1, exponent;
  uint32_t sign = signbit(value) ? 0x8000u : 0, infinite = ((1u << e) - 1) << f;
  if (isnan(value)) return (uint16_t)(infinite | 1u << (f - 1));
  if (isinf(value)) return (uint16_t)(sign | infinite);
  frexp(value, &exponent);
  exponent = value == 0 || exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
  uint32_t units = (uint32_t)nearbyint(ldexp(fabs(value), f - exponent));
  uint32_t bits = ((uint32_t)(exponent + bias - 1) << f) + units;
  return (uint16_t)(sign | (bits < infinite ? bits : infinite));
}

static double decode_16(sluice_dtype type, uint16_t bits) {
  int e = exponent_bits(type), f = fraction_bits(type), bias = (1 << (e - 1)) - 1;
  int exponent = bits >> f & ((1 << e) - 1), fraction = bits & ((1 << f) - 1);
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << e) - 1) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * ldexp(fraction, 1 - bias - f);
  return sign * ldexp(fraction | 1 << f, exponent - bias - f);
}

#define WITH(type, expression)                                                                               \
  do {                                                                                                       \
    type v;                                                                                                  \
    memcpy(&v, at, sizeof v);                                                                                \
    return expression;                                                                                       \
  } while (0)
double load(sluice_dtype type, const void *at) {
  if (is_float(type) && type.bits == 16) WITH(uint16_t, decode_16(type, v));
  if (is_float(type) && type.bits == 32) WITH(float, v);
  if (is_float(type)) WITH(double, v);
  if (type.bits == 8 && type.code == 0) WITH(int8_t, v);
  if (type.bits == 8) WITH(uint8_t, v);
  if (type.bits == 32) WITH(int32_t, v);
  WITH(int64_t, (double)v);
}
#undef WITH

#define PUT(type, value)                                                                                     \
  do {                                                                                                       \
    type v = (type)(value);                                                                                  \
    memcpy(at, &v, sizeof v);                                                                                \
    return;                                                                                                  \
  } while (0)
void store(sluice_dtype type, void *at, double value) {
  if (is_float(type) && type.bits == 16) PUT(uint16_t, encode_16(type, value));
  if (is_float(type) && type.bits == 32) PUT(float, value);
  if (is_float(type)) PUT(double, value);
  if (type.bits == 8 && type.code == 0) PUT(int8_t, value);
  if (type.bits == 8) PUT(uint8_t, value);
  if (type.bits == 32) PUT(int32_t, value);
  PUT(int64_t, value);
}
#undef PUT

double ulp(sluice_dtype type, double value) {
  int exponent, lowest = 2 - (1 << (exponent_bits(type) - 1));
  frexp(value, &exponent);
  exponent = value == 0 || exponent - 1 < lowest ? lowest : exponent - 1;
  return ldexp(1, exponent - fraction_bits(type));
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static double number_of(const char *text) { return strtod(text, NULL); }

static uint64_t splitmix64(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static char *next_word(void) { return strtok(NULL, " \n"); }

/* Elements of the line's rest, as `list`, `periodic`, `ascending` or `hash` say. */
static void fill(struct tensor *t) {
  char *data = t->view.data, *kind = next_word(), *word;
  size_t size = bytes_of(t->view.dtype);
  if (strcmp(kind, "hash") == 0) {
    uint64_t seed = strtoull(next_word(), NULL, 10);
    int bits = atoi(next_word());
    int64_t minus = atoll(next_word());
    int shift = atoi(next_word());
    for (int64_t i = 0; i < t->count; ++i) {
      int64_t k = (int64_t)(splitmix64(seed, (uint64_t)i) >> (64 - bits)) - minus;
      store(t->view.dtype, data + (size_t)i * size, ldexp((double)k, shift));
    }
  } else if (strcmp(kind, "ascending") == 0) {
    double step = number_of(next_word());
    for (int64_t i = 0; i < t->count; ++i) store(t->view.dtype, data + (size_t)i * size, (double)i * step);
  } else {
    int64_t given = 0;
    while ((word = next_word()) != NULL && given < t->count)
      store(t->view.dtype, data + (size_t)given++ * size, number_of(word));
    for (int64_t i = given; given && i < t->count; ++i)  /* periodic */
      memcpy(data + (size_t)i * size, data + (size_t)(i % given) * size, size);
  }
}

static struct tensor *add_tensor(struct conformance_case *c, bool output) {
  struct tensor *t = &c->tensors[c->tensor_count++];
  snprintf(t->name, sizeof t->name, "%s", next_word());
  t->output = output;
  t->view.dtype = dtype_of(next_word());
  t->view.device = (sluice_device){1, 0};
  t->view.shape = t->shape;
  t->count = 1;
  for (char *s = next_word(); *s && *s != '-'; s += *s == ',') {
    t->shape[t->view.ndim] = strtoll(s, &s, 10);
    t->count *= t->shape[t->view.ndim++];
  }
  size_t bytes = (size_t)t->count * bytes_of(t->view.dtype);
  t->view.data = bytes ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
  if (bytes) memset(t->view.data, 0xa5, bytes);
  return t;
}

struct tensor *find_tensor(struct conformance_case *c, const char *name) {
  for (int i = 0; i < c->tensor_count; ++i)
    if (strcmp(c->tensors[i].name, name) == 0) return &c->tensors[i];
  return NULL;
}

double field_or_zero(const struct conformance_case *c, const char *field) {
  for (int i = 0; i < c->desc_count; ++i)
    if (strcmp(c->desc[i].field, field) == 0) return number_of(c->desc[i].value);
  return 0;
}

static void read_positions(struct tensor *t) {
  t->at = malloc(4096 * sizeof *t->at);
  int n = 0;
  for (char *word; (word = next_word()) != NULL;) t->at[n++] = atoll(word);
}

static void read_values(struct tensor *t) {
  t->values = malloc(4096 * sizeof *t->values);
  for (char *word; (word = next_word()) != NULL;) t->values[t->value_count++] = number_of(word);
}

bool read_case(void *file, char op[32], struct conformance_case *c) {
  static char line[1 << 16];
  memset(c, 0, sizeof *c);
  c->workspace = -1;
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "text ", 5) == 0) {
      size_t length = strcspn(line + 5, "\n");
      if (length >= sizeof c->text) length = sizeof c->text - 1;
      memcpy(c->text, line + 5, length);
      continue;
    }
    char *key = strtok(line, " \n");
    if (key == NULL || strcmp(key, "sluice-cases") == 0) continue;
    if (strcmp(key, "end") == 0) return true;
    if (strcmp(key, "op") == 0) {
      snprintf(op, 32, "%s", next_word());
    } else if (strcmp(key, "case") == 0) {
      snprintf(c->name, sizeof c->name, "%s", next_word());
    } else if (strcmp(key, "desc") == 0) {
      struct number *n = &c->desc[c->desc_count++];
      snprintf(n->field, sizeof n->field, "%s", next_word());
      snprintf(n->value, sizeof n->value, "%s", next_word());
    } else if (strcmp(key, "input") == 0) {
      fill(add_tensor(c, false));
    } else if (strcmp(key, "output") == 0) {
      add_tensor(c, true);
    } else if (strcmp(key, "workspace") == 0) {
      c->workspace = atoll(next_word());
    } else if (strcmp(key, "status") == 0) {
      snprintf(c->status, sizeof c->status, "%s", next_word());
    } else {
      struct tensor *t = find_tensor(c, next_word());
      if (strcmp(key, "device") == 0) {
        int type = atoi(next_word()), id = atoi(next_word());
        t->view.device = (sluice_device){type, id};
        c->names_a_device = true;
      } else if (strcmp(key, "at") == 0) {
        read_positions(t);
      } else if (strcmp(key, "values") == 0) {
        read_values(t);
      } else if (strcmp(key, "tolerance") == 0) {
        t->ulps = number_of(next_word());
        t->absolute = number_of(next_word());
      }
    }
  }
  return false;
}

void free_case(struct conformance_case *c) {
  for (int i = 0; i < c->tensor_count; ++i) {
    free(c->tensors[i].view.data);
    free(c->tensors[i].at);
    free(c->tensors[i].values);
  }
}
