// layout.cpp: the layouts that other languages and older programs were built against. A change here is a
// break.
#include <sluice/sluice.h>

#include <cstddef>

static_assert(sizeof(sluice_status) == 4);
static_assert(sizeof(sluice_device) == 8 && offsetof(sluice_device, id) == 4);
static_assert(sizeof(sluice_dtype) == 4 && offsetof(sluice_dtype, bits) == 1 &&
              offsetof(sluice_dtype, lanes) == 2);

static_assert(sizeof(sluice_tensor) == 48);
static_assert(offsetof(sluice_tensor, device) == 8 && offsetof(sluice_tensor, ndim) == 16);
static_assert(offsetof(sluice_tensor, dtype) == 20 && offsetof(sluice_tensor, shape) == 24);
static_assert(offsetof(sluice_tensor, strides) == 32 && offsetof(sluice_tensor, byte_offset) == 40);

static_assert(sizeof(sluice_hooks) == 48);
static_assert(offsetof(sluice_hooks, self) == 8 && offsetof(sluice_hooks, alloc) == 16);
static_assert(offsetof(sluice_hooks, release) == 24 && offsetof(sluice_hooks, log) == 32);
static_assert(offsetof(sluice_hooks, parallel_for) == 40);

static_assert(sizeof(sluice_context_desc) == 32);
static_assert(offsetof(sluice_context_desc, device_type) == 8 &&
              offsetof(sluice_context_desc, device_id) == 12);
static_assert(offsetof(sluice_context_desc, debug_sync) == 16 &&
              offsetof(sluice_context_desc, threads) == 20);
static_assert(offsetof(sluice_context_desc, hooks) == 24);
