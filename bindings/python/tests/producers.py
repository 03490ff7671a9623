"""Arrays that speak one protocol only, over numpy's memory, as libraries that are absent would pass them."""

import ctypes

import numpy as np
from sluice import _abi
from sluice._view import DTYPES, compact

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class Managed(ctypes.Structure):
    _fields_ = (("tensor", _abi.Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _abi.Tensor),
    )


class Producer:
    """Has `__dlpack__` and nothing else. The capsule's structure lives as long as the producer."""

    def __init__(
        self, array, *, device=(1, 0), versioned=True, major=1, flags=0, offset=0, strides=True, dtype=None
    ):
        self.array, self.device, self.versioned, self.calls = array, device, versioned, []
        name = array.dtype.name if dtype is None else dtype
        self.extents = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.steps = (ctypes.c_int64 * array.ndim)(*[s // array.itemsize for s in array.strides])
        tensor = _abi.Tensor(
            ndim=array.ndim, data=array.__array_interface__["data"][0] - offset, byte_offset=offset
        )
        tensor.shape = ctypes.addressof(self.extents)
        assert strides or compact(array.shape) == tuple(self.steps)
        tensor.strides = ctypes.addressof(self.steps) if strides else None
        tensor.device.type, tensor.device.id = device
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = DTYPES.get(name, (9, 8, 1))
        if versioned:
            self.managed = Versioned(major=major, minor=0, flags=flags, tensor=tensor)
        else:
            self.managed = Managed(tensor=tensor)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        self.calls.append(options)
        if not self.versioned and "max_version" in options:
            raise TypeError("unexpected keyword max_version")
        self.name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return _new(ctypes.addressof(self.managed), self.name, None)


class Interface:
    """Has `__array_interface__` and nothing else."""

    def __init__(self, array, **changes):
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **changes}


class CudaInterface:
    """Has `__cuda_array_interface__`, over memory of the CPU: for what is decided without looking at it."""

    def __init__(self, array, **changes):
        self.array = array
        interface = {key: array.__array_interface__[key] for key in ("shape", "typestr", "data")}
        self.__cuda_array_interface__ = {**interface, "strides": None, "version": 3, **changes}


def bf16(array):
    import ml_dtypes

    return np.asarray(array).astype(ml_dtypes.bfloat16)
