# SPDX-License-Identifier: BSD-3-Clause
"""A thread that takes a context's events, for programs that have no loop of their own."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable

from ._home import Lock
from .context import Context

logger = logging.getLogger("morikv")


class Listener:
    """A thread that calls a function whenever the context has work, and sleeps in between.

    :param each_round: polls the context, acts on its events and arms it. It returns the time
        until work is due, in milliseconds; 0: call it again, None: wait for an event.
        An exception is logged, and the thread continues.
    """

    def __init__(
        self, context: Context, each_round: Callable[[], float | None], name: str
    ) -> None:
        self._context = context
        self._each_round = each_round
        self._fd = os.eventfd(0, os.EFD_CLOEXEC)
        self._home = context._owner.home
        self._lock = Lock(self._home)  # of the next two, and of the descriptor's life
        self._is_closing = False
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread, once, when the function's objects exist."""
        self._thread.start()

    def wake(self) -> None:
        """Run the listener's round for work without an event. May be called from any
        thread."""
        with self._lock:
            if not self._has_ended:
                os.eventfd_write(self._fd, 1)

    def join(self) -> None:
        """Wait for the end of the thread."""
        self._thread.join()

    def close(self, then: Callable[[], None]) -> bool:
        """End the thread and wait for it, unless this is it. Nothing else after that.

        :param then: is called after that, also when an interrupt ends the wait.
        :return: whether this call did; False: an earlier one has, or this is a forked child,
            which has no such thread, and locks that stay held.
        """
        if not self._home.is_here:
            return False
        with self._lock:
            if self._is_closing:
                return False
            self._is_closing = True
        try:
            self.wake()
            if threading.current_thread() is not self._thread:
                self.join()
        finally:
            then()
        return True

    def _sleep(self, poller: select.poll, timeout_ms: float | None) -> None:
        for fd, _events in poller.poll(timeout_ms):
            if fd == self._fd:
                os.eventfd_read(fd)

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self._context.fileno(), select.POLLIN)
        poller.register(self._fd, select.POLLIN)
        while not self._is_closing:
            try:
                timeout_ms = self._each_round()
                if timeout_ms != 0:
                    self._sleep(poller, timeout_ms)
            except Exception:  # the thread must not end before its owner
                if self._context.is_open:
                    logger.exception("an event could not be handled")
                else:  # by the application: only wake() has work
                    poller = select.poll()
                    poller.register(self._fd, select.POLLIN)
                    self._sleep(poller, None)
        with self._lock:
            self._has_ended = True
            os.close(self._fd)
