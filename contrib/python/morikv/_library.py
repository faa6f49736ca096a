# SPDX-License-Identifier: BSD-3-Clause
"""libmorikv, found and loaded once: ``ffi`` and ``lib`` for the rest of the package."""

from __future__ import annotations

import importlib
import os
import sys
from importlib import resources
from typing import Any

from . import _declarations, _ucx

_NAME = "libmorikv.so.0"


def _header() -> str:
    return resources.files(__package__).joinpath("morikv.h").read_text(encoding="utf-8")


def _ffi() -> Any:
    try:
        return importlib.import_module("._cdef", __package__).ffi  # a build makes it
    except ImportError:
        return _declarations.parse(_header())


ffi = _ffi()


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
    """Bind a wheel's library to a UCX. Other libraries were linked with one."""
    try:
        bind = lib.mkv_bind_ucx
    except (AttributeError, getattr(ffi, "error", AttributeError)):  # parsed here, or by a build
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




def _is_command() -> bool:
    """Whether ``python -m morikv`` is importing the package before __main__."""
    arguments = sys.orig_argv
    return sys.argv[:1] == ["-m"] and ("-m", __package__) in zip(arguments, arguments[1:])


try:
    #: The library's file, and the version and file of its UCX where it was bound here.
    file, lib = _load()
    ucx = _bind(lib)
except ImportError as error:
    if not _is_command():
        raise
    sys.exit(f"python -m {__package__}: {error}")

#: MKV_LEG_ALL
LEG_ALL = 0xFFFFFFFF
