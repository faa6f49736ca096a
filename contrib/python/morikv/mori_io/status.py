# SPDX-License-Identifier: BSD-3-Clause
"""Status of a transfer."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from .._home import Home
from .._library import lib
from ..errors import InvalidError
from .config import StatusCode

if TYPE_CHECKING:
    from ..operation import Operation

_CODES = {
    lib.MKV_OK: StatusCode.SUCCESS,
    lib.MKV_ERR_INVALID: StatusCode.ERR_INVALID_ARGS,
    lib.MKV_ERR_BOUNDS: StatusCode.ERR_INVALID_ARGS,
    lib.MKV_ERR_LENGTH: StatusCode.ERR_INVALID_ARGS,
    lib.MKV_ERR_NOTFOUND: StatusCode.ERR_NOT_FOUND,
    lib.MKV_ERR_TRANSPORT: StatusCode.ERR_RDMA_OP,
}


def code_of(status: int) -> StatusCode:
    """The code of a status of libmorikv."""
    return _CODES.get(status, StatusCode.ERR_BAD_STATE)


class TransferStatus:
    """Status of a transfer. Any thread may query it; it may be dropped at any time.

    ``Failed`` is set only when nothing of the transfer touches memory any more, here or at
    the peer, or when that could not be proven in time (``Quiet`` is False then).

    :raises InvalidError: the transfer runs, and this process is a fork of the one that posted it.
    """

    def __init__(self, home: Home | None = None, code: StatusCode = StatusCode.INIT) -> None:
        self._home = home
        #: Keeps the operation open while a call uses it.
        self._lock = threading.Lock()
        self._code = code
        self._message = ""
        self._operation: Operation | None = None
        self._quiet = True
        self._ended: threading.Event | None = None
        self._is_abort_wanted = False
        self._post_s = 0.0
        self._num_pieces = 0
        #: Number of the engine's region on the other side, of a transfer inside of one engine.
        self._other_region: int | None = None

    def _check_home(self) -> None:
        if self._home is not None:
            self._home.check()

    def Code(self) -> StatusCode:
        if self._code == StatusCode.IN_PROGRESS:
            self._check_home()
            with self._lock:
                try:
                    # a caller that polls need not wait for the thread that takes events
                    if self._operation is not None and self._operation.status == lib.MKV_OK:
                        self._end(StatusCode.SUCCESS, "")
                except InvalidError:  # the engine is being closed, which ends the transfer
                    pass
        return self._code

    def Message(self) -> str:
        """Reason of the failure; empty if it has not failed."""
        return self._message

    def Init(self) -> bool:
        return self._code == StatusCode.INIT

    def InProgress(self) -> bool:
        return self.Code() == StatusCode.IN_PROGRESS

    def Succeeded(self) -> bool:
        return self.Code() == StatusCode.SUCCESS

    def Failed(self) -> bool:
        return self.Code() > StatusCode.ERR_BEGIN

    def Quiet(self) -> bool:
        """Whether it has ended and its memory is not accessed any more."""
        return self._quiet and not self.InProgress()

    def Abort(self) -> None:
        """End it; ``Failed`` follows when its memory is free, or it succeeds meanwhile."""
        self._check_home()
        with self._lock:
            self._is_abort_wanted = True
            self._abort()

    def Wait(self) -> StatusCode:
        """Wait until it has ended. :return: its code."""
        return self.WaitFor(-1)

    def WaitFor(self, timeout_ms: float = -1) -> StatusCode:
        """Wait until it has ended or the time has expired; below 0: no limit."""
        if self.InProgress():
            with self._lock:
                if self._ended is None:
                    self._ended = threading.Event()
                if self._code != StatusCode.IN_PROGRESS:
                    self._ended.set()
            self._ended.wait(None if timeout_ms < 0 else timeout_ms / 1000)
        return self.Code()

    def Update(self, code: StatusCode, message: str) -> None:
        """Set the result unless it has ended: the first result stays."""
        self._check_home()
        with self._lock:
            self._end(code, message)

    def SetCode(self, code: StatusCode) -> None:
        """Set the result in any case, for statuses that an application made."""
        self._check_home()
        with self._lock:
            self._code = code
            if code not in (StatusCode.INIT, StatusCode.IN_PROGRESS) and self._ended is not None:
                self._ended.set()

    def SetMessage(self, message: str) -> None:
        self._message = message

    def _end(self, code: StatusCode, message: str) -> None:
        if self._code in (StatusCode.INIT, StatusCode.IN_PROGRESS):
            self._message = message  # first: a caller that reads the code takes no lock
            self._code = code
            if code != StatusCode.IN_PROGRESS and self._ended is not None:
                self._ended.set()

    def _run(self, operation: Operation) -> None:
        """Bound to an operation, until :meth:`_rest`."""
        with self._lock:
            self._quiet, self._operation = False, operation
            if self._is_abort_wanted:
                self._abort()

    def _abort(self) -> None:
        with contextlib.suppress(InvalidError):  # the engine is being closed, which ends it
            if self._operation is not None:
                self._operation.abort()

    def _rest(self, is_quiet: bool) -> None:
        with self._lock:
            self._quiet, self._operation = is_quiet, None

    def __repr__(self) -> str:
        return f"<TransferStatus {self._code.name} {self._message!r}>"
