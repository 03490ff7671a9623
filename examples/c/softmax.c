// Softmax of two rows on the CPU, with the logarithm of each row's denominator as a second result.
//
//   cc -std=c11 examples/c/softmax.c -Iinclude -Lbuild/quickstart -lsluice -Wl,-rpath,build/quickstart -o softmax
#include <sluice/sluice.h>
#include <stdio.h>

enum { rows = 2, n = 4 };

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, sluice_last_error());
  return 1;
}

int main(void) {
  float x[rows][n] = {{1, 2, 3, 4}, {1000, 1000, 1000, -1000}};
  float y[rows][n], lse[rows];

  // A tensor is a view: it says where the numbers are, and owns nothing. NULL strides mean row after row.
  int64_t shape[] = {rows, n};
  sluice_device cpu = {.type = 1};
  sluice_dtype float32 = {.code = 2, .bits = 32, .lanes = 1};
  sluice_tensor tx = {.data = x, .device = cpu, .ndim = 2, .dtype = float32, .shape = shape};
  sluice_tensor ty = {.data = y, .device = cpu, .ndim = 2, .dtype = float32, .shape = shape};
  sluice_tensor tl = {.data = lse, .device = cpu, .ndim = 1, .dtype = float32, .shape = shape};

  // A context is a device. It may be shared by any number of threads.
  sluice_context *context;
  if (sluice_context_create(NULL, &context) != SLUICE_OK) return failed("context");

  // Everything beside the plain softmax is a field of the descriptor; zero is always the default.
  sluice_softmax_desc desc = {.struct_size = sizeof desc, .lse = &tl};
  if (sluice_softmax(context, &desc, &tx, &ty, NULL, 0, NULL) != SLUICE_OK) return failed("softmax");

  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < n; ++j) printf("%9.6f", y[i][j]);
    printf("   ln of the denominator: %.6f\n", lse[i]);
  }

  // A failure is a status with one line of text.
  shape[1] = -1;
  if (sluice_softmax(context, NULL, &tx, &ty, NULL, 0, NULL) != SLUICE_OK)
    printf("refused as expected: %s\n", sluice_last_error());
  sluice_context_destroy(context);
  return 0;
}
