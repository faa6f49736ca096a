# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions for the library's statuses, with the library's text."""

from __future__ import annotations

from ._library import lib, text


class MorikvError(Exception):
    """A call was refused, and nothing has changed.

    ``status`` is the library's number, ``str()`` its text: it names the value and the
    expectation.
    """

    status: int

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NoMemoryError(MorikvError, MemoryError):
    """No memory."""


class InvalidError(MorikvError, ValueError):
    """An argument is not valid."""


class BusyError(MorikvError):
    """The object is in use or not ready; retry later."""


class LengthError(MorikvError, ValueError):
    """Lengths or counts differ."""


class BoundsError(MorikvError, IndexError):
    """Outside of its region."""


class PairingError(MorikvError):
    """Regions of the two sides do not pair up."""


class StaleError(MorikvError):
    """Regions were dropped since the map was made."""


class DuplicateError(MorikvError):
    """Exists already under this key."""


class NotFoundError(MorikvError, LookupError):
    """No such object."""


class DeadlineError(MorikvError, TimeoutError):
    """A deadline has passed."""


class AbortedError(MorikvError):
    """Aborted by a caller, here or there."""


class PeerError(MorikvError, ConnectionError):
    """The peer died or left."""


class TransportError(MorikvError, OSError):
    """UCX refused or failed it."""


class UnsupportedError(MorikvError):
    """The operation is not possible with this UCX or build."""


class BackendError(MorikvError):
    """Strict mode, and another transport would carry it."""


class GateError(MorikvError):
    """A gate reported failure."""


class ProtocolError(MorikvError, ValueError):
    """Bytes that are cut or altered, or those of an incompatible library."""


_CLASSES: dict[int, type[MorikvError]] = {
    lib.MKV_ERR_NOMEM: NoMemoryError,
    lib.MKV_ERR_INVALID: InvalidError,
    lib.MKV_ERR_BUSY: BusyError,
    lib.MKV_ERR_LENGTH: LengthError,
    lib.MKV_ERR_BOUNDS: BoundsError,
    lib.MKV_ERR_PAIRING: PairingError,
    lib.MKV_ERR_DTYPE: PairingError,
    lib.MKV_ERR_PAGE: PairingError,
    lib.MKV_ERR_TOPOLOGY: PairingError,
    lib.MKV_ERR_STALE: StaleError,
    lib.MKV_ERR_DUPLICATE: DuplicateError,
    lib.MKV_ERR_NOTFOUND: NotFoundError,
    lib.MKV_ERR_BIND_TIMEOUT: DeadlineError,
    lib.MKV_ERR_XFER_TIMEOUT: DeadlineError,
    lib.MKV_ERR_RELEASE_TIMEOUT: DeadlineError,
    lib.MKV_ERR_DRAIN_TIMEOUT: DeadlineError,
    lib.MKV_ERR_ABORTED: AbortedError,
    lib.MKV_ERR_PEER: PeerError,
    lib.MKV_ERR_TRANSPORT: TransportError,
    lib.MKV_ERR_UNSUPPORTED: UnsupportedError,
    lib.MKV_ERR_GEOMETRY: PairingError,
    lib.MKV_ERR_BACKEND: BackendError,
    lib.MKV_ERR_GATE: GateError,
    lib.MKV_ERR_VERSION: ProtocolError,
    lib.MKV_ERR_PROTOCOL: ProtocolError,
}


def error(status: int, message: str) -> MorikvError:
    """The exception of a status, with a text of its own."""
    name = text(lib.mkv_status_string(status))
    return _CLASSES.get(status, MorikvError)(status, message or name)


def check(status: int) -> None:
    """Raise unless a call has succeeded."""
    if status != lib.MKV_OK:
        raise error(status, text(lib.mkv_last_error()))
