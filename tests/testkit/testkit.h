/* testkit.h: memory and streams of a GPU for tests, so that no test needs a framework and the library keeps its
 * promise to allocate nothing. Languages other than C load it by dlopen as libsluice_testkit.so. Never installed.
 *
 * A build without CUDA, a machine without a driver and one without a GPU all have 0 devices; every other call then
 * fails. Calls that return int32_t answer 0 for success, else a code of CUDA's. */
#ifndef SLUICE_TESTS_TESTKIT_H
#define SLUICE_TESTS_TESTKIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_TESTKIT_API __attribute__((visibility("default")))

SLUICE_TESTKIT_API int32_t sluice_testkit_devices(void);

/* Memory of DLPack's device type 2 (CUDA), 3 (pinned host) or 13 (managed), 256-byte aligned; NULL on failure. */
SLUICE_TESTKIT_API void *sluice_testkit_alloc(int32_t device_type, int32_t device_id, size_t bytes);
SLUICE_TESTKIT_API void sluice_testkit_free(int32_t device_type, int32_t device_id, void *memory);
/* Between host and device, either way; done when it returns. */
SLUICE_TESTKIT_API int32_t sluice_testkit_copy(void *to, const void *from, size_t bytes);
/* The four below work on the memory of the current device, in their order and that of what is enqueued on its default
 * stream; the first two may not be done when they return. */
SLUICE_TESTKIT_API int32_t sluice_testkit_fill(void *to, uint8_t byte, size_t bytes);
/* `count` elements of 1, 2, 4 or 8 bytes; steps from one to the next in elements, negative ones too. */
SLUICE_TESTKIT_API int32_t sluice_testkit_copy_steps(void *to, int64_t to_step, const void *from,
                                                     int64_t from_step, int64_t count, int32_t size);
/* In how many bytes two stretches differ; -1 on failure. */
SLUICE_TESTKIT_API int64_t sluice_testkit_differing(const void *a, const void *b, size_t bytes);
/* The largest difference of two elements of 2 or 4 bytes as signed integers; -1 on failure. */
SLUICE_TESTKIT_API int64_t sluice_testkit_most_apart(const void *a, const void *b, int64_t count,
                                                     int32_t size);
/* Bytes of the current device that nobody has taken. */
SLUICE_TESTKIT_API size_t sluice_testkit_free_bytes(void);
/* Waits for everything on the device and gives its error, if there is one. */
SLUICE_TESTKIT_API int32_t sluice_testkit_sync(int32_t device_id);
SLUICE_TESTKIT_API int32_t sluice_testkit_current_device(void);
SLUICE_TESTKIT_API int32_t sluice_testkit_set_device(int32_t device_id);

/* A stream that does not wait for the default one; NULL on failure. */
SLUICE_TESTKIT_API void *sluice_testkit_stream_create(void);
SLUICE_TESTKIT_API void sluice_testkit_stream_destroy(void *stream);
SLUICE_TESTKIT_API int32_t sluice_testkit_stream_sync(void *stream);
/* Capture in global mode, which refuses whatever is unsafe anywhere in the process. */
SLUICE_TESTKIT_API int32_t sluice_testkit_capture_begin(void *stream);
/* A graph ready to launch; NULL when the capture was broken. */
SLUICE_TESTKIT_API void *sluice_testkit_capture_end(void *stream);
SLUICE_TESTKIT_API int32_t sluice_testkit_graph_launch(void *graph, void *stream);
SLUICE_TESTKIT_API void sluice_testkit_graph_destroy(void *graph);

/* From here on the context, which is CUDA's, plans as for a device of this compute capability. */
struct sluice_context;
SLUICE_TESTKIT_API int32_t sluice_testkit_pretend(struct sluice_context *context, int32_t major,
                                                  int32_t minor);

/* Listens to what the whole process asks of the CUDA driver, until it is told to stop; NULL, or why it cannot. */
SLUICE_TESTKIT_API const char *sluice_testkit_listen(void);
SLUICE_TESTKIT_API void sluice_testkit_stop_listening(void);
/* The driver's functions that were called since it began, each once on a line. Valid until it is asked again. */
SLUICE_TESTKIT_API const char *sluice_testkit_heard(void);
/* Calls the driver's cuMemAlloc, cuStreamSynchronize and cuMemFree, which a listener has to hear. */
SLUICE_TESTKIT_API int32_t sluice_testkit_allocate_and_wait(void);

#ifdef __cplusplus
}
#endif

#endif
