#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""vLLM's prefill and decode as two processes: tokens must be those of one engine.

    disagg.py MODEL {nixl|moriio|moriio-push|mori-pull|mori-push} CASE..

Cases:
    tokens    all prompts at once: tokens equal those of one engine without any connector
    swapped   each prompt decodes with the next one's cache: tokens are the next one's
    prefixes  the beginnings of prompts are cached on both sides
    killed    prefill is killed; decode computes by itself, or fails as configured, then takes
              caches of the next prefill engine

A line of the used paths follows. MODEL is a folder that model.py has made.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from ports import keep_ports  # noqa: E402

TOKENS = 8
#: Line that decode, and in push mode prefill, logs (DEBUG) when a request's blocks begin to
#: move.
MOVES = {
    "nixl": "calling _read_blocks",
    "moriio": "calling _read_blocks",
    "mori-pull": "morikv: requesting",
    "mori-push": "morikv: posting",
}


class Engine:
    """A process with one engine."""

    all: list[Engine] = []
    ports: dict[str, int]

    def __init__(self, model: str, name: str, config: dict[str, Any], **env: str) -> None:
        reads, writes = os.pipe()
        self.name = name
        self.log = open(os.path.join(os.environ["LOGS"], f"{name}.log"), "w")
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "side.py"), model, str(writes)],
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            pass_fds=[writes],
            env=os.environ | env | {"PYTHONFAULTHANDLER": "1"},
            text=True,
        )
        os.close(writes)
        self.answers = os.fdopen(reads)
        self.all.append(self)
        self.send({"engine": config})

    def send(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        line = self.answers.readline()
        if not line:
            status = self.process.wait()
            raise RuntimeError(f"{self.name} has ended with {status}: {self.log.name}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def run(
        self, prompts: list[list[int]], tokens: int, transfer: list[Any] | None = None
    ) -> dict[str, Any]:
        self.order(prompts, tokens, transfer)
        return self.answer()

    def order(
        self, prompts: list[list[int]], tokens: int, transfer: list[Any] | None = None
    ) -> None:
        self.log_start = os.path.getsize(self.log.name)
        transfer = transfer or [None] * len(prompts)
        self.send({"prompts": prompts, "tokens": tokens, "transfer": transfer})

    def wait_for_log(self, text: str, times: int) -> None:
        """Wait until a line has been logged so many times since the last order."""
        end = time.monotonic() + 120
        while time.monotonic() < end and self.process.poll() is None:
            with open(self.log.name, encoding="utf-8") as log:
                if log.read()[self.log_start :].count(text) >= times:
                    return
            time.sleep(0.01)
        raise RuntimeError(f"{self.name} has no '{text}': {self.log.name}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def transfer_config(
    connector: str, role: str, policy: str, ports: dict[str, int]
) -> dict[str, Any]:
    config: dict[str, Any] = {"kv_role": role, "kv_load_failure_policy": policy}
    if connector == "nixl":
        config |= {"kv_connector": "NixlConnector"}
    elif connector.startswith("moriio"):
        config |= {"kv_connector": "MoRIIOConnector"}
        config["kv_connector_extra_config"] = ports | {
            "host_ip": "127.0.0.1",
            "read_mode": connector == "moriio",
        }
    else:
        config |= {"kv_connector": "MorikvConnector", "kv_connector_module_path": "morikv.vllm"}
        config["kv_connector_extra_config"] = {"push": connector == "mori-push"}
    return config


def settings(model: str) -> dict[str, Any]:
    """morikv's connector moves the last state, and not those of prefixes. The last digits of
    convolutions depend on the other requests of the batch, so requests are sent one by one."""
    if not model.endswith("states"):
        return {}
    return {"enable_prefix_caching": False, "max_num_seqs": 1}


def start(model: str, connector: str, role: str, policy: str, life: int = 0) -> Engine:
    """:param life: of a process that is started again. MoRIIOConnector identifies engines by
    their ports alone, and each further rank has the next port."""
    ranks = int(os.environ.get("PREFILL_TP", "1")) if role == "kv_producer" else 1
    ports = {name: keep_ports(ranks) for name in ("handshake_port", "notify_port", "http_port")}
    engine = Engine(
        model,
        f"{connector}-{role}-{policy}-{life}",
        settings(model)
        | {"kv_transfer_config": transfer_config(connector, role, policy, ports)}
        | ({"tensor_parallel_size": ranks} if ranks > 1 else {}),
        VLLM_NIXL_SIDE_CHANNEL_PORT=str(ports["handshake_port"]),
        # MoRIIOConnector accepts a cache only at the start of a page: PyTorch's memory in
        # huge pages is
        THP_MEM_ALLOC_ENABLE="1",
        # and in WRITE mode it requests an event of each layer from torch.cuda
        CUDA_EVENTS="done" if connector == "moriio-push" else "",
    )
    engine.ports = ports
    return engine


class Pair:
    """A prefill and a decode engine."""

    def __init__(self, model: str, connector: str, policy: str, bytes_a_token: int) -> None:
        self.bytes_a_token = bytes_a_token
        self.model, self.connector, self.policy = model, connector, policy
        self.p = start(model, connector, "kv_producer", policy)
        self.d = start(model, connector, "kv_consumer", policy)
        self.is_push = connector.endswith("push")
        #: Tokens that prefill is requested to generate; morikv's connector ends it after one.
        self.num_first = TOKENS if connector.startswith("mori-") else 1
        self.ids = itertools.count(1)

    def wait(self) -> None:
        self.d.answer()
        self.meet()

    def revive(self) -> None:
        """Start prefill again."""
        self.p = start(self.model, self.connector, "kv_producer", self.policy, life=1)
        self.meet()

    def meet(self) -> None:
        self.p.answer()
        if self.connector == "mori-push":  # where decode finds prefill: queried once
            result = self.p.run([[2, 3]], 1, [{"get_peers": True}])
            self.peers = result["transfer"][0]["peers"]

    def prefill(self, prompts: list[list[int]]) -> list[Any]:
        """:return: parameters for the decode engine, for each prompt."""
        goal = {"do_remote_decode": True}
        ids = [f"t{next(self.ids)}" for _ in prompts]
        of_mori = [goal | {"transfer_id": id} for id in ids]  # MORI's connector requires one, from the router
        result = self.p.run(prompts, self.num_first, of_mori if self.connector == "moriio" else [goal] * len(ids))
        transfer: list[Any] = result["transfer"]
        return transfer

    def begin_push(self, prompts: list[list[int]], asked: list[list[int]]) -> None:
        """A router that pushes gives both engines the request, under one id."""
        ids = [next(self.ids) for _ in prompts]
        if self.connector == "mori-push":
            goal = {"do_remote_prefill": True, "mode": "push", "peers": self.peers}
            asks = [goal | {"id": id} for id in ids]
            params = [{"do_remote_decode": True, "id": id} for id in ids]
        else:  # MORI's router sends each the other's ports
            asks = [self.of_moriio("do_remote_prefill", self.p, id) for id in ids]
            params = [self.of_moriio("do_remote_decode", self.d, id) for id in ids]
        self.d.order(asked, TOKENS, asks)
        self.p.order(prompts, self.num_first, params)

    @staticmethod
    def of_moriio(goal: str, other: Engine, id: int) -> dict[str, Any]:
        return {
            goal: True,
            "transfer_id": f"w{id}",
            "remote_host": "127.0.0.1",
            "remote_handshake_port": other.ports["handshake_port"],
            "remote_notify_port": other.ports["notify_port"],
            "remote_engine_id": None,
            "remote_block_ids": None,
            "remote_tp_size": 1,
        }

    def move(self, prompts: list[list[int]], asked: list[list[int]]) -> dict[str, Any]:
        """Prefill these; decode with other names for them."""
        if not self.is_push:
            return self.d.run(asked, TOKENS, self.prefill(prompts))
        self.begin_push(prompts, asked)
        self.p.answer()
        return self.d.answer()

    def kill(self, prompts: list[list[int]]) -> dict[str, Any]:
        """When blocks begin to move, no further bytes arrive; then prefill is killed."""
        devices = ("fake0", "fake1")
        if self.is_push:
            self.begin_push(prompts, prompts)
            self.p.wait_for_log(MOVES[self.connector], 1)
        transfer = None if self.is_push else self.prefill(prompts)
        for device in devices:
            wire("lose", device, "on")
        try:
            if not self.is_push:
                self.d.order(prompts, TOKENS, transfer)
                self.d.wait_for_log(MOVES[self.connector], len(prompts))
            self.p.kill()
        finally:  # the next pair uses the same wire
            for device in devices:
                wire("lose", device, "off")
        return self.d.answer()


def expect(is_so: bool, text: str) -> None:
    if not is_so:
        raise AssertionError(text)


def differing(left: list[Any], right: list[Any]) -> list[int]:
    return [i for i, pair in enumerate(zip(left, right)) if pair[0] != pair[1]]


def others(prompts: list[list[int]], salt: int) -> list[list[int]]:
    """Different prompts of the same lengths and last tokens, which are in no cache."""
    return [[2 + (token * 7 + salt) % 509 for token in prompt[:-1]] + [7] for prompt in prompts]


def tokens(pair: Pair, prompts: list[list[int]], alone: list[list[int]]) -> None:
    got = pair.move(prompts, prompts)
    wrong = differing(got["tokens"], alone)
    expect(not wrong, f"prompts {wrong} have other tokens than in one engine")
    size = sum(len(prompt) - 1 for prompt in prompts) * pair.bytes_a_token
    moved = sum(sum(map(int, wire("bytes", device).split())) for device in ("fake0", "fake1"))
    expect(moved >= size, f"{moved} bytes of {size} went over mori_rdma")


def swapped(pair: Pair, prompts: list[list[int]], alone: list[list[int]]) -> None:
    """Decode gets different prompts with the caches of these. Its answers are then those of the
    moved caches, as it computes nothing but the last token itself."""
    got = pair.move(prompts, others(prompts, 1))
    wrong = differing(got["tokens"], alone)
    expect(not wrong, f"prompts {wrong} do not follow the cache that was moved")


def prefixes(pair: Pair, prompts: list[list[int]], alone: list[list[int]]) -> None:
    """Longer prompts, of which both have a prefix in their caches; and one all of it."""
    longer = [prompt[:-1] + [9] * 70 + [7] for prompt in prompts[5:9]] + [prompts[12]]
    got = pair.move(longer, longer)
    again = pair.move(longer, others(longer, 3))
    wrong = differing(got["tokens"], again["tokens"])
    expect(not wrong, f"prompts {wrong} have other tokens than with a whole cache")


def wire(*order: str) -> str:
    """The fake devices of all processes of the wire, by their control."""
    done = subprocess.run(
        [os.environ["VERBS_CTL"], *order], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def killed(pair: Pair, prompts: list[list[int]], alone: list[list[int]]) -> None:
    lost = others(prompts[-4:], 2)
    pair.move(prompts[:1], prompts[:1])  # they are connected
    got = pair.kill(lost)
    if pair.policy == "recompute":
        again = pair.d.run(lost, TOKENS)["tokens"]
        wrong = differing(got["tokens"], again)
        expect(not wrong, f"prompts {wrong} were not computed again")
    else:
        ok = [i for i, reason in enumerate(got["reasons"]) if reason != "error"]
        expect(not ok, f"prompts {ok} did not fail: {got['reasons']}")
    pair.revive()
    after = pair.move(prompts[:3], others(prompts[:3], 4))
    expect(after["tokens"] == alone[:3], "decode does not take caches of a new prefill engine")


def tokens_of_one(model: str, prompts: list[list[int]]) -> list[list[int]]:
    """Tokens of an engine that has no connector; computed once for a model."""
    kept = f"{model}/tokens.json"
    if not os.path.exists(kept):
        one = Engine(model, "one", settings(model))
        one.answer()
        alone = one.run(prompts, TOKENS)["tokens"]
        one.stop()
        expect(len({tuple(each) for each in alone}) == len(alone), "prompts have equal tokens")
        with open(kept, "w", encoding="ascii") as file:
            json.dump(alone, file)
    with open(kept, encoding="ascii") as file:
        result: list[list[int]] = json.load(file)
    return result


def run(model: str, connector: str, cases: list[str]) -> None:
    with open(f"{model}/prompts.json", encoding="ascii") as file:
        result = json.load(file)
    prompts = result["prompts"]
    begin = time.monotonic()
    try:
        alone = tokens_of_one(model, prompts)
        print(f"one engine: {time.monotonic() - begin:.0f} s", flush=True)
        for policy in ("fail", "recompute"):
            mine = [case for case in cases if policy == "fail" or case == "killed"]
            if connector == "moriio" and policy != "fail":
                continue  # it treats every request of decode as one that prefill computes
            if not mine:
                continue
            pair = Pair(model, connector, policy, result["bytes_a_token"])
            pair.wait()
            for case in mine:
                globals()[case](pair, prompts, alone)
                print(f"{case} ({policy}): {time.monotonic() - begin:.0f} s", flush=True)
            pair.p.stop()
            pair.d.stop()
    finally:
        for engine in Engine.all:
            if engine.process.poll() is None:
                engine.process.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[3:])
