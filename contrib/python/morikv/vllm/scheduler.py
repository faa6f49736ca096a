# SPDX-License-Identifier: BSD-3-Clause
"""The scheduler's side: which blocks of which requests move, and when they are free."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Iterable
from typing import Any

from vllm.v1.request import RequestStatus

from .caches import STATE, Blocks, Group, backoff
from .orders import PULL, PUSH, Load, Orders, Step
from .params import Receive, Send, parse, wants_cache, wants_peers

logger = logging.getLogger("vllm.morikv")

_COMPLETE = (RequestStatus.FINISHED_LENGTH_CAPPED, RequestStatus.FINISHED_STOPPED)
#: Interval in seconds at which a decode engine reports that a request still waits there.
_KEEP_S = 5.0


class Scheduler:
    """Scheduler's side of the connector; called by the engine's thread alone."""

    def __init__(self, groups: list[Group], extra: dict[str, Any]) -> None:
        self.peers: list[str] = []
        self._groups, self._backoff = groups, backoff(groups)
        self._mode = PUSH if extra.get("push") else PULL
        self._orders = Orders()
        self._epochs = itertools.count()
        #: Requests whose cache will be sent: the transfer's id, and tokens.
        self._sending: dict[str, tuple[int, int]] = {}
        #: Requests that hold an id, until workers have reported them.
        self._ids: dict[int, str] = {}
        self._shortened: set[str] = set()
        self._loading: set[str] = set()
        #: Requests that have not requested their cache yet.
        self._waiting: dict[str, Receive] = {}
        #: Requests for a cache that cannot be loaded, because their parameters are wrong.
        self._bad: set[str] = set()
        self._kept = 0.0

    def on_new_request(self, request: Any) -> None:
        """Errors in its parameters are logged. A request without a cache to send is then an
        ordinary request; a missing cache to receive is handled by kv_load_failure_policy.
        """
        name = request.request_id
        try:
            asked = parse(request.kv_transfer_params)
            if isinstance(asked, Send):
                self._send(request, asked)
            elif asked is not None:
                self._waiting[name] = asked
        except ValueError as error:
            logger.warning("morikv: request %s: kv_transfer_params: %s", name, error)
            if wants_cache(request.kv_transfer_params):
                self._bad.add(name)

    def _send(self, request: Any, asked: Send) -> None:
        """:raises ValueError: another request has this id."""
        name = request.request_id
        id = secrets.randbits(63) if asked.id is None else asked.id
        if self._ids.setdefault(id, name) != name:
            raise ValueError(f"id {id} is that of request {self._ids[id]}; expected another one")
        self._shorten(request)
        # further tokens would change states, free a window's blocks, and be cached as the prompt's
        request.max_tokens = 1
        self._sending[name] = (id, request.num_prompt_tokens)

    def _shorten(self, request: Any) -> None:
        """Prefill ends where decode begins: a state is valid for one token alone, and the token
        after the last one frees a window's first block."""
        count = self._backoff
        name = request.request_id
        if not count or name in self._shortened or request.num_prompt_tokens <= count:
            return
        self._shortened.add(name)  # once, also if it is preempted
        if request.prompt_token_ids is not None:
            del request.prompt_token_ids[-count:]
        else:
            request.prompt_embeds = request.prompt_embeds[:-count]
        del request._all_token_ids[-count:]
        request.num_prompt_tokens -= count

    # ---- decode ----

    def num_remote_tokens(self, request: Any, num_computed: int) -> tuple[int, bool]:
        count = request.num_prompt_tokens - self._backoff - num_computed
        is_wanted = request.request_id in self._waiting or request.request_id in self._bad
        return (count, True) if is_wanted and count > 0 else (0, False)

    def _wanted(self, blocks: tuple[list[int], ...], total: int, computed: int) -> Blocks:
        wanted = {}
        for group in self._groups:
            mine, span = blocks[group.component], group.span(total)
            if group.kind == STATE:
                wanted[group.component] = group.state(mine)
            else:
                first = max(span.start, computed // group.block_size)
                wanted[group.component] = list(mine[first : span.stop])
        return wanted

    def on_blocks(
        self, request: Any, blocks: tuple[list[int], ...], num_external: int
    ) -> None:
        name = request.request_id
        if name in self._bad:
            self._bad.discard(name)
            if num_external > 0:
                self._loading.add(name)
                self._orders.failures.append(name)
            return
        asked = self._waiting.pop(name, None)
        if asked is None:
            return
        request.kv_transfer_params["do_remote_prefill"] = False  # once a request
        if num_external == 0:
            self._release(asked)
            return
        total = request.num_prompt_tokens - self._backoff
        self._loading.add(name)
        self._orders.loads[name] = Load(
            asked.id,
            list(asked.peers),
            asked.mode,
            self._wanted(blocks, total, total - num_external),
            next(self._epochs) % (1 << 32),
            self._others(asked),
        )

    def _others(self, asked: Receive) -> int:
        """Requests that wait for the same cache: samples of one prompt."""
        return sum(each == asked for each in self._waiting.values())

    def _release(self, asked: Receive) -> None:
        self._orders.releases.append((asked.id, list(asked.peers), self._others(asked)))

    def on_received(self, request_ids: Iterable[str]) -> None:
        self._loading.difference_update(request_ids)

    # ---- prefill, and both ----

    def take_orders(self, output: Any) -> Orders:
        self._orders.preempted = list(output.preempted_req_ids or ())
        for new in output.scheduled_new_reqs:
            self._add_step(output, new.req_id, new.block_ids, True, new.num_computed_tokens)
        cached = output.scheduled_cached_reqs
        for i, request_id in enumerate(cached.req_ids):
            blocks = cached.new_block_ids[i]
            is_fresh = request_id in cached.resumed_req_ids
            done = cached.num_computed_tokens[i]
            self._add_step(output, request_id, blocks, is_fresh, done)
        if self._waiting and time.monotonic() > self._kept + _KEEP_S:
            self._kept = time.monotonic()
            held = {(each.id, each.peers) for each in self._waiting.values()}
            self._orders.keeps = [(id, list(peers)) for id, peers in held]
        orders, self._orders = self._orders, Orders()
        return orders

    def _add_step(
        self,
        output: Any,
        request_id: str,
        blocks: tuple[list[int], ...] | None,
        is_fresh: bool,
        done: int,
    ) -> None:
        if request_id not in self._sending:
            return
        id, total = self._sending[request_id]
        tokens = min(done + output.num_scheduled_tokens[request_id], total)
        new = {}
        if blocks:
            new = {group.component: list(blocks[group.component]) for group in self._groups}
        self._orders.steps[request_id] = Step(id, new, is_fresh, tokens, total)

    def on_finished(
        self, request: Any, blocks: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        """:return: whether the blocks stay until workers report the request as sent, and the
        answer to the client."""
        if wants_peers(request.kv_transfer_params):
            return False, {"peers": self.peers}
        name = request.request_id
        self._bad.discard(name)
        self._shortened.discard(name)
        asked = self._waiting.pop(name, None)
        if asked is not None:  # the request was never scheduled
            self._release(asked)
        if name in self._loading:
            self._orders.aborts.append(name)
        if name not in self._sending:
            return False, None
        id, _total = self._sending.pop(name)
        if not any(blocks):  # the request was preempted, or never scheduled
            self._orders.drops[name] = id
            del self._ids[id]
            return False, None
        is_complete = request.status in _COMPLETE
        self._orders.ended[name] = is_complete
        if not is_complete:
            return True, None
        answer = {"do_remote_prefill": True, "id": id, "mode": self._mode, "peers": self.peers}
        return True, answer

    def on_sent(self, request_ids: Iterable[str]) -> None:
        """Workers have reported them: their ids are free."""
        sent = set(request_ids)
        for id in [id for id, name in self._ids.items() if name in sent]:
            del self._ids[id]
