# SPDX-License-Identifier: BSD-3-Clause
"""An engine's context, its peers, and the thread that hears what becomes of transfers.

One lock serialises posting and hearing. The bytes move in libmorikv's own thread; this
one takes events, tells statuses, and posts what could not be posted yet, because the
peer was still connecting, or had not told yet of the memory.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass

from .. import errors
from .._library import lib
from ..context import Context, Peer, Region
from ..listener import Listener
from ..memory import Memory
from ..metrics import Transfers
from ..model import Event, EventType, Mode
from ..operation import Operation
from ..pieces import Numbers
from .config import StatusCode
from .desc import EngineDesc, MemoryDesc
from .status import TransferStatus, code_of

logger = logging.getLogger(__name__)

_ENDS = (EventType.DONE, EventType.FAILED, EventType.ABORTED)
_PEER_ENDS = (EventType.PEER_FAILED, EventType.PEER_CLOSED)
_PEER_NEWS = (EventType.PEER_READY, EventType.PEER_REGIONS)
#: How long to wait before a note is tried again that the peer had no room for, in ms.
_RETRY_MS = 10
#: Notes and failures that nobody has popped; older ones are dropped.
_MAX_KEPT = 65536
#: Longest name of a context or a peer; keys may be longer.
MAX_NAME = 63


@dataclass(frozen=True)
class PeerFailure:
    """A connection that has ended; register the engine again for another one."""

    engine_key: str
    message: str


@dataclass
class Post:
    """A transfer as it was asked for."""

    mode: Mode
    local: Region
    remote: MemoryDesc
    pieces: tuple[Numbers, Numbers, Numbers]
    uid: int
    status: TransferStatus
    timeout_ms: int


class Link:
    """A remote engine."""

    def __init__(self, desc: EngineDesc, peer: Peer) -> None:
        self.desc, self.peer = desc, peer
        self.waiting: deque[Post] = deque()


class Hub:
    def __init__(self, key: str, options: dict[str, str], note: bytes | None) -> None:
        """:param note: what peers get when a transfer has ended; None: nothing."""
        name = key[:MAX_NAME]
        self.context = Context(name=name, options=options)
        self.figures = Transfers({"engine": key})
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._note = note
        self._links: dict[str, Link] = {}
        self._running: dict[Operation, TransferStatus] = {}
        self._notes: OrderedDict[tuple[str, int], tuple[int, str]] = OrderedDict()
        self._failures: deque[PeerFailure] = deque(maxlen=_MAX_KEPT)
        #: For who uses the context beside mori.io; None: nobody has asked.
        self._others: deque[Event] | None = None
        self._is_closed = False
        self._layers = 0
        self._listener = Listener(self.context, self._round, "mori-io")
        self._listener.start()

    # ---- memory ----

    def register(self, place: Memory, allocation: Memory | None) -> tuple[Region, int]:
        """:return: the region, and the epoch from which on it is there."""
        with self.lock:
            self._layers += 1
            region = self.context.add_region(
                place, layer=self._layers, one_sided=True, allocation=allocation
            )
            try:
                return region, self.context.commit()
            except Exception:
                self.context.drop_regions([region])
                raise

    def deregister(self, region: Region, timeout: float) -> None:
        """Waits for this side's transfers. :raises BusyError: some are not quiet."""

        def dropped() -> bool:
            try:
                self.context.drop_regions([region])
            except errors.BusyError:
                return False
            return True

        with self.changed:
            if not self.changed.wait_for(dropped, timeout):
                self.context.drop_regions([region])

    # ---- remote engines ----

    def add(self, desc: EngineDesc) -> None:
        with self.lock:
            link = self._links.get(desc.key)
            peer = self.context.add_peer(desc.blob, desc.key[:MAX_NAME])
            if link is not None and link.peer is peer:
                return
            if link is not None:
                self._end_waiting(link, "the engine was registered again")
                link.peer.close(force=True)
            self._links[desc.key] = Link(desc, peer)

    def remove(self, key: str) -> None:
        with self.lock:
            link = self._links.pop(key, None)
            if link is None:
                return
            self._end_waiting(link, "the engine was deregistered")
            link.peer.close(force=True)

    def link(self, memory: MemoryDesc) -> Link:
        """:raises NotFoundError: its engine was not registered, or is another one now."""
        link = self._links.get(memory.engine_key)
        if link is None:
            why = f"engine {memory.engine_key} is not registered here"
        elif link.desc.instance != memory.instance:
            why = f"memory of another engine {memory.engine_key} than the one registered"
        else:
            return link
        raise errors.error(lib.MKV_ERR_NOTFOUND, why)

    def peer(self, key: str) -> Peer:
        """:raises NotFoundError: it is not registered."""
        with self.lock:
            link = self._links.get(key)
        if link is None:
            raise errors.error(lib.MKV_ERR_NOTFOUND, f"engine {key} is not registered here")
        return link.peer

    def path(self, memory: MemoryDesc) -> str:
        with self.lock:
            return self.link(memory).peer.query().paths

    def is_alive(self, memory: MemoryDesc) -> bool:
        with self.lock:
            return bool(self.link(memory).peer.query().state <= lib.MKV_PEER_READY)

    # ---- transfers ----

    def post(self, post: Post) -> None:
        """Never waits, never raises: what is wrong is in the status."""
        post.status.Update(StatusCode.IN_PROGRESS, "")
        with self.lock:
            try:
                link = self.link(post.remote)
            except errors.MorikvError as error:
                self._fail(post.status, code_of(error.status), str(error))
                return
            if not self._try(link, post):
                link.waiting.append(post)
                self._listener.wake()

    def _try(self, link: Link, post: Post) -> bool:
        """:return: False: it cannot be posted yet."""
        status = post.status
        if status._is_abort_wanted:
            self._fail(status, StatusCode.ERR_BAD_STATE, "aborted")
            return True
        try:
            given = (post.local, post.remote.id, *post.pieces)
            begin = time.perf_counter()
            operation = link.peer.post(
                post.mode, *given, id=post.uid, note=self._note, timeout_ms=post.timeout_ms
            )
        except errors.BusyError:
            return False
        except errors.NotFoundError as error:
            if link.peer.query().regions_epoch < post.remote.epoch:
                return False
            self._fail(status, StatusCode.ERR_NOT_FOUND, f"{error}: it was deregistered")
        except errors.MorikvError as error:
            self._fail(status, code_of(error.status), str(error))
        except ValueError as error:
            self._fail(status, StatusCode.ERR_INVALID_ARGS, str(error))
        else:
            status._post_s = time.perf_counter() - begin
            self._running[operation] = status
            status._run(operation)
        return True

    def _fail(self, status: TransferStatus, code: StatusCode, why: str) -> None:
        status.Update(code, why)
        self.figures.count()

    def _end_waiting(self, link: Link, why: str) -> None:
        while link.waiting:
            self._fail(link.waiting.popleft().status, StatusCode.ERR_BAD_STATE, why)

    def _retry(self) -> None:
        for link in self._links.values():
            for _ in range(len(link.waiting)):
                post = link.waiting.popleft()
                if not self._try(link, post):
                    link.waiting.append(post)

    # ---- what happens ----

    def pop_note(self, key: str, uid: int) -> tuple[int, str] | None:
        with self.lock:
            return self._notes.pop((key, uid), None)

    def pop_failure(self) -> PeerFailure | None:
        with self.lock:
            return self._failures.popleft() if self._failures else None

    def poll_others(self, timeout: float | None) -> list[Event]:
        """What happened to the context that is no transfer of mori.io's."""
        with self.changed:
            if self._others is None:
                self._others = deque(maxlen=_MAX_KEPT)
            self.changed.wait_for(lambda: bool(self._others) or self._is_closed, timeout)
            taken = list(self._others)
            self._others.clear()
            return taken

    def _hear(self, event: Event) -> None:
        if self._others is not None and event.operation is None:
            self._others.append(event)
            self.changed.notify_all()
        if event.operation is not None:
            self._hear_operation(event, event.operation)
        elif event.type == EventType.NOTE:
            key = event.data.decode("utf-8", "replace")
            self._notes[key, event.id] = event.status, event.text
            while len(self._notes) > _MAX_KEPT:
                self._notes.popitem(last=False)
        elif event.type in _PEER_ENDS:
            self._hear_peer_end(event)

    def _hear_operation(self, event: Event, operation: Operation) -> None:
        status = self._running.get(operation)
        if status is None:
            return
        if event.type == EventType.DONE:
            status.Update(StatusCode.SUCCESS, "")
        if event.type != EventType.QUIET:
            return
        info = operation.query()
        if info.status == lib.MKV_OK:
            self.figures.done(info.age_ns / 1e9, status._post_s, info.bytes, info.pieces)
        status._rest(is_quiet=True)
        if info.status != lib.MKV_OK:
            self._fail(status, code_of(info.status), info.error)
        del self._running[operation]
        operation.close()
        self.changed.notify_all()

    def _hear_peer_end(self, event: Event) -> None:
        why = event.text or "it has closed the connection"
        ours = [link for link in self._links.values() if link.peer is event.peer]
        for link in ours:
            self._failures.append(PeerFailure(link.desc.key, why))
            self._end_waiting(link, f"engine {link.desc.key}: {why}")
        if not ours and event.peer is not None and not event.peer._handle.is_closed:
            event.peer.close(force=True)  # it had connected by itself

    def _round(self) -> int | None:
        """:return: how long nothing is due, in ms; 0: there is more, None: for ever."""
        with self.lock:
            events = self.context.poll()
            for event in events:
                self._hear(event)
            if any(event.type in _PEER_NEWS for event in events):
                self._retry()
            if events:
                return 0
            is_waiting = any(link.waiting for link in self._links.values())
            if is_waiting:
                self._retry()
            self.context.progress()  # frees what has died; moves nothing, or little
            return (_RETRY_MS if is_waiting else None) if self.context.arm() else 0

    def close(self) -> None:
        """End what runs. Statuses that nobody has heard of fail."""
        if not self._listener.close():
            return
        with self.changed:
            self._is_closed = True
            self.changed.notify_all()
        is_quiet = True
        try:
            self.context.close()
        except errors.MorikvError as error:
            is_quiet = False
            logger.warning("mori.io: %s", error)
        for link in self._links.values():
            self._end_waiting(link, "the engine was closed")
        for status in self._running.values():
            status._rest(is_quiet=is_quiet)
            status.Update(StatusCode.ERR_BAD_STATE, "the engine was closed")
