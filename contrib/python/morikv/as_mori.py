# SPDX-License-Identifier: BSD-3-Clause
"""``import morikv.as_mori`` makes a later import of ``mori.io`` return morikv's.

For programs that cannot be changed: ``python -m morikv names`` prints a folder for
PYTHONPATH.
"""

from __future__ import annotations

import os
import sys

#: The folder of the package ``mori``.
NAMES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "names")


def _install() -> None:
    there = sys.modules.get("mori")
    if there is not None and not str(there.__file__).startswith(NAMES):
        raise ImportError(f"mori is imported already, from {there.__file__}")
    if NAMES not in sys.path:
        sys.path.insert(0, NAMES)


_install()
