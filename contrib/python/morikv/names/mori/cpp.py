# SPDX-License-Identifier: BSD-3-Clause
"""Names of mori.cpp that engines import, over libmorikv."""

from morikv.mori_io import *  # noqa: F403
from morikv.mori_io import BackendType, MemoryLocationType, StatusCode

# pybind11 exports the values of these enumerations beside them
for _enumeration in (BackendType, MemoryLocationType, StatusCode):
    globals().update(_enumeration.__members__)
