# SPDX-License-Identifier: BSD-3-Clause
"""libmorikv, found and loaded once: ``ffi`` and ``lib`` for the rest of the package."""

from __future__ import annotations

import os
from importlib import resources
from typing import Any

import cffi

from . import _declarations

_NAME = "libmorikv.so.0"


def _header() -> str:
    return resources.files(__package__).joinpath("morikv.h").read_text(encoding="utf-8")


def _load(ffi: cffi.FFI) -> Any:
    """LIBMORIKV names the file; without it the system's linker finds the library,
    or the package's own folder has it."""
    beside = os.path.join(os.path.dirname(__file__), _NAME)
    named = os.environ.get("LIBMORIKV")
    candidates = [named] if named else [_NAME, beside]
    errors = []
    for candidate in candidates:
        try:
            return ffi.dlopen(candidate)
        except OSError as error:
            errors.append(str(error))
    raise ImportError(
        f"libmorikv cannot be loaded ({'; '.join(errors)}); expected {_NAME} where the "
        "linker looks (ldconfig, LD_LIBRARY_PATH), or its path in LIBMORIKV"
    )


ffi = cffi.FFI()
ffi.cdef(_declarations.from_header(_header()))
lib: Any = _load(ffi)

#: MKV_LEG_ALL
LEG_ALL = 0xFFFFFFFF


def text(value: Any) -> str:
    """A C string or array as text."""
    return ffi.string(value).decode("utf-8", "replace") if value != ffi.NULL else ""
