# SPDX-License-Identifier: BSD-3-Clause
"""A call in a forked child, for tests."""

from __future__ import annotations

import os
import signal
import warnings


def in_child(function):
    """:return: what a forked child writes about the call: its result, or its exception."""
    here, there = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this process has threads
        child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a hang
        try:
            said = str(function())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(there, said.encode())
        os._exit(0)
    os.close(there)
    with os.fdopen(here) as pipe:
        said = pipe.read()
    return said if os.waitpid(child, 0)[1] == 0 else "the child did not end"
