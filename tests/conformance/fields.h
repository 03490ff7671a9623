/* fields.h: element types and fills of the conformance cases in C, and a case as it is read from a .cases file. */
#ifndef SLUICE_TESTS_CONFORMANCE_FIELDS_H
#define SLUICE_TESTS_CONFORMANCE_FIELDS_H

#include <sluice/sluice.h>
#include <stdbool.h>

enum { max_axes = 8, max_tensors = 16, max_fields = 16 };

/* A dtype by its name: "float16", "bool". Code 255 where there is no such name. */
sluice_dtype dtype_of(const char *name);
size_t bytes_of(sluice_dtype type);
double load(sluice_dtype type, const void *at);
void store(sluice_dtype type, void *at, double value);
/* The distance between neighbours of a float dtype at |value|. */
double ulp(sluice_dtype type, double value);

struct tensor {
  char name[32];
  bool output;
  int64_t shape[max_axes];
  int64_t count;
  sluice_tensor view; /* of memory that the case owns */
  void *host; /* that memory, while the view is of a GPU's */
  /* What an output should hold: at positions, or everywhere when `at` is NULL. */
  int64_t *at;
  double *values;
  int64_t value_count;
  double ulps, absolute;
};

struct number {
  char field[32];
  char value[64];
};

struct conformance_case {
  char name[64];
  struct number desc[max_fields];
  int desc_count;
  struct tensor tensors[max_tensors];
  int tensor_count;
  long long workspace; /* bytes to lend; -1: what the query asks for */
  bool names_a_device;
  char status[48];
  char text[320]; /* "" when any text will do */
};

/* Reads the next case of an open file; false at its end. `op` is filled from the file's head. */
bool read_case(void *file, char op[32], struct conformance_case *c);
void free_case(struct conformance_case *c);

struct tensor *find_tensor(struct conformance_case *c, const char *name);
double field_or_zero(const struct conformance_case *c, const char *field);

#endif
