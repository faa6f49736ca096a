# SPDX-License-Identifier: BSD-3-Clause
"""Choice of the UCX of this process: that of its other libraries if there is one."""

from __future__ import annotations

import glob
import importlib.util
import os
from collections.abc import Iterator

#: Packages whose wheels bring a UCX, under names of their own but for the last.
_WHEELS = ("nixl_rocm", "nixl_cu13", "nixl_cu12", "libucx")


def _loaded() -> Iterator[str]:
    """Files of libucp that this process has mapped."""
    seen = set()
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].rstrip("\n")
            name = os.path.basename(path)
            if path.startswith("/") and name.startswith("libucp") and ".so" in name:
                if path not in seen:
                    seen.add(path)
                    yield path


def of_wheels() -> Iterator[str]:
    """Files of libucp in wheels that this interpreter can import."""
    for package in _WHEELS:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            continue
        folder = os.path.dirname(os.path.realpath(spec.origin))
        yield from glob.glob(folder + ".libs/libucp*.so*")
        yield from glob.glob(folder + "/lib/libucp.so.0")


def candidates() -> Iterator[str]:
    """LIBMORIKV_UCX alone, where it is set. Otherwise what is loaded already, because two
    UCX in a process cost twice the memory; wheels; and what the linker finds."""
    named = os.environ.get("LIBMORIKV_UCX")
    if named:
        yield named
        return
    yield from _loaded()
    yield from of_wheels()
    yield "libucp.so.0"
