# SPDX-License-Identifier: BSD-3-Clause
"""Load copies of UCX as Python loads extensions, and list the components of each.

    components.py FOLDER...     folders with a libuct each

Prints a line "FOLDER: COMPONENT..." for each, then "mapped: FILE" for each file of UCX in
the process. UCX is loaded RTLD_LOCAL.
"""

import ctypes
import glob
import os
import sys

NAME_MAX = 16


class Attr(ctypes.Structure):
    """uct_component_attr_t"""

    _fields_ = [
        ("field_mask", ctypes.c_uint64),
        ("name", ctypes.c_char * NAME_MAX),
        ("md_resource_count", ctypes.c_uint),
        ("md_resources", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("spare", ctypes.c_uint64 * 8),
    ]


def load(folder, name):
    """The library of that name, which a wheel may have renamed."""
    files = glob.glob(os.path.join(folder, f"lib{name}[.-]*so.0*"))
    return ctypes.CDLL(min(files, key=len), ctypes.RTLD_LOCAL)


def components(folder):
    load(folder, "ucp")
    uct = load(folder, "uct")
    count = ctypes.c_uint()
    array = ctypes.POINTER(ctypes.c_void_p)()
    if uct.uct_query_components(ctypes.byref(array), ctypes.byref(count)):
        sys.exit(f"{folder}: uct_query_components failed")
    names = []
    for i in range(count.value):
        attr = Attr(field_mask=1)
        if uct.uct_component_query(ctypes.c_void_p(array[i]), ctypes.byref(attr)):
            sys.exit(f"{folder}: uct_component_query failed")
        names.append(attr.name.decode())
    return names


def main():
    for folder in sys.argv[1:]:
        print(f"{folder}: {' '.join(sorted(components(folder)))}", flush=True)
    with open("/proc/self/maps", encoding="ascii") as maps:
        files = {line.split()[-1] for line in maps if "/" in line}
    for file in sorted(files):
        if os.path.basename(file).startswith(("libuc", "mori-core", "memfd:mori")):
            print(f"mapped: {file}")
    sys.stdout.flush()
    os._exit(0)  # pip's NIXL brings a libnl whose exit handler crashes


main()
