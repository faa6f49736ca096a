# SPDX-License-Identifier: BSD-3-Clause
"""Lifetime of the library's objects under Python's garbage collector.

Objects may die in any order and in any thread, also inside a callback that runs with a
context's lock held. Destructors therefore do not call the library: they queue the object, and the
next call on its context frees it. An object still in use then (a transfer that is not quiet, a
plan that is being posted) is kept, with all objects it needs, and retried.

A thread may close an object that others use. Calls that use an object are counted by the
deque's append and pop, which are atomic. Closing removes the pointer first and then waits for
calls that still use it. Two threads may close the same object.

Results of the library have pointers to objects, and to memory that an object's end or the next
poll frees. One lock of a context is held while they are read, and while an object is freed.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, Callable, Generic, TypeVar

from ._home import Home
from ._library import lib
from .errors import BusyError, InvalidError, check


#: Time between checks of calls that a close waits for, in seconds.
_PAUSE_S = 0.0001
#: Waits for another thread, which hold no lock of this package while they sleep.
_WAITS = (threading.Event.wait.__code__, threading.Condition.wait_for.__code__)

_Thing = TypeVar("_Thing")


def _wait(calls: deque[None]) -> None:
    while calls:
        time.sleep(_PAUSE_S)


def is_interrupting(except_waits: bool = False) -> bool:
    """Whether the caller interrupts this package in the same thread, as a destructor does that
    the collector runs: there locks may be held, and calls in progress.

    :param except_waits: a wait for another thread is no such call. A signal ends its sleep, so
        the handler runs there; the collector runs where the wait still holds a lock.
    """
    is_outside, called = False, None
    for frame, _line in traceback.walk_stack(sys._getframe(1)):
        is_inside = frame.f_globals.get("__name__", "").startswith(f"{__package__}.")
        if is_inside and is_outside:
            return not (except_waits and called in _WAITS)
        is_outside, called = is_outside or not is_inside, frame.f_code
    return False


class Living(Generic[_Thing]):
    """Objects, as long as others refer to them. Any thread may add one while another iterates
    over a copy, as a WeakSet allows since Python 3.14 only."""

    def __init__(self) -> None:
        self._refs: set[weakref.ref[_Thing]] = set()

    def add(self, thing: _Thing) -> None:
        self._refs.add(weakref.ref(thing, self._refs.discard))

    def __iter__(self) -> Iterator[_Thing]:
        return (thing for ref in self._refs.copy() if (thing := ref()) is not None)


class Owner:
    """State shared by a context's handles: whether it is open, and objects that wait to be
    freed."""

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer
        self.is_open = True
        self.home = Home("context")
        self.calls: deque[None] = deque()  # one entry for each call in progress
        #: Taken inside of calls, which a forked child does not reach.
        self.pointers = threading.Lock()
        self._open: deque[None] = deque([None])  # the thread that takes it closes the context
        self.live: Living[Handle] = Living()
        self.dead: deque[tuple[Any, Callable[[Any], int], tuple[Any, ...]]] = deque()

    def ctx(self) -> Any:
        """The context's pointer. :raises InvalidError: it is closed, or of a parent process."""
        self.home.check()
        if not self.is_open:
            raise InvalidError(lib.MKV_ERR_INVALID, "the context is closed")
        return self.pointer

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call with the context's pointer, which is not freed meanwhile.

        :raises InvalidError: it is closed.
        """
        self.calls.append(None)
        try:
            return function(self.ctx(), *arguments)
        finally:
            self.calls.pop()

    def close(self) -> bool:
        """Refuse calls from now on and wait for calls in progress.

        :return: whether it was open, so that this caller must close it.
        """
        self.free_all()
        try:
            self._open.pop()
        except IndexError:
            return False
        self.is_open = False
        _wait(self.calls)
        return True

    def free_dead(self) -> None:
        """Free queued objects that are not in use."""
        if not self.home.is_here:
            return
        self.calls.append(None)
        try:
            self._free_dead()
        finally:
            self.calls.pop()

    def _free_dead(self) -> None:
        for _ in range(len(self.dead)):
            try:
                entry = self.dead.popleft()
            except IndexError:  # another thread was quicker
                return
            with self.pointers:
                if self.is_open and entry[1](entry[0]) == lib.MKV_ERR_BUSY:
                    self.dead.append(entry)

    def free_all(self) -> None:
        """Free also objects that are still referenced, except transfers that are not quiet
        and the objects that these use."""
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
        self._pointers = deque([pointer])  # the thread that takes it frees it
        self.calls: deque[None] = deque()
        self._destroy = destroy
        self._needs = needs
        owner.live.add(self)

    def need(self, *objects: Any) -> None:
        """Keep these until the object is freed."""
        self._needs += objects

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call with the pointer, which is not freed meanwhile.

        :raises InvalidError: it, or its context, is closed.
        """
        self.owner.calls.append(None)
        self.calls.append(None)
        try:
            self.owner.ctx()
            try:
                pointer = self._pointers[0]
            except IndexError:
                raise InvalidError(lib.MKV_ERR_INVALID, "the object is closed") from None
            return function(pointer, *arguments)
        finally:
            self.calls.pop()
            self.owner.calls.pop()

    @property
    def is_closed(self) -> bool:
        return not self._pointers or not self.owner.is_open

    def close(self, destroy: Callable[[Any], int] | None = None) -> Any:
        """Free it now; harmless if it is closed.

        :param destroy: the call that frees it; default: the one of the object's kind.
        :return: the pointer that was freed, or None.
        :raises BusyError: it is in use.
        """
        self.owner.calls.append(None)
        try:
            if self.is_closed:
                return None
            try:
                pointer = self._pointers.pop()
            except IndexError:  # another thread was quicker
                return None
            if not self.owner.home.is_here:
                return None  # the object and the calls in progress are the parent's
            _wait(self.calls)
            with self.owner.pointers:
                status = (destroy or self._destroy)(pointer)
            if status != lib.MKV_OK:
                self._pointers.append(pointer)
            check(status)
        finally:
            self.owner.calls.pop()
        self._needs = ()
        return pointer

    def __del__(self) -> None:
        if not self.is_closed:
            self.owner.dead.append((self._pointers[0], self._destroy, self._needs))
