# SPDX-License-Identifier: BSD-3-Clause
"""An engine's context, its peers, and the thread that takes the events of transfers.

One lock serialises posts and events. The bytes move in libmorikv's own thread. This thread
takes events, sets statuses, and posts transfers that had to wait, because the peer was
still connecting or had not sent its memory yet.
"""

from __future__ import annotations

import atexit
import enum
import logging
import operator
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass

from .. import errors
from .._handle import is_interrupting
from .._home import Lock
from .._library import lib
from ..context import Context, Peer, Region
from ..listener import Listener
from ..memory import Memory
from ..metrics import Transfers
from ..model import Event, EventType, Mode
from ..operation import Operation, QuickPosts
from ..pieces import Numbers, Pieces
from . import settings
from .config import StatusCode
from .desc import EngineDesc, MemoryDesc
from .mirror import Mirror
from .status import TransferStatus, code_of

logger = logging.getLogger(__name__)

_ENDS = (EventType.DONE, EventType.FAILED, EventType.ABORTED)
_PEER_ENDS = (EventType.PEER_FAILED, EventType.PEER_CLOSED)
_PEER_NEWS = (EventType.PEER_READY, EventType.PEER_REGIONS)
#: Time before a note that the peer had no room for is sent again, in ms.
_RETRY_MS = 10
#: Notes and failures that are kept for a caller; older ones are dropped.
_MAX_KEPT = 65536
#: Longest key of an engine in a note, in bytes.
MAX_KEY = 4096


class PeerFailureReason(enum.IntEnum):
    UNKNOWN = 0
    PEER_UNREACHABLE = 1
    LOCAL_QP_ERROR = 2
    LOCAL_PORT_DOWN = 3
    LOCAL_DEVICE_FATAL = 4
    LOCAL_CQ_ERROR = 5


@dataclass(frozen=True)
class PeerFailureEvent:
    """A connection that has ended; register the engine again for another one."""

    remote_engine_key: str
    reason: PeerFailureReason
    """PEER_UNREACHABLE: libmorikv reports ends of connections, not of devices."""
    detail: str
    qp_num: int = 0
    port_num: int = 0
    device_name: str = ""


@dataclass
class Post:
    """A transfer that can be posted now or later: its arguments are copies."""

    mode: Mode
    pieces: Pieces
    epoch: int
    """First epoch of the peer's regions that contains the remote memory."""
    uid: int
    timeout_ms: int
    status: TransferStatus
    bounds: tuple[int, int]
    """Sizes of the memory here and there, in bytes."""


class Link:
    """A remote engine, or this one as its own peer."""

    def __init__(self, key: str, instance: int, peer: Peer) -> None:
        self.key, self.instance, self.peer = key, instance, peer
        self.waiting: deque[Post] = deque()


def _unsigned(value: int, bits: int, name: str) -> int:
    """:raises ValueError: it is not an integer of so many bits."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{name}: {value!r}; expected an integer of 0 to 2^{bits} - 1")
    return number


class Hub:
    def __init__(
        self,
        key: str,
        instance: int,
        options: dict[str, str],
        variables: dict[str, str],
        note: bytes | None,
    ) -> None:
        """:param options: of libmorikv.
        :param variables: of the environment that a context is opened in.
        :param note: note to peers when a transfer has ended; None: no note.
        """
        self._key, self._instance = key, instance
        self._options, self._variables = options, variables
        self.context = self._open(key)
        self.figures = Transfers({"engine": key})
        self.lock = Lock(self.context._owner.home)
        #: Entered by ``with self.lock``, which refuses a forked child.
        self.changed = threading.Condition(self.lock.inner)
        self._posts, self._notifies = QuickPosts(self.context, note), note is not None
        self._allocations: dict[int, Memory | None] = {}
        self._mirror: tuple[Link, Mirror] | None = None
        self._links: dict[str, Link] = {}
        self._running: dict[Operation, TransferStatus] = {}
        self._notes: OrderedDict[tuple[str, int], tuple[int, str]] = OrderedDict()
        self._failures: deque[PeerFailureEvent] = deque(maxlen=_MAX_KEPT)
        #: Events for applications that use the context beside mori.io; None: not requested
        #: yet.
        self._others: deque[Event] | None = None
        self._is_closed = False
        self._is_left = False
        self._layers = 0
        self._listener = Listener(self.context, self._round, "mori-io")
        self._listener.start()

    def _open(self, name: str) -> Context:
        with settings.applied(self._variables):
            return Context(name=name, options=self._options)

    # ---- memory ----

    def register(self, place: Memory, allocation: Memory | None) -> tuple[Region, int]:
        """:return: the region, and the first epoch that contains it."""
        with self.lock:
            self._layers += 1
            region = self.context.add_region(
                place, layer=self._layers, one_sided=True, allocation=allocation
            )
            try:
                epoch = self.context.commit()
            except Exception:
                self.context.drop_regions([region])
                raise
            self._allocations[region.id] = allocation
            return region, epoch

    def deregister(self, region: Region, timeout: float) -> None:
        """Waits for this side's transfers. :raises BusyError: some are not quiet."""

        def dropped() -> bool:
            try:
                self._drop(region)
            except errors.BusyError:
                return False
            return True

        with self.lock:
            try:
                if not self.changed.wait_for(dropped, timeout):
                    self._drop(region)
            finally:
                if region.id not in self.context._regions:  # also when UCX has failed
                    self._allocations.pop(region.id, None)
                    if self._mirror is not None:
                        self._mirror[1].drop(region)

    def _drop(self, region: Region) -> None:
        """:raises BusyError: a transfer of this side uses it."""
        waiting = [post.status for link in self._every_link() for post in link.waiting]
        for status in (*self._running.values(), *waiting):
            if status._other_region == region.id:
                why = f"a transfer inside engine {self._key} uses memory {region.id}: wait for its end"
                raise errors.error(lib.MKV_ERR_BUSY, why)
        self.context.drop_regions([region])

    # ---- remote engines ----

    def add(self, desc: EngineDesc) -> None:
        if desc.instance == self._instance:
            return  # the connection exists as soon as a transfer needs it
        with self.lock:
            link = self._links.get(desc.key)
            peer = self.context.add_peer(desc.blob, desc.key)
            if link is not None and link.peer is peer:
                return
            if link is not None:
                self._end_waiting(link, "the engine was registered again")
                link.peer.close(force=True)
            self._links[desc.key] = Link(desc.key, desc.instance, peer)

    def remove(self, desc: EngineDesc) -> None:
        with self.lock:
            link = self._links.get(desc.key)
            if link is None or desc.instance == self._instance:
                return
            del self._links[desc.key]
            self._end_waiting(link, "the engine was deregistered")
            link.peer.close(force=True)

    def link(self, memory: MemoryDesc) -> Link:
        """:raises NotFoundError: its engine was not registered, or was replaced."""
        if memory.instance == self._instance:
            return self._reflection()[0]
        link = self._links.get(memory.engine_key)
        if link is None:
            why = f"engine {memory.engine_key} is not registered here"
        elif link.instance != memory.instance:
            why = f"memory of another engine {memory.engine_key} than the one registered"
        else:
            return link
        raise errors.error(lib.MKV_ERR_NOTFOUND, why)

    def _reflection(self) -> tuple[Link, Mirror]:
        """This engine as its own peer."""
        if self._mirror is None:
            if self._is_closed:
                raise errors.error(lib.MKV_ERR_INVALID, f"engine {self._key} is closed")
            mirror = Mirror(self.context, self._open(f"{self._key}/self"))
            self._mirror = Link(self._key, self._instance, mirror.peer), mirror
        return self._mirror

    def _place(self, memory: MemoryDesc) -> tuple[int, int]:
        """:return: number of the region there, and the first epoch that contains it."""
        if memory.instance != self._instance:
            return memory.id, memory.epoch
        region = self.context._regions.get(memory.id)
        if region is None:
            why = f"memory {memory.id} of engine {self._key} is not registered here"
            raise errors.error(lib.MKV_ERR_NOTFOUND, why)
        return self._reflection()[1].place(region, self._allocations.get(region.id))

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
            try:
                return bool(self.link(memory).peer.query().state <= lib.MKV_PEER_READY)
            except (errors.NotFoundError, errors.InvalidError):  # not registered, or closed
                return False

    # ---- transfers ----

    def post(
        self,
        mode: Mode,
        local: Region,
        remote: MemoryDesc,
        numbers: tuple[Numbers, Numbers, Numbers],
        uid: int,
        timeout_ms: int,
    ) -> TransferStatus:
        """Never waits and never raises: the status holds errors. Arguments are not kept beyond
        the call.

        :param numbers: offsets here, offsets there, sizes.
        """
        with self.lock:
            status = TransferStatus(self.lock.home, StatusCode.IN_PROGRESS)
            if remote.instance == self._instance:
                status._other_region = remote.id
            try:
                link = self.link(remote)
                number, epoch = self._place(remote)
                post = Post(
                    mode,
                    Pieces(local.id, number, *numbers),
                    epoch,
                    _unsigned(uid, 64, "transfer_uid"),
                    _unsigned(timeout_ms, 32, "timeout_ms"),
                    status,
                    (local.memory.length, remote.size),
                )
            except errors.MorikvError as error:
                self._fail(status, code_of(error.status), str(error))
            except ValueError as error:
                self._fail(status, StatusCode.ERR_INVALID_ARGS, str(error))
            else:
                self._begin(link, post)
        return status

    def _begin(self, link: Link, post: Post) -> None:
        try:
            if not self._try(link, post):
                self._wait(link, post)
        except errors.BusyError:
            self._wait(link, post)
        except errors.MorikvError as error:  # the peer was closed meanwhile
            self._fail(post.status, code_of(error.status), str(error))

    def _wait(self, link: Link, post: Post) -> None:
        """Queue the post until the peer is ready; bounds are checked at once."""
        if self._is_closed:
            self._fail(post.status, StatusCode.ERR_BAD_STATE, "the engine was closed")
            return
        why = post.pieces.beyond(*post.bounds)
        if why:
            self._fail(post.status, StatusCode.ERR_INVALID_ARGS, why)
            return
        link.waiting.append(post)
        self._listener.wake()

    def _try(self, link: Link, post: Post) -> bool:
        """:return: False: the peer has not sent the memory yet.
        :raises BusyError: the peer takes no post now.
        """
        if post.status._is_abort_wanted:
            self._fail(post.status, StatusCode.ERR_BAD_STATE, "aborted")
            return True
        try:
            self._start(link, post)
            return True
        except errors.NotFoundError:
            if link.peer.query().regions_epoch < post.epoch:
                return False
        # the peer's list of regions with this one may have arrived since the first try
        try:
            self._start(link, post)
        except errors.NotFoundError as error:
            self._fail(post.status, StatusCode.ERR_NOT_FOUND, f"{error}: it was deregistered")
        return True

    def _start(self, link: Link, post: Post) -> None:
        """:raises BusyError: the peer is not ready. :raises NotFoundError: no such memory."""
        status = post.status
        notifies = self._notifies and link.instance != self._instance
        begin = time.perf_counter()
        try:
            operation = self._posts.post(
                link.peer, post.mode, post.pieces, post.uid, post.timeout_ms, notifies
            )
        except (errors.BusyError, errors.NotFoundError):
            raise
        except errors.MorikvError as error:
            self._fail(status, code_of(error.status), str(error))
            return
        seconds = time.perf_counter() - begin
        if operation is None:
            status.Update(StatusCode.SUCCESS, "")
            self.figures.done(seconds, seconds, post.pieces.size(), post.pieces.count)
            return
        status._post_s, status._num_pieces = seconds, post.pieces.count
        self._running[operation] = status
        status._run(operation)

    def _fail(self, status: TransferStatus, code: StatusCode, why: str) -> None:
        status.Update(code, why)
        self.figures.count()

    def _end_waiting(self, link: Link, why: str) -> None:
        while link.waiting:
            self._fail(link.waiting.popleft().status, StatusCode.ERR_BAD_STATE, why)

    def _every_link(self) -> list[Link]:
        own = [self._mirror[0]] if self._mirror is not None else []
        return [*self._links.values(), *own]

    def _end_aborted(self, link: Link) -> None:
        for post in [post for post in link.waiting if post.status._is_abort_wanted]:
            link.waiting.remove(post)
            self._fail(post.status, StatusCode.ERR_BAD_STATE, "aborted")

    def _retry(self) -> None:
        for link in self._every_link():
            self._end_aborted(link)
            for _ in range(len(link.waiting)):
                post = link.waiting.popleft()
                try:
                    if not self._try(link, post):
                        link.waiting.append(post)
                except errors.BusyError:  # the peer takes none of the other posts either
                    link.waiting.appendleft(post)
                    break
                except errors.MorikvError as error:  # the peer was closed meanwhile
                    self._fail(post.status, code_of(error.status), str(error))
        self.changed.notify_all()

    # ---- events ----

    def pop_note(self, key: str, uid: int) -> tuple[int, str] | None:
        with self.lock:
            return self._notes.pop((key, uid), None)

    def pop_failure(self) -> PeerFailureEvent | None:
        with self.lock:
            return self._failures.popleft() if self._failures else None

    def poll_others(self, timeout: float | None) -> list[Event]:
        """Events of the context that belong to no transfer of mori.io."""
        with self.lock:
            if self._others is None:
                self._others = deque(maxlen=_MAX_KEPT)
            self.changed.wait_for(lambda: bool(self._others) or self._is_closed, timeout)
            taken = list(self._others)
            self._others.clear()
            return taken

    def _on_event(self, event: Event) -> None:
        if event.operation is not None and event.operation in self._running:
            self._on_operation(event, event.operation)
            return
        if self._others is not None:
            self._others.append(event)
        if event.type == EventType.NOTE:
            if len(event.data) > MAX_KEY:
                logger.warning("mori.io: a note of %d bytes is ignored", len(event.data))
                return
            key = event.data.decode("utf-8", "replace")
            self._notes[key, event.id] = event.status, event.text
            while len(self._notes) > _MAX_KEPT:
                self._notes.popitem(last=False)
        elif event.type in _PEER_ENDS:
            self._on_peer_end(event)

    def _on_operation(self, event: Event, operation: Operation) -> None:
        status = self._running[operation]
        if event.type == EventType.DONE:
            status.Update(StatusCode.SUCCESS, "")
        if event.type != EventType.QUIET:
            return
        del self._running[operation]
        status._rest(is_quiet=not event.value)  # else bytes may still arrive at the peer
        try:
            info = operation.query()
        except errors.MorikvError as error:
            self._fail(status, code_of(error.status), str(error))
            raise
        if info.status == lib.MKV_OK:
            self.figures.done(info.age_ns / 1e9, status._post_s, info.bytes, status._num_pieces)
        else:
            self._fail(status, code_of(info.status), info.error)
        operation.close()

    def _on_peer_end(self, event: Event) -> None:
        why = event.text or "the peer has closed the connection"
        ours = [link for link in self._every_link() if link.peer is event.peer]
        for link in ours:
            reason = PeerFailureReason.PEER_UNREACHABLE
            self._failures.append(PeerFailureEvent(link.key, reason, why))
            self._end_waiting(link, f"engine {link.key}: {why}")
        if not ours and event.peer is not None and not event.peer._handle.is_closed:
            event.peer.close(force=True)  # the peer had connected by itself

    def _round(self) -> int | None:
        """:return: time until work is due, in ms; 0: now, None: never."""
        if self._is_left:
            self._close()
            atexit.unregister(self._listener.join)
            return 0
        with self.lock:
            events = self.context.poll()
            for event in events:
                try:
                    self._on_event(event)
                except Exception:  # later events belong to other transfers
                    logger.exception("mori.io: %s could not be handled", event.type.name)
            if any(event.type in _PEER_NEWS for event in events):
                self._retry()
            if events:
                self.changed.notify_all()
                return 0
            is_waiting = any(link.waiting for link in self._every_link())
            if is_waiting:
                self._retry()
            self.context.progress()  # frees queued objects; moves nothing, or little
            return (_RETRY_MS if is_waiting else None) if self.context.arm() else 0

    def close(self, is_collected: bool = False) -> None:
        """End running transfers. Statuses that have not ended fail.

        Inside of another call it is closed later, by its thread. A signal's handler also closes it
        at once inside of a wait.

        :param is_collected: the collector may have found the engine.
        """
        is_inside = is_interrupting(except_waits=not is_collected)
        if self.lock.home.is_here and not self._is_closed and is_inside:
            self._is_left = True
            atexit.register(self._listener.join)
            self._listener.wake()
        else:
            self._close()
            if self._is_left and not is_inside:
                self._listener.join()

    def _close(self) -> None:
        self._listener.close(self._end)

    def _end(self) -> None:
        self._is_closed, is_quiet = True, False
        try:
            try:
                with self.lock:  # another thread may be opening the second context
                    self.changed.notify_all()
            finally:
                is_quiet = self._close_contexts()
        finally:  # the process may catch an interrupt
            with self.lock:  # a post of another thread may have begun before
                for link in self._every_link():
                    self._end_waiting(link, "the engine was closed")
                for status in self._running.values():
                    status._rest(is_quiet=is_quiet)
                    status.Update(StatusCode.ERR_BAD_STATE, "the engine was closed")
                self._running.clear()
                self.changed.notify_all()

    def _close_contexts(self) -> bool:
        """:return: whether memory is not accessed any more."""
        is_quiet = True
        try:
            self.context.close()
        except errors.MorikvError as error:
            is_quiet = False
            logger.warning("mori.io: %s", error)
        if self._mirror is not None:
            self._mirror[1].close()
        return is_quiet
