# SPDX-License-Identifier: BSD-3-Clause
"""``kv_transfer_params`` of a request. Clients write them, so that each value is checked here,
and nothing else reads them."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import Any

from .orders import PULL, PUSH

_MAX_PEERS = 1024
#: Hexadecimal digits of a worker's description.
_MAX_BLOB = 1 << 20


@dataclass(frozen=True)
class Send:
    """Prefill: the cache will be read."""

    id: int | None
    """None: any."""


@dataclass(frozen=True)
class Receive:
    """Decode: the cache is elsewhere."""

    id: int
    peers: tuple[str, ...]
    """Descriptions of the workers there, in hexadecimal digits."""
    mode: str


def _refuse(name: str, value: object, expected: str) -> ValueError:
    text = reprlib.repr(value)  # of any size and depth
    return ValueError(f"{name} is {text[:60]}{'..' * (len(text) > 60)}; expected {expected}")


def _id(params: dict[str, Any]) -> int:
    value = params.get("id")
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise _refuse("id", value, "an integer of 0 to 2^64 - 1")
    return value


def _peers(params: dict[str, Any]) -> tuple[str, ...]:
    value = params.get("peers")
    expected = f"a list of 1 to {_MAX_PEERS} strings of hexadecimal digits, from prefill"
    if not isinstance(value, list) or not 0 < len(value) <= _MAX_PEERS:
        raise _refuse("peers", value, expected)
    peers = []
    for each in value:
        if not isinstance(each, str) or not 0 < len(each) <= _MAX_BLOB:
            raise _refuse("peers", value, expected)
        try:
            peers.append(bytes.fromhex(each).hex())  # one spelling for each worker
        except ValueError:
            raise _refuse("peers", value, expected) from None
    return tuple(peers)


def wants_cache(params: object) -> bool:
    """Whether a client requests a cache from elsewhere, in parameters of any kind."""
    return isinstance(params, dict) and bool(params.get("do_remote_prefill"))


def wants_peers(params: object) -> bool:
    """Whether a client requests only the addresses of the workers."""
    return isinstance(params, dict) and bool(params.get("get_peers"))


def parse(params: object) -> Send | Receive | None:
    """:return: None: the request does not concern the connector.
    :raises ValueError: with the name of the member, its value, and the expectation.
    """
    if not params:
        return None
    if not isinstance(params, dict):
        raise _refuse("kv_transfer_params", params, "an object")
    if wants_peers(params):  # whatever else it requests
        return None
    if params.get("do_remote_decode"):
        return Send(_id(params) if params.get("id") is not None else None)
    if not params.get("do_remote_prefill"):
        return None
    mode = params.get("mode", PULL)
    if mode not in (PULL, PUSH):
        raise _refuse("mode", mode, f"'{PULL}' or '{PUSH}'")
    return Receive(_id(params), _peers(params), mode)
