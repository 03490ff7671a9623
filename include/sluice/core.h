/** @file core.h
 *  What every operation shares: status, tensors, hooks, contexts. C11 and C++, self-contained, no CUDA
 *  header.
 *
 *  Unless marked otherwise a call returns a status; never aborts, prints, throws, waits for the device,
 *  allocates device memory or leaves another device current; may run on any thread and, unless marked
 *  [no capture], inside CUDA stream capture. SLUICE_OK from a CUDA context means enqueued, from a CPU context
 *  done. Strings are UTF-8. Structs start zeroed, and zero is the default of every field.
 *
 *  A failure of class 1, 2, 3 or 5 touched no output. After class 4 (the driver refused a launch) outputs are
 *  unspecified. */
#ifndef SLUICE_CORE_H
#define SLUICE_CORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** major * 10000 + minor * 100 + patch: 0.1.0. */
#define SLUICE_VERSION 100u

/** Marks what the shared library exports. */
#if defined(_WIN32)
#define SLUICE_API
#else
#define SLUICE_API __attribute__((visibility("default")))
#endif

/** What a call answers. code / 1000 is the class, which a binding turns into an exception type: 1 the
 *  caller's argument, 2 not offered, 3 memory, 4 the device or a callback failed, 5 absent on this machine, 9
 *  a defect of sluice. A class may gain codes. */
typedef enum sluice_status {
  SLUICE_OK = 0,                    /**< Done (CPU) or enqueued (CUDA). */
  SLUICE_INVALID_ARGUMENT = 1000,   /**< A value outside what the call documents. */
  SLUICE_INVALID_SHAPE = 1001,      /**< Extents that do not fit together. */
  SLUICE_INVALID_DEVICE = 1002,     /**< A tensor that is not on the context's device. */
  SLUICE_WORKSPACE_TOO_SMALL = 1003, /**< Fewer bytes than the query asked for, and no hooks.alloc. */
  SLUICE_UNSUPPORTED = 2000,        /**< A well-formed request that this build does not offer. */
  SLUICE_UNSUPPORTED_DTYPE = 2001,  /**< A dtype that the operand does not take. */
  SLUICE_OUT_OF_MEMORY = 3000,      /**< hooks.alloc gave NULL, or the host has no memory left. */
  SLUICE_CUDA_FAILED = 4000,        /**< The CUDA driver refused; the text carries its words. */
  SLUICE_CALLBACK_FAILED = 4003,    /**< A callback of the host's answered an error. */
  SLUICE_NO_DEVICE = 5000,          /**< No such device, no driver, or a context used after fork. */
  SLUICE_INTERNAL = 9000,           /**< A defect of sluice: please report its text. */
  SLUICE_STATUS_FORCE32 = 0x7fffffff /**< Keeps the enum 32 bits wide; never returned. */
} sluice_status;

/** @return SLUICE_VERSION of the library that was loaded. */
SLUICE_API uint32_t sluice_version(void);
/** @return one line such as "0.1.0 cuda=13.0 sm=90 cpu=avx3": version, toolkit and architectures of the CUDA
 *  half ("cuda=none" without one), and the instruction set that CPU contexts choose here. Static text. */
SLUICE_API const char *sluice_build_info(void);
/** @param[in] status any code, known or not. @return its name, such as "SLUICE_OK"; static text, never
 *  NULL. */
SLUICE_API const char *sluice_status_name(sluice_status status);
/** @return one line on this thread's last failure, "" before any; it names operation, argument, what it got
 *  and what it wants. Valid until this thread's next failure. */
SLUICE_API const char *sluice_last_error(void);

/** Where memory lives, in DLPack's codes: type 1 CPU, 2 CUDA, 3 CUDA pinned host, 13 CUDA managed. Pinned and
 *  managed memory counts as the device of either kind of context. */
typedef struct sluice_device {
  int32_t type; /**< DLDeviceType. */
  int32_t id;   /**< Ordinal; 0 on the CPU. */
} sluice_device;

/** An element's type, in DLPack's codes: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool. */
typedef struct sluice_dtype {
  uint8_t code;   /**< DLDataTypeCode. */
  uint8_t bits;   /**< Bits of one lane: 16 for bfloat16. */
  uint16_t lanes; /**< 1; others are unsupported. */
} sluice_dtype;

/** A view of memory that somebody else owns. Field for field a DLPack 1.x DLTensor, so that a
 *  `const DLTensor *` may be passed by cast. Strides count elements, may be negative, and NULL strides mean
 *  compact row-major. With an extent of 0, `data` may be NULL and nothing runs. Any alignment of at least the
 *  element's size is accepted; 64 bytes are fastest. At most 64 axes. */
typedef struct sluice_tensor {
  void *data;           /**< Base address; the first element stands at data + byte_offset. */
  sluice_device device; /**< Where the memory lives. */
  int32_t ndim;         /**< Number of axes, 0 to 64. */
  sluice_dtype dtype;   /**< Type of the elements. */
  int64_t *shape;       /**< [ndim] extents; NULL with ndim 0. */
  int64_t *strides;     /**< [ndim] elements from one index to the next; NULL: compact row-major. */
  uint64_t byte_offset; /**< Bytes from data to the first element. */
} sluice_tensor;

/** cudaStream_t or CUstream, CUDA's special handles included; NULL is the legacy default stream. Must be NULL
 *  for a CPU context. */
typedef struct CUstream_st *sluice_stream;

/** What the host lends to a context; copied when the context is made. Any thread may call a hook, and each
 *  gets `self`, which the host keeps alive as long as the context. */
typedef struct sluice_hooks {
  size_t struct_size; /**< sizeof(sluice_hooks) at the caller. */
  void *self;         /**< Handed to every hook. */
  /** Scratch memory of the context's device, 256-byte aligned and ordered by the stream; NULL when there is
   *  none. Without this hook no scratch is ever taken: an operation that wants it asks for a workspace. */
  void *(*alloc)(void *self, size_t bytes, sluice_stream stream);
  /** Gives back what alloc gave. Must be set exactly when alloc is. */
  void (*release)(void *self, void *memory, size_t bytes, sluice_stream stream);
  /** Receives one line a message; level 0 error, 1 warning, 2 information. NULL: silence. */
  void (*log)(void *self, int32_t level, const char *line);
  /** Runs body(arg, i) for every i in [0, n) and returns when all are done, in any order and on any threads,
   *  one after another included: no body waits for another. NULL: threads of the context's own. CPU contexts
   *  only. */
  void (*parallel_for)(void *self, int64_t n, void (*body)(void *arg, int64_t i), void *arg);
} sluice_hooks;

/** How to make a context. */
typedef struct sluice_context_desc {
  size_t struct_size; /**< sizeof(sluice_context_desc) at the caller. */
  int32_t device_type; /**< 1 CPU, 2 CUDA; 0 means CPU. */
  int32_t device_id; /**< CUDA ordinal; 0 for the CPU. */
  int32_t debug_sync; /**< 1: wait after every call (not while capturing), so that a fault names its call. */
  int32_t threads; /**< CPU: 0 one per core of the affinity mask, 1 the caller alone, at most 1024. */
  const sluice_hooks *hooks; /**< NULL: all defaults. */
} sluice_context_desc;

/** One device and what the host lends. Immutable, so that any number of threads may share it without
 *  locks. */
typedef struct sluice_context sluice_context;

/** [no capture] Makes a context; also the probe for a device. A CPU context makes no CUDA call and starts no
 *  thread before its first parallel work; in a forked child it starts its own. A CUDA context must be made
 *  anew there.
 *  @param[in] desc NULL: a CPU context with all defaults.
 *  @param[out] out the context; untouched on failure.
 *  @return SLUICE_NO_DEVICE where device, driver or the CUDA half of the library is missing, with the
 *  reason. */
SLUICE_API sluice_status sluice_context_create(const sluice_context_desc *desc, sluice_context **out);
/** [no capture] Loads every kernel of an operation, so that no later call loads code. A promise about
 *  latency: operations work without it. Does nothing on a CPU context.
 *  @param[in] context the context.
 *  @param[in] op an operation's name; NULL: all of them.
 *  @return SLUICE_OK, or why not. */
SLUICE_API sluice_status sluice_context_warm(const sluice_context *context, const char *op);
/** Ends a context. Never waits; any thread, any order. @param[in] context NULL does nothing. */
SLUICE_API void sluice_context_destroy(sluice_context *context);

/** @return the number of operations in this build. */
SLUICE_API int32_t sluice_op_count(void);
/** @param[in] index 0 to sluice_op_count() - 1. @return the name; NULL when out of range. Static text. */
SLUICE_API const char *sluice_op_name(int32_t index);
/** Whether an operation takes these dtypes on this context's device.
 *  @param[in] context the context.
 *  @param[in] op the operation's name.
 *  @param[in] dtypes [count] dtypes of its required operands, in argument order.
 *  @param[in] count their number.
 *  @return SLUICE_OK, or why not. */
SLUICE_API sluice_status sluice_op_supports(const sluice_context *context, const char *op,
                                            const sluice_dtype *dtypes, int32_t count);

#ifdef __cplusplus
}
#endif

#endif
