# SPDX-License-Identifier: BSD-3-Clause
"""The C declarations of morikv.h, as cffi reads them.

The package contains the header itself, so that no declaration exists twice. Parts that cffi
cannot parse (the preprocessor, UCX's own types) are removed here.
"""

from __future__ import annotations

import re
from typing import Any

#: Types of UCX that the header names, with their size in the ABI.
_UCX_TYPES = """
typedef unsigned int ucs_memory_type_t;
typedef struct ucp_context *ucp_context_h;
typedef struct ucp_worker *ucp_worker_h;
"""


def from_header(text: str) -> str:
    """Declarations that cffi takes, from the text of morikv.h."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r'#ifdef __cplusplus\nextern "C" \{\n#endif\n', "", text)
    text = re.sub(r"#ifdef __cplusplus\n\}\n#endif\n", "", text)
    # a constant that is a plain number stays, every other directive goes
    keep = re.compile(r"#define MKV_\w+ \d+$")
    lines = text.replace("\\\n", " ").split("\n")
    lines = [line for line in lines if not line.startswith("#") or keep.match(line)]
    return _UCX_TYPES + "\n".join(lines)


def parse(header: str) -> Any:
    """cffi's FFI of the text of morikv.h. This takes half a second: a build writes the result
    to a module, ``_cdef`` (setup.py), which is imported instead."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(from_header(header))
    ffi.cdef("int mkv_bind_ucx(const char *file, char *version, char *error, size_t size);")
    return ffi
