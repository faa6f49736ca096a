# SPDX-License-Identifier: BSD-3-Clause
"""mori.io over libmorikv."""

from morikv.mori_io import *  # noqa: F403
