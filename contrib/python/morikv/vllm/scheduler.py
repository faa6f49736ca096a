# SPDX-License-Identifier: BSD-3-Clause
"""The scheduler's side: which blocks of which requests move, and when they are free."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from typing import Any

from vllm.v1.request import RequestStatus

from .caches import STATE, Blocks, Group, backoff
from .orders import PULL, PUSH, Load, Orders, Step

_COMPLETE = (RequestStatus.FINISHED_LENGTH_CAPPED, RequestStatus.FINISHED_STOPPED)
#: Between two words of a decode engine that a request still waits there, in seconds.
_KEEP_S = 5.0


class Scheduler:
    def __init__(self, groups: list[Group], extra: dict[str, Any]) -> None:
        self.peers: list[str] = []
        self._groups, self._backoff = groups, backoff(groups)
        self._mode = PUSH if extra.get("push") else PULL
        self._orders = Orders()
        self._sending: dict[str, tuple[int, int]] = {}
        self._loading: set[str] = set()
        self._waiting: dict[str, tuple[int, list[str]]] = {}
        self._kept = 0.0

    def on_new_request(self, request: Any) -> None:
        params = request.kv_transfer_params or {}
        if params.get("do_remote_decode"):
            id = params.get("id") or secrets.randbits(63)
            self._shorten(request, params)
            self._sending[request.request_id] = (id, request.num_prompt_tokens)
        elif params.get("do_remote_prefill"):
            self._waiting[request.request_id] = (params["id"], params["peers"])

    def _shorten(self, request: Any, params: dict[str, Any]) -> None:
        """Prefill ends where decode begins: a state is of one token alone, and a window's
        first block is given away by the token behind the last."""
        count = self._backoff
        if not count or params.get("is_shortened") or request.num_prompt_tokens <= count:
            return
        params["is_shortened"] = True  # once, also if it is preempted
        if request.prompt_token_ids is not None:
            del request.prompt_token_ids[-count:]
        else:
            request.prompt_embeds = request.prompt_embeds[:-count]
        del request._all_token_ids[-count:]
        request.num_prompt_tokens -= count

    # ---- decode ----

    def num_remote_tokens(self, request: Any, num_computed: int) -> tuple[int, bool]:
        params = request.kv_transfer_params or {}
        count = request.num_prompt_tokens - self._backoff - num_computed
        return (count, True) if params.get("do_remote_prefill") and count > 0 else (0, False)

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
        params = request.kv_transfer_params or {}
        if not params.get("do_remote_prefill"):
            return
        params["do_remote_prefill"] = False  # once a request
        self._waiting.pop(request.request_id, None)
        if num_external == 0:
            self._orders.releases.append((params["id"], params["peers"]))
            return
        total = request.num_prompt_tokens - self._backoff
        self._loading.add(request.request_id)
        self._orders.loads[request.request_id] = Load(
            params["id"],
            params["peers"],
            params.get("mode", PULL),
            self._wanted(blocks, total, total - num_external),
        )

    def on_received(self, request_ids: Iterable[str]) -> None:
        self._loading.difference_update(request_ids)

    # ---- prefill, and both ----

    def take_orders(self, output: Any) -> Orders:
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
            self._orders.keeps = list(self._waiting.values())
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
        """:return: whether the blocks stay until they are told as sent, and the answer."""
        params = request.kv_transfer_params or {}
        if params.get("get_peers"):
            return False, {"peers": self.peers}
        self._waiting.pop(request.request_id, None)
        if params.get("do_remote_prefill"):  # it was never scheduled
            self._orders.releases.append((params["id"], params["peers"]))
        if request.request_id in self._loading:
            self._orders.aborts.append(request.request_id)
        if request.request_id not in self._sending:
            return False, None
        id, _total = self._sending.pop(request.request_id)
        if not any(blocks):
            return False, None
        is_complete = request.status in _COMPLETE
        self._orders.ended[request.request_id] = is_complete
        if not is_complete:
            return True, None
        answer = {"do_remote_prefill": True, "id": id, "mode": self._mode, "peers": self.peers}
        return True, answer
