/* conformance.c: the conformance cases through the C API alone, in C11: conformance_c [--cuda] [--digests] FILE.cases...
 * With --cuda they run on a GPU, whose memory the testkit gives. With --digests it prints one line a result, op, case,
 * tensor and a hash of its bits, which every language has to print alike on one device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "testkit/testkit.h"

static const sluice_tensor *view(struct conformance_case *c, const char *name) {
  struct tensor *t = find_tensor(c, name);
  return t ? &t->view : NULL;
}

static sluice_status run_softmax(const sluice_context *context, struct conformance_case *c, void *workspace,
                                 size_t *bytes, bool asks) {
  sluice_softmax_desc d = {0};
  d.struct_size = sizeof d;
  d.scale = field_or_zero(c, "scale");
  d.softcap = field_or_zero(c, "softcap");
  d.log = (int32_t)field_or_zero(c, "log");
  d.accuracy = (int32_t)field_or_zero(c, "accuracy");
  d.empty_row = (int32_t)field_or_zero(c, "empty_row");
  d.causal = (int32_t)field_or_zero(c, "causal");
  d.diagonal = (int32_t)field_or_zero(c, "diagonal");
  d.diagonal_offset = (int64_t)field_or_zero(c, "diagonal_offset");
  d.window = (int64_t)field_or_zero(c, "window");
  d.mask = view(c, "mask");
  d.keep = view(c, "keep");
  d.lengths = view(c, "lengths");
  d.slopes = view(c, "slopes");
  d.sink = view(c, "sink");
  d.temperature = view(c, "temperature");
  d.lse = view(c, "lse");
  d.max = view(c, "max");
  if (asks) return sluice_softmax_workspace(context, &d, view(c, "x"), view(c, "y"), bytes);
  return sluice_softmax(context, &d, view(c, "x"), view(c, "y"), workspace, *bytes, NULL);
}

static sluice_status run_softmax_backward(const sluice_context *context, struct conformance_case *c,
                                          void *workspace, size_t *bytes, bool asks) {
  sluice_softmax_backward_desc d = {0};
  d.struct_size = sizeof d;
  d.scale = field_or_zero(c, "scale");
  d.softcap = field_or_zero(c, "softcap");
  d.log = (int32_t)field_or_zero(c, "log");
  d.empty_row = (int32_t)field_or_zero(c, "empty_row");
  d.causal = (int32_t)field_or_zero(c, "causal");
  d.diagonal = (int32_t)field_or_zero(c, "diagonal");
  d.diagonal_offset = (int64_t)field_or_zero(c, "diagonal_offset");
  d.window = (int64_t)field_or_zero(c, "window");
  d.mask = view(c, "mask");
  d.keep = view(c, "keep");
  d.lengths = view(c, "lengths");
  d.slopes = view(c, "slopes");
  d.sink = view(c, "sink");
  d.temperature = view(c, "temperature");
  d.x = view(c, "x");
  d.y = view(c, "y");
  d.lse = view(c, "lse");
  d.d_lse = view(c, "d_lse");
  d.d_mask = view(c, "d_mask");
  d.d_slopes = view(c, "d_slopes");
  d.d_sink = view(c, "d_sink");
  d.d_temperature = view(c, "d_temperature");
  if (asks) return sluice_softmax_backward_workspace(context, &d, view(c, "dy"), view(c, "dx"), bytes);
  return sluice_softmax_backward(context, &d, view(c, "dy"), view(c, "dx"), workspace, *bytes, NULL);
}

static int wrong_values(const char *op, struct conformance_case *c, struct tensor *t) {
  int wrong = 0;
  if (!t->values) return 0;
  for (int64_t i = 0; i < t->value_count; ++i) {
    int64_t at = t->at ? t->at[i] : i;
    double want = t->values[i],
           got = load(t->view.dtype, (char *)t->view.data + (size_t)at * bytes_of(t->view.dtype));
    bool fine = isnan(want)
                    ? isnan(got) != 0
                    : got == want || fabs(got - want) <= t->ulps * ulp(t->view.dtype, want) + t->absolute;
    if (fine) continue;
    if (wrong++ == 0)
      fprintf(stderr, "%s %s: %s[%lld] is %.17g, want %.17g\n", op, c->name, t->name, (long long)at, got,
              want);
  }
  return wrong;
}

static bool untouched(struct conformance_case *c) {
  for (int i = 0; i < c->tensor_count; ++i) {
    const struct tensor *t = &c->tensors[i];
    const unsigned char *bytes = t->view.data;
    for (size_t k = 0; t->output && k < (size_t)t->count * bytes_of(t->view.dtype); ++k)
      if (bytes[k] != 0xa5) return false;
  }
  return true;
}

static uint64_t digest(const struct tensor *t) { /* FNV-1a */
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  const unsigned char *bytes = t->view.data;
  for (size_t k = 0; k < (size_t)t->count * bytes_of(t->view.dtype); ++k)
    h = (h ^ bytes[k]) * UINT64_C(0x100000001b3);
  return h;
}

/* Moves every tensor to the GPU, where the call finds it, and back, where its results are looked at. */
static bool move(struct conformance_case *c, bool to_gpu) {
  bool fine = true;
  for (int i = 0; i < c->tensor_count; ++i) {
    struct tensor *t = &c->tensors[i];
    size_t bytes = (size_t)t->count * bytes_of(t->view.dtype);
    void *from = t->view.data;
    t->view.device = (sluice_device){to_gpu ? 2 : 1, 0};
    if (bytes == 0) continue;
    void *to = to_gpu ? sluice_testkit_alloc(2, 0, bytes) : t->host;
    if (to_gpu) t->host = from;
    fine = fine && to && sluice_testkit_copy(to, from, bytes) == 0;
    t->view.data = to;
    if (!to_gpu) sluice_testkit_free(2, 0, from);
  }
  return fine;
}

static void *take(bool cuda, size_t bytes) {
  return cuda ? sluice_testkit_alloc(2, 0, bytes) : aligned_alloc(256, (bytes + 255) / 256 * 256);
}

static void give_back(bool cuda, void *memory) {
  if (cuda && memory)
    sluice_testkit_free(2, 0, memory);
  else
    free(memory);
}

static int run_case(const sluice_context *context, bool cuda, const char *op, struct conformance_case *c,
                    bool digests) {
  sluice_status (*run)(const sluice_context *, struct conformance_case *, void *, size_t *, bool) =
      strcmp(op, "softmax") == 0            ? run_softmax
      : strcmp(op, "softmax_backward") == 0 ? run_softmax_backward
                                            : NULL;
  if (!run) {
    fprintf(stderr, "conformance_c knows no operation %s\n", op);
    return 1;
  }
  if (cuda && !move(c, true)) {
    fprintf(stderr, "%s %s: no memory of the GPU\n", op, c->name);
    return 1;
  }
  size_t bytes = 0;
  sluice_status status = run(context, c, NULL, &bytes, true);
  void *workspace = NULL;
  if (status == SLUICE_OK) {
    if (c->workspace >= 0) bytes = (size_t)c->workspace;
    if (bytes) workspace = take(cuda, bytes);
    status = run(context, c, workspace, &bytes, false);
    give_back(cuda, workspace);
  }
  if (cuda && !move(c, false)) {
    fprintf(stderr, "%s %s: the GPU did not give its results\n", op, c->name);
    return 1;
  }
  int wrong = strcmp(sluice_status_name(status), c->status) != 0;
  if (wrong)
    fprintf(stderr, "%s %s: %s (%s), want %s\n", op, c->name, sluice_status_name(status),
            status == SLUICE_OK ? "" : sluice_last_error(), c->status);
  if (status != SLUICE_OK) {
    /* The query is what failed: it says the same under its own name. */
    const char *text = strstr(sluice_last_error(), ": "), *want = strstr(c->text, ": ");
    bool same_text = !want || (text && strcmp(text, want) == 0);
    if (!same_text)
      fprintf(stderr, "%s %s: \"%s\", want \"%s\"\n", op, c->name, sluice_last_error(), c->text);
    if (!untouched(c)) fprintf(stderr, "%s %s: a failure touched an output\n", op, c->name);
    return wrong + !same_text + !untouched(c);
  }
  for (int i = 0; i < c->tensor_count; ++i) {
    struct tensor *t = &c->tensors[i];
    if (!t->output) continue;
    wrong += wrong_values(op, c, t);
    if (digests) printf("%s %s %s %016llx\n", op, c->name, t->name, (unsigned long long)digest(t));
  }
  return wrong;
}

int main(int count, char **arguments) {
  bool digests = false, cuda = false;
  int first = 1;
  for (; first < count && arguments[first][0] == '-'; ++first) {
    digests = digests || strcmp(arguments[first], "--digests") == 0;
    cuda = cuda || strcmp(arguments[first], "--cuda") == 0;
  }
  sluice_context_desc desc = {.struct_size = sizeof desc, .device_type = cuda ? 2 : 1};
  sluice_context *context = NULL;
  if (sluice_context_create(&desc, &context) != SLUICE_OK) {
    fprintf(stderr, "no context: %s\n", sluice_last_error());
    return 1;
  }
  int cases = 0, failed = 0;
  for (int i = first; i < count; ++i) {
    FILE *file = fopen(arguments[i], "r");
    if (!file) {
      perror(arguments[i]);
      return 1;
    }
    static struct conformance_case c;
    char op[32] = "";
    while (read_case(file, op, &c)) {
      ++cases;
      /* The texts that name a device are those of the CPU. */
      if (!cuda || !c.names_a_device) failed += run_case(context, cuda, op, &c, digests) != 0;
      free_case(&c);
    }
    fclose(file);
  }
  sluice_context_destroy(context);
  if (!digests) printf("%d cases, %d failed\n", cases, failed);
  return failed != 0 || cases == 0;
}
