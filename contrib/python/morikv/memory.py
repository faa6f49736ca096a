# SPDX-License-Identifier: BSD-3-Clause
"""Location of memory made by other libraries: buffers, NumPy arrays, tensors.

No framework is imported. The location of a tensor comes from ``data_ptr()`` (PyTorch) or
``__dlpack__`` (everything else on a GPU), or the object is a buffer on the host.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any

from ._library import ffi

_libc = ctypes.CDLL(None)

#: Kinds of memory, as UCX counts them.
HOST = 0
CUDA = 1
CUDA_MANAGED = 2
ROCM = 3
ROCM_MANAGED = 4

#: DLPack's device types (dlpack.h) that have a kind of memory in UCX.
_OF_DLPACK = {1: HOST, 2: CUDA, 3: HOST, 10: ROCM, 11: HOST, 13: CUDA_MANAGED}


@dataclass(frozen=True)
class Memory:
    """A contiguous range of bytes and the object that keeps it alive."""

    address: int
    length: int
    """Bytes."""
    mem_type: int = HOST
    owner: Any = None

    def __post_init__(self) -> None:
        if self.address <= 0 or self.length <= 0:
            raise ValueError(
                f"memory at {self.address:#x} of {self.length} bytes; expected an "
                "address and a length above 0"
            )


class _DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def _of_torch(tensor: Any) -> Memory:
    if not tensor.is_contiguous():
        raise ValueError("the tensor is not contiguous; expected one block of memory")
    kind = tensor.device.type
    if kind == "cpu":
        mem_type = HOST
    elif kind == "cuda":
        # PyTorch's name for both vendors; its ROCm build has a HIP version
        import sys

        hip = getattr(sys.modules["torch"].version, "hip", None)
        mem_type = ROCM if hip else CUDA
    else:
        raise ValueError(f"the tensor is on '{kind}'; expected cpu or cuda")
    length = tensor.numel() * tensor.element_size()
    return Memory(tensor.data_ptr(), length, mem_type, tensor)


def _contiguous_elements(tensor: _DLTensor) -> int:
    count = 1
    for i in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[i] > 1 and tensor.strides[i] != count:
            raise ValueError("the tensor is not contiguous; expected one block of memory")
        count *= tensor.shape[i]
    return count


def _of_dlpack(array: Any) -> Memory:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = array.__dlpack__()
    # not renamed to used_dltensor: the capsule's destructor gives the tensor back
    tensor = _DLTensor.from_address(get(capsule, b"dltensor"))
    mem_type = _OF_DLPACK.get(tensor.device.device_type)
    if mem_type is None:
        raise ValueError(
            f"DLPack device type {tensor.device.device_type} is not known; expected a "
            f"CPU, CUDA or ROCm device ({sorted(_OF_DLPACK)})"
        )
    bits = _contiguous_elements(tensor) * tensor.dtype.bits * tensor.dtype.lanes
    address = (tensor.data or 0) + tensor.byte_offset
    return Memory(address, (bits + 7) // 8, mem_type, (array, capsule))


#: Number of get_mempolicy(2) by the machine's name.
_GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236}
_MPOL_F_NODE_OF_ADDRESS = 3


def numa_node(address: int) -> int:
    """Node of the page of host memory at an address; -1: the kernel does not report it."""
    number = _GET_MEMPOLICY.get(os.uname().machine)
    node = ctypes.c_int(-1)
    if number is None or _libc.syscall(
        ctypes.c_long(number),
        ctypes.byref(node),
        None,
        ctypes.c_ulong(0),
        ctypes.c_void_p(address),
        ctypes.c_ulong(_MPOL_F_NODE_OF_ADDRESS),
    ):
        return -1
    return node.value


def device_of(source: Any) -> int:
    """Index of the GPU that a tensor or a DLPack array is on; -1: it is in host memory."""
    if not hasattr(source, "__dlpack_device__"):
        index = getattr(getattr(source, "device", None), "index", None)
        return index if isinstance(index, int) else -1
    kind, index = source.__dlpack_device__()
    return -1 if _OF_DLPACK.get(int(kind)) == HOST else int(index)


def of(source: Any) -> Memory:
    """Location of ``source``: a :class:`Memory`, a tensor, a DLPack array or a buffer.

    :raises ValueError: it is not contiguous, not writable, or an array of Python objects.
    :raises TypeError: it is of another type.
    """
    if isinstance(source, Memory):
        return source
    if callable(getattr(source, "data_ptr", None)):
        return _of_torch(source)
    try:
        view = memoryview(source)
    except TypeError:
        if hasattr(source, "__dlpack__"):
            return _of_dlpack(source)
        raise TypeError(
            f"'{type(source).__name__}' is no memory; expected a buffer, a tensor, an "
            "array with __dlpack__, or morikv.Memory(address, length, mem_type)"
        ) from None
    if "O" in view.format:
        raise ValueError("a buffer of Python objects; expected one of numbers or bytes")
    if view.readonly or not view.c_contiguous:
        raise ValueError("the buffer is read-only or not contiguous; expected neither")
    buffer = ffi.from_buffer(view, require_writable=True)
    return Memory(int(ffi.cast("uintptr_t", buffer)), view.nbytes, HOST, (view, buffer))
