# SPDX-License-Identifier: BSD-3-Clause
"""The process that objects belong to. A forked child has copies of them, none of the threads
behind them, and locks that another thread may have held at the fork: these locks stay held.
"""

from __future__ import annotations

import os
import threading

from ._library import lib
from .errors import InvalidError

_num_forks = 0


def _forked() -> None:
    global _num_forks
    _num_forks += 1


os.register_at_fork(after_in_child=_forked)


class Home:
    """The process in which this object was made.

    :param what: the object that a child opens for itself, for the text of the error.
    """

    def __init__(self, what: str) -> None:
        self._what, self._pid, self._forks = what, os.getpid(), _num_forks

    @property
    def is_here(self) -> bool:
        return self._forks == _num_forks

    def check(self) -> None:
        """:raises InvalidError: this process is a fork of it."""
        if self._forks != _num_forks:
            raise InvalidError(
                lib.MKV_ERR_INVALID,
                f"the {self._what} was opened by process {self._pid}, and this is its fork "
                f"{os.getpid()}; open another {self._what} after the fork",
            )


class Lock:
    """A recursive lock. Entering it raises InvalidError in a forked child, where the thread that
    holds it may be missing.
    """

    def __init__(self, home: Home) -> None:
        self.home, self.inner = home, threading.RLock()

    def __enter__(self) -> None:
        self.home.check()
        self.inner.acquire()

    def __exit__(self, *_arguments: object) -> None:
        self.inner.release()
