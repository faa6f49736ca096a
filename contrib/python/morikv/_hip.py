# SPDX-License-Identifier: BSD-3-Clause
"""The HIP runtime that this process has loaded, if any. This module never loads it."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from .memory import ROCM, Memory

_found: Any = None


def _mapped() -> str | None:
    """The file of a HIP runtime in this process."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].rstrip("\n")
            if os.path.basename(path).startswith("libamdhip64.so"):
                return path
    return None


def _loaded() -> Any:
    """The runtime, which stays once it is loaded; None: there is none yet."""
    global _found
    if _found is None:
        path = os.environ.get("UCX_MORI_HIP_LIB") or _mapped()
        try:
            _found = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW) if path else None
        except OSError:  # it is not loaded
            pass
    return _found


def allocation(address: int) -> Memory | None:
    """The allocation that holds an address of a GPU's memory; None: unknown."""
    hip = _loaded()
    if hip is None:
        return None
    base, size = ctypes.c_void_p(), ctypes.c_size_t()
    status = hip.hipMemGetAddressRange(
        ctypes.byref(base), ctypes.byref(size), ctypes.c_void_p(address)
    )
    return Memory(base.value, size.value, ROCM) if status == 0 and base.value else None


def bus_id(device: int) -> str:
    """PCI address of a GPU by its index, in lower case; empty: unknown."""
    hip, name = _loaded(), ctypes.create_string_buffer(32)
    if hip is None or device < 0 or hip.hipDeviceGetPCIBusId(name, len(name), device) != 0:
        return ""
    return name.value.decode("ascii", "replace").lower()
