# SPDX-License-Identifier: BSD-3-Clause
"""libmorikv, found and loaded once: ``ffi`` and ``lib`` for the rest of the package."""

from __future__ import annotations

import os
from importlib import resources
from typing import Any

import cffi

from . import _declarations, _ucx

_NAME = "libmorikv.so.0"


def _header() -> str:
    return resources.files(__package__).joinpath("morikv.h").read_text(encoding="utf-8")


ffi = cffi.FFI()


def text(value: Any) -> str:
    """A C string or array as text."""
    return ffi.string(value).decode("utf-8", "replace") if value != ffi.NULL else ""


def _load() -> tuple[str, Any]:
    """LIBMORIKV names the file. Without it a wheel's own library is taken, or the one
    that the system's linker finds."""
    wheel = os.path.join(os.path.dirname(__file__), "lib", "libmorikv-any.so")
    named = os.environ.get("LIBMORIKV")
    if named:
        candidate = named
    else:
        candidate = wheel if os.path.exists(wheel) else _NAME
    try:
        return candidate, ffi.dlopen(candidate)
    except OSError as error:
        raise ImportError(
            f"libmorikv cannot be loaded ({error}); expected {_NAME} where the linker "
            "looks (ldconfig, LD_LIBRARY_PATH), or its path in LIBMORIKV"
        ) from None


def _bind(lib: Any) -> str | None:
    """Give a wheel's library its UCX. Any other was linked with one."""
    try:
        bind = lib.mkv_bind_ucx
    except AttributeError:
        return None
    version = ffi.new("char[32]")
    error = ffi.new("char[1024]")
    errors = []
    for file in _ucx.candidates():
        if bind(file.encode(), version, error, len(error)) == 0:
            return f"{text(version)} {file}"
        errors.append(text(error))
    raise ImportError(
        f"no UCX that libmorikv can use ({'; '.join(errors)}); expected one in "
        "a wheel (libucx-cu12, nixl), where the linker looks, or its libucp in LIBMORIKV_UCX"
    )


ffi.cdef(_declarations.from_header(_header()))
ffi.cdef("int mkv_bind_ucx(const char *file, char *version, char *error, size_t size);")
#: The library's file, and the version and file of its UCX where it was bound here.
file, lib = _load()
ucx = _bind(lib)

#: MKV_LEG_ALL
LEG_ALL = 0xFFFFFFFF
