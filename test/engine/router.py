#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""vLLM's HTTP servers of prefill and decode behind a router: tokens must be those of prefill alone.

    router.py MODEL {router|proxy} {moriio|moriio-push|mori-pull}

router: vllm-router. MoRIIOConnector registers both servers by its heartbeat. A server that is killed
leaves the router, which then refuses, and the next one is used. With mori-pull, morikv's connector,
the router is given both addresses, and passes prefill's kv_transfer_params on.
proxy: the messages of vLLM's moriio_toy_proxy_server.py (examples/disaggregated/disaggregated_serving,
01d1ea24): it takes the same heartbeats, and in WRITE mode (moriio-push) it requests both at once.
MODEL is a folder that model.py has made.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgpack
import zmq

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from ports import keep_ports  # noqa: E402

TOKENS, LIMIT_S = 8, 300
HOST = "127.0.0.1"


def body_of(prompt: list[int]) -> dict[str, Any]:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": TOKENS, "temperature": 0}
    return body | {"ignore_eos": True, "return_token_ids": True}


def post(url: str, body: dict[str, Any], **head: str) -> dict[str, Any] | None:
    """:return: the answer; None: one that is not 200. OSError: no answer."""
    head = {"Content-Type": "application/json"} | head
    ask = urllib.request.Request(url, json.dumps(body).encode(), head)
    try:
        with urllib.request.urlopen(ask, timeout=LIMIT_S) as answer:
            value: dict[str, Any] = json.load(answer)
            return value
    except urllib.error.HTTPError as error:
        print(f"{error.code}: {error.read()[:200]!r}", flush=True)
        return None
    except (OSError, http.client.HTTPException) as error:
        print(f"no answer: {error}", flush=True)
        raise OSError(str(error)) from error


def tokens_of(answer: dict[str, Any] | None) -> list[int] | None:
    if answer is None:
        return None
    tokens: list[int] = answer["choices"][0]["token_ids"]
    return tokens


class Server:
    all: list[Server] = []

    def __init__(self, name: str, module: str, *options: str) -> None:
        self.port = keep_ports()
        self.log = os.path.join(os.environ["LOGS"], f"router-{name}.log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, "--host", HOST, "--port", str(self.port), *options],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.all.append(self)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def answers(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"a server has ended: {self.log}")
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def complete(self, prompt: list[int]) -> list[int] | None:
        """:return: the tokens; None: an answer that is not 200."""
        try:
            return tokens_of(post(f"{self.url}/v1/completions", body_of(prompt)))
        except OSError as error:
            expect(self.process.poll() is None, f"the router has ended: {error}")
            return None

    def kill(self) -> None:
        """With its engine and its heartbeat, which are processes of their own."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Proxy:
    """The prefill and decode servers of the last heartbeats."""

    KEYS = {"http_address", "zmq_address", "dp_size", "tp_size", "transfer_mode"}

    def __init__(self, port: int) -> None:
        self.sides: dict[str, dict[str, Any]] = {}
        self.socket = zmq.Context.instance().socket(zmq.ROUTER)
        self.socket.bind(f"tcp://{HOST}:{port}")
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            beat = msgpack.loads(self.socket.recv_multipart()[1])
            if beat.get("type") in ("P", "D") and beat.keys() >= self.KEYS:
                self.sides[beat["type"]] = beat

    def complete(self, prompt: list[int]) -> list[int] | None:
        if len(self.sides) < 2:
            return None
        p, d = self.sides["P"], self.sides["D"]
        mode = p["transfer_mode"]
        expect(mode == d["transfer_mode"], f"{mode} and {d['transfer_mode']}")
        addresses = f"___prefill_addr_{p['zmq_address']}___decode_addr_{d['zmq_address']}"
        head = {"X-Request-Id": f"{addresses}_{uuid.uuid4().hex}"}

        def request(side: dict[str, Any], peer: dict[str, Any], tokens: int, **more: Any) -> Any:
            sizes = {"remote_dp_size": peer["dp_size"], "remote_tp_size": peer["tp_size"]}
            names = {"do_remote_decode": side is p, "do_remote_prefill": side is d}
            body = body_of(prompt) | {"stream": False, "max_tokens": tokens}
            body["kv_transfer_params"] = sizes | names | more
            return post(f"http://{side['http_address']}/v1/completions", body, **head)

        cache: dict[str, Any] = {"remote_engine_id": None, "remote_block_ids": None}
        cache["transfer_id"] = f"tx-{uuid.uuid4()}"
        with ThreadPoolExecutor(1) as pool:
            filled = pool.submit(request, p, d, 1, **cache)
            if mode == "READ":
                cache = {name: filled.result()["kv_transfer_params"][name] for name in cache}
            tokens = tokens_of(request(d, p, TOKENS, **cache))
            expect(filled.result() is not None, "prefill has refused a prompt")
        return tokens


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError(f"not in {LIMIT_S} s: {what}")
        time.sleep(0.5)


def expect(is_so: bool, text: str) -> None:
    if not is_so:
        raise AssertionError(text)


class Cluster:
    router: Server | Proxy

    def __init__(self, model: str, router: str, connector: str) -> None:
        self.model, self.connector = model, connector
        self.is_moriio = connector.startswith("moriio")
        self.discovery = keep_ports()
        self.prefill, self.decode = self.serve("kv_producer"), self.serve("kv_consumer")
        if router == "proxy":
            expect(self.is_moriio, "the proxy is for MoRIIOConnector")
            self.router = Proxy(self.discovery)
        for server in (self.prefill, self.decode):
            until(server.answers, "a server answers")
        if router == "router":
            self.router = self.start_router()

    def start_router(self) -> Server:
        options = ["--vllm-pd-disaggregation", "--disable-retries", "--policy", "round_robin"]
        options += ["--prometheus-port", str(keep_ports())]
        if self.is_moriio:
            options += ["--kv-connector", "moriio"]
            options += ["--vllm-discovery-address", f"{HOST}:{self.discovery}"]
        else:
            options += ["--prefill", self.prefill.url, "--decode", self.decode.url]
        router = Server("router", "vllm_router.launch_router", *options)
        until(router.answers, "the router answers")
        return router

    def has_lost_prefill(self) -> bool:
        with open(self.router.log, encoding="utf-8") as log:
            return "Remove Prefill" in log.read()

    def serve(self, role: str, life: int = 0) -> Server:
        http = keep_ports()
        config: dict[str, Any] = {"kv_role": role, "kv_load_failure_policy": "fail"}
        if self.is_moriio:
            config["kv_connector"] = "MoRIIOConnector"
            config["kv_connector_extra_config"] = {
                "host_ip": HOST,
                "proxy_ip": HOST,
                "proxy_ping_port": self.discovery,
                "http_port": http,
                "handshake_port": keep_ports(),
                "notify_port": keep_ports(),
                "read_mode": self.connector == "moriio",
            }
        else:
            config |= {
                "kv_connector": "MorikvConnector",
                "kv_connector_module_path": "morikv.vllm",
            }
        arguments = {"model": self.model, "served-model-name": "tiny", "dtype": "float32"}
        arguments |= {"block-size": "32", "max-model-len": "4352"}
        arguments["kv-transfer-config"] = json.dumps(config)
        options = ["--skip-tokenizer-init", "--enforce-eager", "--port", str(http)]
        for name, value in arguments.items():
            options += [f"--{name}", value]
        name = f"{config['kv_connector']}-{role}-{life}"
        server = Server(name, "vllm.entrypoints.openai.api_server", *options)
        server.port = http  # the connector registers it
        return server


def moved_bytes() -> int:
    """Of the fake devices of all processes of the wire, by their control."""
    total = 0
    for device in ("fake0", "fake1"):
        done = subprocess.run(
            [os.environ["VERBS_CTL"], "bytes", device],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        total += sum(map(int, done.stdout.split()))
    return total


def compare(cluster: Cluster, prompts: list[list[int]], bytes_a_token: int) -> None:
    before = moved_bytes()
    for prompt in prompts:
        got = cluster.router.complete(prompt)
        expect(got is not None, "the router has refused a prompt")
        moved = moved_bytes()
        size = (len(prompt) - 1) * bytes_a_token
        expect(moved - before >= size, f"{moved - before} bytes of {size} went over mori_rdma")
        before = moved
        expect(got == cluster.prefill.complete(prompt), "other tokens than those of prefill alone")


def run(model: str, router: str, connector: str) -> None:
    with open(f"{model}/prompts.json", encoding="ascii") as file:
        told = json.load(file)
    prompts, size = told["prompts"], told["bytes_a_token"]
    cluster = Cluster(model, router, connector)
    if cluster.is_moriio:
        until(lambda: cluster.router.complete(prompts[0]) is not None, "both have registered")
    compare(cluster, prompts[1:9], size)
    print(f"tokens through the {router}", flush=True)
    if cluster.is_moriio and router == "router":  # the proxy keeps servers that have ended
        cluster.prefill.kill()
        if connector == "moriio-push":  # decode would wait for blocks that prefill does not write
            until(cluster.has_lost_prefill, "the router has removed prefill")
        until(lambda: cluster.router.complete(prompts[9]) is None, "the router refuses")
        cluster.prefill = cluster.serve("kv_producer", life=1)
        until(cluster.prefill.answers, "the next prefill server answers")
        until(lambda: cluster.router.complete(prompts[9]) is not None, "it has registered")
        compare(cluster, prompts[10:13], size)
        print("prefill left, and the next one registered", flush=True)


if __name__ == "__main__":
    try:
        run(*sys.argv[1:4])
    finally:
        for each in Server.all:
            each.kill()
