# SPDX-License-Identifier: BSD-3-Clause
"""Lifetime of the library's objects under Python's garbage collector.

Objects may die in any order and in any thread, also inside a callback that runs with a
context's lock held. So nothing calls the library when an object dies: it is put aside,
and the next call on its context frees it. What is still in use then (a transfer that is
not quiet, a plan that is being posted) is kept, with all it needs, and tried again.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any, Callable

from ._library import lib
from .errors import BusyError, InvalidError, check


class Owner:
    """What a context's handles share: whether it is open, and who waits to be freed."""

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer
        self.is_open = True
        self.live: weakref.WeakSet[Handle] = weakref.WeakSet()
        self.dead: deque[tuple[Any, Callable[[Any], int], tuple[Any, ...]]] = deque()

    def ctx(self) -> Any:
        """The context's pointer. :raises InvalidError: it is closed."""
        if not self.is_open:
            raise InvalidError(lib.MKV_ERR_INVALID, "the context is closed")
        return self.pointer

    def free_dead(self) -> None:
        """Free what has died, as far as it is not in use."""
        for _ in range(len(self.dead)):
            try:
                entry = self.dead.popleft()
            except IndexError:  # another thread was quicker
                return
            if self.is_open and entry[1](entry[0]) == lib.MKV_ERR_BUSY:
                self.dead.append(entry)

    def free_all(self) -> None:
        """Free also what somebody still holds, but for transfers that are not quiet and
        what these use."""
        before = -1
        while before != len(self.dead) + sum(not handle.is_closed for handle in self.live):
            before = len(self.dead) + sum(not handle.is_closed for handle in self.live)
            self.free_dead()
            for handle in list(self.live):
                try:
                    handle.close()
                except BusyError:
                    pass


class Handle:
    """A pointer of the library, the call that frees it, and what must outlive it."""

    def __init__(
        self, owner: Owner, pointer: Any, destroy: Callable[[Any], int], *needs: Any
    ) -> None:
        self.owner = owner
        self._pointer = pointer
        self._destroy = destroy
        self._needs = needs
        owner.live.add(self)

    def need(self, *objects: Any) -> None:
        """Keep these until the object is freed."""
        self._needs += objects

    def get(self) -> Any:
        """:raises InvalidError: it, or its context, is closed."""
        self.owner.ctx()
        if self._pointer is None:
            raise InvalidError(lib.MKV_ERR_INVALID, "the object is closed")
        return self._pointer

    @property
    def is_closed(self) -> bool:
        return self._pointer is None or not self.owner.is_open

    def close(self) -> None:
        """Free it now; harmless if it is closed. :raises BusyError: it is in use."""
        if self.is_closed:
            return
        check(self._destroy(self._pointer))
        self._pointer, self._needs = None, ()

    def forget(self) -> None:
        """The library has freed it."""
        self._pointer, self._needs = None, ()

    def __del__(self) -> None:
        if not self.is_closed:
            self.owner.dead.append((self._pointer, self._destroy, self._needs))
