# SPDX-License-Identifier: BSD-3-Clause
"""Orders of the scheduler's side for the workers, sent with each step."""

from __future__ import annotations

from dataclasses import dataclass, field

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
)

from .caches import Blocks

PULL, PUSH = "pull", "push"


@dataclass
class Place(KVConnectorHandshakeMetadata):
    """How to connect to a worker."""

    blob: str
    """libmorikv's description, in hexadecimal digits."""


@dataclass
class Step:
    """Part of a request that this step computes; its cache will be sent."""

    id: int
    """Number of the transfer, the same on both sides."""
    new_blocks: Blocks
    is_fresh: bool
    """These are all of its blocks, not further ones."""
    tokens: int
    """Computed when the step has ended."""
    total: int
    """Tokens of the prompt that are sent."""


@dataclass
class Load:
    """A request whose cache comes from elsewhere."""

    id: int
    peers: list[str]
    """:attr:`Place.blob` of each rank."""
    mode: str
    blocks: Blocks
    """Blocks to fill: the last ones of the prompt, as the first may be cached here."""
    epoch: int = 0
    """Of the transfer: several requests of one prompt have one id, and an epoch each."""
    more: int = 0
    """Requests that wait to read the same cache behind this one."""


@dataclass
class Orders(KVConnectorMetadata):
    preempted: list[str] = field(default_factory=list)
    """Preempted requests. This step gives their blocks to other requests, and vLLM may compute
    them again."""
    steps: dict[str, Step] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)
    ended: dict[str, bool] = field(default_factory=dict)
    """Requests that were to be sent; False: aborted. Workers report when they are sent."""
    drops: dict[str, int] = field(default_factory=dict)
    """Requests that ended without blocks, and their transfers; none is reported."""
    failures: list[str] = field(default_factory=list)
    """Requests with a cache that cannot be loaded."""
    aborts: list[str] = field(default_factory=list)
    """Loads that are no longer wanted."""
    keeps: list[tuple[int, list[str]]] = field(default_factory=list)
    """Transfers that wait here to be scheduled, and the peers that hold them."""
    releases: list[tuple[int, list[str], int]] = field(default_factory=list)
    """Transfers that a request does not need, and how many others still do."""
