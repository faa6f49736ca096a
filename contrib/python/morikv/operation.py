# SPDX-License-Identifier: BSD-3-Clause
"""Operations on a peer's memory, which need no call by the peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._handle import Handle
from ._library import ffi, lib, text
from .errors import MorikvError, check
from .model import Mode, Status
from .pieces import Pieces

if TYPE_CHECKING:
    from .context import Context, Peer


@dataclass(frozen=True)
class OperationInfo:
    id: int
    status: int
    """MKV_INPROGRESS (1), MKV_OK (0), or the first error."""
    error: str
    is_quiet: bool
    pieces: int
    """Pieces that adjoin on both sides count as one."""
    bytes: int
    num_ucp_calls: int
    age_ns: int
    may_arrive: bool
    """Quiet, and bytes of a failed WRITE may still arrive in the peer's memory."""


class Operation:
    """Pieces of memory in flight; see :meth:`Peer.post`.

    **Status and quiet are separate**, as for a transfer. Once it is quiet, the operation does
    not access this side's memory any more. Nor is the peer's written, unless the event QUIET
    has value 1 and ``query().may_arrive`` is true: then bytes of a WRITE that failed may still
    arrive, because UCX emulates puts by messages. It runs to its end even if it is not
    referenced any more.
    """

    _key: int

    def __init__(
        self,
        peer: Peer,
        mode: Mode,
        pieces: Pieces,
        *,
        id: int = 0,
        note: bytes | None = None,
        timeout_ms: int = 0,
        drain_timeout_ms: int = 0,
    ) -> None:
        """:meth:`Peer.post` documents the parameters and the errors."""
        context = peer.context
        mode = Mode.expect("mode", mode)
        params = ffi.new("mkv_op_params_t *", {"size": ffi.sizeof("mkv_op_params_t")})
        params.id, params.mode = id, mode
        params.timeout_ms, params.drain_timeout_ms = timeout_ms, drain_timeout_ms
        if note is not None:
            params.flags = lib.MKV_OP_NOTIFY
            bytes_of_note = ffi.from_buffer(note)
            params.note, params.note_length = bytes_of_note, len(note)
        params.pieces, params.num_pieces = pieces.pointer, pieces.count
        self.context, self.id = context, id
        params.user_data = context._know(self)
        op_p = ffi.new("mkv_op_t **")
        check(peer._handle.call(lib.mkv_op_post, params, op_p))
        self._handle = Handle(context._owner, op_p[0], lib.mkv_op_close)

    @classmethod
    def _of(cls, context: Context, pointer: Any, key: int, id: int) -> Operation:
        """One that :class:`QuickPosts` has posted."""
        self = cls.__new__(cls)
        self.context, self.id, self._key = context, id, key
        self._handle = Handle(context._owner, pointer, lib.mkv_op_close)
        context._things[key] = self
        return self

    @property
    def status(self) -> int:
        """MKV_INPROGRESS (1), MKV_OK (0), or the first error; without its text."""
        return Status.of(int(self._handle.call(lib.mkv_op_status)))

    def __repr__(self) -> str:
        try:
            status = str(self.status)
        except MorikvError:
            status = "closed"
        return f"<morikv.Operation {self.id} {status}>"

    def query(self) -> OperationInfo:
        attr = ffi.new("mkv_op_attr_t *", {"size": ffi.sizeof("mkv_op_attr_t")})
        check(self._handle.call(lib.mkv_op_query, attr))
        return OperationInfo(
            id=attr.id,
            status=Status.of(attr.status),
            error=text(attr.error),
            is_quiet=bool(attr.is_quiet),
            pieces=attr.pieces,
            bytes=attr.bytes,
            num_ucp_calls=attr.num_ucp_calls,
            age_ns=attr.age_ns,
            may_arrive=bool(attr.may_arrive),
        )

    @property
    def is_quiet(self) -> bool:
        return self.query().is_quiet

    def abort(self) -> None:
        """End it now, with :class:`~morikv.errors.AbortedError`'s status; quiet follows."""
        check(self._handle.call(lib.mkv_op_abort))

    def close(self) -> None:
        """:raises BusyError: it is not quiet yet."""
        self._handle.close()
        self.context._forget(self)


class QuickPosts:
    """Posts operations of one context, from memory that is kept. The caller holds the lock
    under which the context's events are polled.

    :param note: note to the peer when an operation has ended; None: no note.
    """

    def __init__(self, context: Context, note: bytes | None) -> None:
        self._context = context
        self._params = ffi.new("mkv_op_params_t *", {"size": ffi.sizeof("mkv_op_params_t")})
        self._op_p = ffi.new("mkv_op_t **")
        self._note = ffi.from_buffer(note or b"")
        self._params.note, self._params.note_length = self._note, len(self._note)
        self._flags = lib.MKV_OP_AT_ONCE | (0 if note is None else lib.MKV_OP_NOTIFY)

    def post(
        self, peer: Peer, mode: Mode, pieces: Pieces, id: int, timeout_ms: int, notifies: bool
    ) -> Operation | None:
        """:meth:`Peer.post` documents the errors.

        :param notifies: whether the peer gets the note.
        :return: None: all bytes have moved, and no event follows.
        """
        params, context = self._params, self._context
        key = next(context._keys)
        params.id, params.mode, params.timeout_ms = id, mode, timeout_ms
        params.flags = self._flags if notifies else lib.MKV_OP_AT_ONCE
        params.note_length = len(self._note) if notifies else 0
        params.pieces, params.num_pieces = pieces.pointer, pieces.count
        params.user_data = ffi.cast("void *", key)
        status = peer._handle.call(lib.mkv_op_post, params, self._op_p)
        if status != lib.MKV_OK:
            check(status)
        pointer = self._op_p[0]
        return Operation._of(context, pointer, key, id) if pointer else None
