"""The C ABI as ctypes sees it. Made by bindings/abi.py from include/sluice: do not edit."""

from ctypes import (
    CFUNCTYPE,
    Structure,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)

from ._op import Op, Operand

SLUICE_VERSION = 100
SLUICE_OK = 0
SLUICE_INVALID_ARGUMENT = 1000
SLUICE_INVALID_SHAPE = 1001
SLUICE_INVALID_DEVICE = 1002
SLUICE_WORKSPACE_TOO_SMALL = 1003
SLUICE_UNSUPPORTED = 2000
SLUICE_UNSUPPORTED_DTYPE = 2001
SLUICE_OUT_OF_MEMORY = 3000
SLUICE_CUDA_FAILED = 4000
SLUICE_CALLBACK_FAILED = 4003
SLUICE_NO_DEVICE = 5000
SLUICE_INTERNAL = 9000
SLUICE_STATUS_FORCE32 = 2147483647
SLUICE_EMPTY_ROW_NAN = 0
SLUICE_EMPTY_ROW_ZERO = 1
SLUICE_EMPTY_ROW_UNIFORM = 2
SLUICE_EMPTY_ROW_FORCE32 = 2147483647
SLUICE_DIAGONAL_TOP_LEFT = 0
SLUICE_DIAGONAL_BOTTOM_RIGHT = 1
SLUICE_DIAGONAL_FORCE32 = 2147483647
SLUICE_ACCURACY_DEFAULT = 0
SLUICE_ACCURACY_HIGH = 1
SLUICE_ACCURACY_FORCE32 = 2147483647

HooksAlloc = CFUNCTYPE(
    c_void_p,
    c_void_p,  # self
    c_size_t,  # bytes
    c_void_p,  # stream
)

HooksRelease = CFUNCTYPE(
    None,
    c_void_p,  # self
    c_void_p,  # memory
    c_size_t,  # bytes
    c_void_p,  # stream
)

HooksLog = CFUNCTYPE(
    None,
    c_void_p,  # self
    c_int32,  # level
    c_char_p,  # line
)

HooksParallelForBody = CFUNCTYPE(
    None,
    c_void_p,  # arg
    c_int64,  # i
)

HooksParallelFor = CFUNCTYPE(
    None,
    c_void_p,  # self
    c_int64,  # n
    c_void_p,  # body
    c_void_p,  # arg
)


class Device(Structure):
    _fields_ = (
        ("type", c_int32),
        ("id", c_int32),
    )


class Dtype(Structure):
    _fields_ = (
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
    )


class Tensor(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device", Device),
        ("ndim", c_int32),
        ("dtype", Dtype),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", c_uint64),
    )


class Hooks(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("self", c_void_p),
        ("alloc", HooksAlloc),
        ("release", HooksRelease),
        ("log", HooksLog),
        ("parallel_for", HooksParallelFor),
    )


class ContextDesc(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("debug_sync", c_int32),
        ("threads", c_int32),
        ("hooks", c_void_p),
    )


class SoftmaxDesc(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("scale", c_double),
        ("softcap", c_double),
        ("log", c_int32),
        ("accuracy", c_int32),
        ("empty_row", c_int32),
        ("causal", c_int32),
        ("diagonal", c_int32),
        ("reserved0", c_int32),
        ("diagonal_offset", c_int64),
        ("window", c_int64),
        ("mask", c_void_p),
        ("keep", c_void_p),
        ("lengths", c_void_p),
        ("slopes", c_void_p),
        ("sink", c_void_p),
        ("temperature", c_void_p),
        ("lse", c_void_p),
        ("max", c_void_p),
    )


class SoftmaxBackwardDesc(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("scale", c_double),
        ("softcap", c_double),
        ("log", c_int32),
        ("empty_row", c_int32),
        ("causal", c_int32),
        ("diagonal", c_int32),
        ("diagonal_offset", c_int64),
        ("window", c_int64),
        ("mask", c_void_p),
        ("keep", c_void_p),
        ("lengths", c_void_p),
        ("slopes", c_void_p),
        ("sink", c_void_p),
        ("temperature", c_void_p),
        ("x", c_void_p),
        ("y", c_void_p),
        ("lse", c_void_p),
        ("d_lse", c_void_p),
        ("d_mask", c_void_p),
        ("d_slopes", c_void_p),
        ("d_sink", c_void_p),
        ("d_temperature", c_void_p),
    )


# Size, then the offset of each field, as the C compiler lays them out.
LAYOUTS = {
    Device: (
        8,
        0,
        4,
    ),
    Dtype: (
        4,
        0,
        1,
        2,
    ),
    Tensor: (
        48,
        0,
        8,
        16,
        20,
        24,
        32,
        40,
    ),
    Hooks: (
        48,
        0,
        8,
        16,
        24,
        32,
        40,
    ),
    ContextDesc: (
        32,
        0,
        8,
        12,
        16,
        20,
        24,
    ),
    SoftmaxDesc: (
        128,
        0,
        8,
        16,
        24,
        28,
        32,
        36,
        40,
        44,
        48,
        56,
        64,
        72,
        80,
        88,
        96,
        104,
        112,
        120,
    ),
    SoftmaxBackwardDesc: (
        168,
        0,
        8,
        16,
        24,
        28,
        32,
        36,
        40,
        48,
        56,
        64,
        72,
        80,
        88,
        96,
        104,
        112,
        120,
        128,
        136,
        144,
        152,
        160,
    ),
}

# Result, then arguments.
FUNCTIONS = {
    "sluice_version": (c_uint32,),
    "sluice_build_info": (c_char_p,),
    "sluice_status_name": (
        c_char_p,
        c_int32,  # status
    ),
    "sluice_last_error": (c_char_p,),
    "sluice_context_create": (
        c_int32,
        c_void_p,  # desc
        c_void_p,  # out
    ),
    "sluice_context_warm": (
        c_int32,
        c_void_p,  # context
        c_char_p,  # op
    ),
    "sluice_context_destroy": (
        None,
        c_void_p,  # context
    ),
    "sluice_op_count": (c_int32,),
    "sluice_op_name": (
        c_char_p,
        c_int32,  # index
    ),
    "sluice_op_supports": (
        c_int32,
        c_void_p,  # context
        c_char_p,  # op
        c_void_p,  # dtypes
        c_int32,  # count
    ),
    "sluice_softmax_workspace": (
        c_int32,
        c_void_p,  # context
        c_void_p,  # desc
        c_void_p,  # x
        c_void_p,  # y
        c_void_p,  # bytes
    ),
    "sluice_softmax": (
        c_int32,
        c_void_p,  # context
        c_void_p,  # desc
        c_void_p,  # x
        c_void_p,  # y
        c_void_p,  # workspace
        c_size_t,  # workspace_bytes
        c_void_p,  # stream
    ),
    "sluice_softmax_backward_workspace": (
        c_int32,
        c_void_p,  # context
        c_void_p,  # desc
        c_void_p,  # dy
        c_void_p,  # dx
        c_void_p,  # bytes
    ),
    "sluice_softmax_backward": (
        c_int32,
        c_void_p,  # context
        c_void_p,  # desc
        c_void_p,  # dy
        c_void_p,  # dx
        c_void_p,  # workspace
        c_size_t,  # workspace_bytes
        c_void_p,  # stream
    ),
}

OPS = {
    "softmax": Op(
        name="softmax",
        function="sluice_softmax",
        query="sluice_softmax_workspace",
        handle="sluice_context",
        desc=SoftmaxDesc,
        operands=(
            Operand("x", "in", False),
            Operand("y", "out", True),
        ),
        tensors=(
            Operand("mask", "in", True),
            Operand("keep", "in", True),
            Operand("lengths", "in", True),
            Operand("slopes", "in", True),
            Operand("sink", "in", True),
            Operand("temperature", "in", True),
            Operand("lse", "out", True),
            Operand("max", "out", True),
        ),
        options={
            "scale": None,
            "softcap": None,
            "log": None,
            "accuracy": {"default": 0, "high": 1},
            "empty_row": {"nan": 0, "zero": 1, "uniform": 2},
            "causal": None,
            "diagonal": {"top_left": 0, "bottom_right": 1},
            "diagonal_offset": None,
            "window": None,
        },
        workspace=True,
        stream=True,
    ),
    "softmax_backward": Op(
        name="softmax_backward",
        function="sluice_softmax_backward",
        query="sluice_softmax_backward_workspace",
        handle="sluice_context",
        desc=SoftmaxBackwardDesc,
        operands=(
            Operand("dy", "in", True),
            Operand("dx", "out", True),
        ),
        tensors=(
            Operand("mask", "in", True),
            Operand("keep", "in", True),
            Operand("lengths", "in", True),
            Operand("slopes", "in", True),
            Operand("sink", "in", True),
            Operand("temperature", "in", True),
            Operand("x", "in", True),
            Operand("y", "in", True),
            Operand("lse", "in", True),
            Operand("d_lse", "in", True),
            Operand("d_mask", "out", True),
            Operand("d_slopes", "out", True),
            Operand("d_sink", "out", True),
            Operand("d_temperature", "out", True),
        ),
        options={
            "scale": None,
            "softcap": None,
            "log": None,
            "empty_row": {"nan": 0, "zero": 1, "uniform": 2},
            "causal": None,
            "diagonal": {"top_left": 0, "bottom_right": 1},
            "diagonal_offset": None,
            "window": None,
        },
        workspace=True,
        stream=True,
    ),
}
