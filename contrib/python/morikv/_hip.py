# SPDX-License-Identifier: BSD-3-Clause
"""The HIP runtime that this process has loaded, if any. It is never loaded for this."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

from .memory import ROCM, Memory


@cache
def _open(path: str) -> Any:
    return ctypes.CDLL(path)


def _loaded() -> Any:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].rstrip("\n")
            if os.path.basename(path).startswith("libamdhip64.so"):
                return _open(path)
    return None


def allocation(address: int) -> Memory | None:
    """The allocation that holds an address of a GPU's memory; None if nobody knows."""
    hip = _loaded()
    if hip is None:
        return None
    base, size = ctypes.c_void_p(), ctypes.c_size_t()
    status = hip.hipMemGetAddressRange(
        ctypes.byref(base), ctypes.byref(size), ctypes.c_void_p(address)
    )
    return Memory(base.value, size.value, ROCM) if status == 0 and base.value else None
