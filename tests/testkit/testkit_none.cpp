// testkit_none.cpp: the testkit of a build without CUDA. It has no devices, and whatever else is asked fails.
#include "testkit/testkit.h"

extern "C" {

int32_t sluice_testkit_devices(void) { return 0; }
void *sluice_testkit_alloc(int32_t, int32_t, size_t) { return nullptr; }
void sluice_testkit_free(int32_t, int32_t, void *) {}
int32_t sluice_testkit_copy(void *, const void *, size_t) { return 100; } // cudaErrorNoDevice
int32_t sluice_testkit_fill(void *, uint8_t, size_t) { return 100; }
int32_t sluice_testkit_copy_steps(void *, int64_t, const void *, int64_t, int64_t, int32_t) { return 100; }
int64_t sluice_testkit_differing(const void *, const void *, size_t) { return -1; }
int64_t sluice_testkit_most_apart(const void *, const void *, int64_t, int32_t) { return -1; }
size_t sluice_testkit_free_bytes(void) { return 0; }
int32_t sluice_testkit_sync(int32_t) { return 100; }
int32_t sluice_testkit_current_device(void) { return -1; }
int32_t sluice_testkit_set_device(int32_t) { return 100; }
void *sluice_testkit_stream_create(void) { return nullptr; }
void sluice_testkit_stream_destroy(void *) {}
int32_t sluice_testkit_stream_sync(void *) { return 100; }
int32_t sluice_testkit_capture_begin(void *) { return 100; }
void *sluice_testkit_capture_end(void *) { return nullptr; }
int32_t sluice_testkit_graph_launch(void *, void *) { return 100; }
void sluice_testkit_graph_destroy(void *) {}
}
