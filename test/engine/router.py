#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""vLLM's HTTP servers of prefill and decode behind vllm-router: tokens must be those of prefill alone.

    router.py MODEL {moriio|mori-pull}

moriio: MoRIIOConnector registers both servers with the router by its heartbeat. A server that is
killed leaves the router, which then refuses, and the next one is used. mori-pull: morikv's
connector; the router is given both addresses, and passes prefill's kv_transfer_params on.
MODEL is what model.py has made.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from ports import keep_ports  # noqa: E402

TOKENS, LIMIT_S = 8, 300
HOST = "127.0.0.1"


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
        body = {"model": "tiny", "prompt": prompt, "max_tokens": TOKENS, "temperature": 0}
        body |= {"ignore_eos": True, "return_token_ids": True}
        head = {"Content-Type": "application/json"}
        ask = urllib.request.Request(
            f"{self.url}/v1/completions", json.dumps(body).encode(), head
        )
        try:
            with urllib.request.urlopen(ask, timeout=LIMIT_S) as answer:
                tokens: list[int] = json.load(answer)["choices"][0]["token_ids"]
                return tokens
        except urllib.error.HTTPError as error:
            print(f"{error.code}: {error.read()[:200]!r}", flush=True)
            return None
        except (OSError, http.client.HTTPException) as error:
            expect(self.process.poll() is None, f"the router has ended: {error}")
            print(f"no answer: {error}", flush=True)
            return None

    def kill(self) -> None:
        """With its engine and its heartbeat, which are processes of their own."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


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
    def __init__(self, model: str, connector: str) -> None:
        self.model, self.is_moriio = model, connector == "moriio"
        self.discovery = keep_ports()
        self.prefill, self.decode = self.serve("kv_producer"), self.serve("kv_consumer")
        options = ["--vllm-pd-disaggregation", "--disable-retries", "--policy", "round_robin"]
        options += ["--prometheus-port", str(keep_ports())]
        for server in (self.prefill, self.decode):
            until(server.answers, "a server answers")
        if self.is_moriio:
            options += ["--kv-connector", "moriio"]
            options += ["--vllm-discovery-address", f"{HOST}:{self.discovery}"]
        else:
            options += ["--prefill", self.prefill.url, "--decode", self.decode.url]
        self.router = Server("router", "vllm_router.launch_router", *options)
        until(self.router.answers, "the router answers")

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
                "read_mode": True,
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


def run(model: str, connector: str) -> None:
    with open(f"{model}/prompts.json", encoding="ascii") as file:
        told = json.load(file)
    prompts, size = told["prompts"], told["bytes_a_token"]
    cluster = Cluster(model, connector)
    if cluster.is_moriio:
        until(lambda: cluster.router.complete(prompts[0]) is not None, "both have registered")
    compare(cluster, prompts[1:9], size)
    print("tokens through the router", flush=True)
    if cluster.is_moriio:
        cluster.prefill.kill()
        until(lambda: cluster.router.complete(prompts[9]) is None, "the router refuses")
        cluster.prefill = cluster.serve("kv_producer", life=1)
        until(cluster.prefill.answers, "the next prefill server answers")
        until(lambda: cluster.router.complete(prompts[9]) is not None, "it has registered")
        compare(cluster, prompts[10:13], size)
        print("prefill left, and the next one registered", flush=True)


if __name__ == "__main__":
    try:
        run(sys.argv[1], sys.argv[2])
    finally:
        for each in Server.all:
            each.kill()
