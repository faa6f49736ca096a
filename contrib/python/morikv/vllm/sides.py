# SPDX-License-Identifier: BSD-3-Clause
"""State of a request: leaving a prefill engine, or entering a decode engine."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from morikv import Event, Map, Mode, Peer, Role, Transfer

from .caches import STATE, Blocks, Group
from .orders import PULL, Load, Step

logger = logging.getLogger("vllm.morikv")


def pack_counts(ranks: int, more: int) -> bytes:
    """Data of a reader's request message: ranks that read the request, and the number of further
    reads by this one."""
    return b"%d %d" % (ranks, more)


def _counts(about: bytes) -> tuple[int, int]:
    """:return: of bytes that are none of :func:`pack_counts`: one rank, once."""
    words = about.split(b" ")
    if len(words) != 2 or not all(word.isdigit() and len(word) < 5 for word in words):
        return 1, 0
    return int(words[0]), int(words[1])


class _Leg:
    """A transfer, and the state that ends with it."""

    def __init__(self) -> None:
        self.transfer: Transfer | None = None
        self.error = ""
        self.is_quiet = False
        self._plans: list[Any] = []

    def fail(self, why: str) -> None:
        """Handle the end of the transfer."""
        self.error = self.error or why or "failed without a text"

    def give_up(self, why: str) -> None:
        """Fail on both sides; quiet follows if there is a transfer."""
        self.fail(why)
        if self.transfer is not None:
            self.transfer.abort(why)

    def close(self) -> None:
        if self.transfer is not None:
            self.transfer.close()
        for plan in self._plans:
            plan.close()

    def _plan(self, map: Map, units: dict[int, tuple[list[int], list[int]]]) -> Any:
        plan = map.plan(units)
        self._plans.append(plan)
        return plan


class Progress:
    """Progress of the computation of a group of layers of a request."""

    def __init__(self, group: Group, step: Step) -> None:
        self.group, self.span = group, group.span(step.total)
        new = step.new_blocks[group.component]
        self.blocks = group.state(new) if group.kind == STATE else list(new)
        #: For each layer: the first block that is not complete.
        self.done = [0] * len(group.layers)

    def extend(self, blocks: Blocks) -> None:
        if self.group.kind != STATE:
            self.blocks += blocks.get(self.group.component, ())

    def on_layer(self, layer: int, tokens: int, total: int) -> None:
        """Blocks move when they are full or are the last; a state moves when it is final."""
        full = tokens // self.group.block_size if self.group.kind != STATE else 0
        self.done[layer] = self.span.stop if tokens >= total else full

    @property
    def is_complete(self) -> bool:
        return min(self.done) == self.span.stop

    @property
    def last(self) -> list[int]:
        """Blocks that decode may need."""
        return self.blocks[self.span.start : self.span.stop]


class Source:
    """Prefill's side of a request: its computed part, and its readers."""

    def __init__(self, request_id: str, step: Step, groups: Sequence[Group]) -> None:
        self.request_id, self.id = request_id, step.id
        self.error = ""
        #: Whether the engine keeps the blocks until the end is reported.
        self.is_reported = True
        #: Time at which it is given up unless a reader has come; inf: it is being computed.
        self.deadline = math.inf
        self.readers: list[Reader] = []
        #: Number of ranks that read it, which each of them reports; set by the first.
        self.num_readers = 1
        #: Total reads by each rank: one for each sample of a prompt.
        self._reads: dict[Peer, int] = {}
        self.groups = {group.component: Progress(group, step) for group in groups}
        #: Query for the end of the last launched work; None: it has ended.
        self.ready: Callable[[], bool] | None = None
        self._total = step.total

    @property
    def is_ended(self) -> bool:
        """The engine has finished the request."""
        return self.deadline < math.inf

    @property
    def is_kept(self) -> bool:
        """Its blocks wait for a reader."""
        are_missing = len(self._reads) < self.num_readers
        are_missing |= any(self._done(peer) < reads for peer, reads in self._reads.items())
        return self.is_ended and not self.error and are_missing

    @property
    def is_over(self) -> bool:
        """Its blocks are not accessed any more, now or later."""
        is_quiet = all(reader.is_quiet for reader in self.readers)
        return self.is_ended and is_quiet and not self.is_kept

    @property
    def is_complete(self) -> bool:
        return all(progress.is_complete for progress in self.groups.values())

    @property
    def is_readable(self) -> bool:
        return self.is_complete and (self.ready is None or self.ready())

    @property
    def is_awaited(self) -> bool:
        """A reader waits for launched work to be computed, which no event reports."""
        return self.is_complete and any(reader.is_waiting for reader in self.readers)

    def _done(self, peer: Peer) -> int:
        return sum(reader.peer is peer for reader in self.readers)

    def admits(self, peer: Peer, about: bytes) -> bool:
        """Whether a rank may read it. :param about: result of its :func:`pack_counts`."""
        ranks, more = _counts(about)
        if not self.readers:
            self.num_readers = max(1, ranks)
        done, reads = self._done(peer), self._reads.get(peer)
        if len(self._reads) >= self.num_readers if reads is None else done >= reads:
            return False
        self._reads[peer] = max(reads or 0, done + 1 + more)
        return True

    def dismiss(self, peer: Peer) -> None:
        """A rank that was admitted cannot read it."""
        if not self._done(peer):
            del self._reads[peer]

    def release(self, peer: Peer, more: int) -> None:
        """Set the number of reads that a rank still needs."""
        if not self.readers and more == 0:
            self.give_up("not needed")
        else:
            self._reads[peer] = self._done(peer) + more

    def extend(self, blocks: Blocks) -> None:
        for progress in self.groups.values():
            progress.extend(blocks)

    def on_layer(self, component: int, layer: int, tokens: int) -> None:
        """Set the number of tokens in a layer's cache."""
        self.groups[component].on_layer(layer, tokens, self._total)

    def expire(self) -> None:
        """Refuse further readers; present readers still get it."""
        self.error = self.error or "expired"

    def give_up(self, why: str) -> None:
        self.error = self.error or why
        for reader in self.readers:
            reader.give_up(why)

    def close(self) -> None:
        for reader in self.readers:
            reader.close()


class Reader(_Leg):
    """A rank of decode and its transfer from a source. Pull: all blocks are exposed when they are
    computed. Push: each layer of each step is posted as soon as it is computed, and earlier
    layers when the reader comes."""

    def __init__(self, source: Source, map: Map, transfer: Transfer) -> None:
        super().__init__()
        self.source, self._map = source, map
        self.transfer: Transfer = transfer
        self._remote: Blocks | None = None
        self._posted: dict[int, list[int]] = {}
        self._is_complete = False

    @property
    def peer(self) -> Peer:
        return self._map.peer

    def on_exposed(self, event: Event) -> None:
        remote = {}
        for component, progress in self.source.groups.items():
            units = event.units.get(component)
            theirs = remote[component] = list(units.remote) if units else []
            first = progress.span.stop - len(theirs)
            if first < progress.span.start:
                raise ValueError(
                    f"the decode engine exposed {len(theirs)} blocks; expected at most "
                    f"{len(progress.span)}"
                )
            self._posted[component] = [first] * len(progress.done)
        self._remote = remote
        self.pump()

    @property
    def is_waiting(self) -> bool:
        """The reader pulls, and has not been sent the block lists yet."""
        is_complete = self._is_complete or self.error
        return not is_complete and self._remote is None and self.transfer.mode == Mode.READ

    def pump(self) -> None:
        """Move all blocks that can be moved now."""
        transfer = self.transfer
        if self._is_complete or self.error:
            return
        if self._remote is not None:
            for component, remote in self._remote.items():
                self._post(component, remote)
            if self.source.is_complete:
                transfer.seal()
                self._is_complete = True
        elif self.is_waiting and self.source.is_readable:
            transfer.expose({c: each.last for c, each in self.source.groups.items()})
            self._is_complete = True

    def _post(self, component: int, remote: list[int]) -> None:
        progress, posted = self.source.groups[component], self._posted[component]
        first = progress.span.stop - len(remote)
        for layers, low, high in _stretches(posted, progress.done):
            posted[slice(*layers)] = [high] * (layers[1] - layers[0])
            blocks = progress.blocks[low:high], remote[low - first : high - first]
            logger.debug("morikv: posting %s, layers %s", self.source.request_id, layers)
            plan = self._plan(self._map, {component: blocks})
            self.transfer.post(plan, layers=layers, ready=self.source.ready)


def _stretches(
    posted: list[int], done: list[int]
) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Neighbouring layers that lack the same blocks."""
    begin = 0
    lacking = list(zip(posted, done))
    for layer in range(1, len(lacking) + 1):
        if layer == len(lacking) or lacking[layer] != lacking[begin]:
            low, high = lacking[begin]
            if high > low:
                yield (begin, layer), low, high
            begin = layer


class Target(_Leg):
    """Decode: blocks that are read, or that prefill writes."""

    def __init__(self, request_id: str, load: Load) -> None:
        super().__init__()
        self.request_id, self.id = request_id, load.id
        self.load = load
        self._begin = time.monotonic()
        self._post_s = 0.0

    def open(self, context: Any, maps: Sequence[Map], about_us: bytes) -> None:
        """:param maps: one for each rank of prefill."""
        blocks = self.load.blocks
        if self.load.mode == PULL:
            expect = {c: len(mine) for c, mine in blocks.items()}
            self.transfer = context.transfer(
                self.id, maps, Mode.READ, Role.DST, self.load.epoch, expect=expect
            )
        else:
            self.transfer = context.transfer(
                self.id, maps, Mode.WRITE, Role.DST, self.load.epoch
            )
            for leg in range(len(maps)):
                self.transfer.expose(blocks, leg)
        count = sum(map(len, blocks.values()))
        logger.debug("morikv: requesting %s, %d blocks", self.request_id, count)
        self.transfer.request(about_us)

    def on_exposed(self, event: Event) -> None:
        assert self.transfer is not None
        units = {}
        for component, blocks in self.load.blocks.items():
            remote = event.units[component].remote if component in event.units else []
            if len(remote) < len(blocks):
                raise ValueError(
                    f"the prefill engine exposed {len(remote)} blocks; expected at least "
                    f"{len(blocks)}"
                )
            units[component] = blocks, list(remote[len(remote) - len(blocks) :])
        begin = time.monotonic()
        plan = self._plan(self.transfer.maps[event.leg], units)
        self.transfer.post(plan, event.leg)
        self.transfer.seal(event.leg)
        self._post_s += time.monotonic() - begin

    def figures(self) -> tuple[float, float, int, int]:
        """Seconds, seconds of posting, bytes, pieces."""
        assert self.transfer is not None
        info = self.transfer.query()
        return time.monotonic() - self._begin, self._post_s, info.bytes, info.posted
