# SPDX-License-Identifier: BSD-3-Clause
"""What engines import of mori.cpp, over libmorikv."""

from morikv.mori_io import *  # noqa: F403
