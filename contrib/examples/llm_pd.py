#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# TS-01
"""Example of a connector: prefill on one GPU, decode on a second, a tiny LLM (tiny_llm.py).

    HIP_VISIBLE_DEVICES=1 llm_pd.py decode [PORT]         # prints its address; 0, the default: any port
    HIP_VISIBLE_DEVICES=0 llm_pd.py prefill http://127.0.0.1:PORT
    curl http://127.0.0.1:PORT/generate -d '{"prompt": "Once upon a time", "max_tokens": 16, "mode": "READ"}'

    llm_pd.py demo [PROMPT..]       # both, on GPUs 0 and 1, some prompts both ways, compared with one process

Decode receives a request, allocates blocks for it and requests the prompt's keys and values
from prefill. WRITE: prefill puts them there, each layer as soon as it is computed; the
first token comes with DONE. READ: prefill exposes its blocks when all are computed, with
the first token, and decode gets them. Block tables differ: the contents of block 7 of
prefill go to block 31 of decode.

The example handles one request at a time. toy_pd.py adds a router, several instances, and
instances that die and come back; the package's morikv/vllm is an engine's connector.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import subprocess
import sys
import urllib.request
from collections import deque
from http.server import BaseHTTPRequestHandler, HTTPServer

import tiny_llm

import morikv
from morikv import EventType, Mode, Role

BLOCKS = 128
LIMIT_S = 60
FAILURES = (EventType.FAILED, EventType.ABORTED)
READY = "ready: "
PROMPTS = ("Once upon a time", "KV", "The quick brown fox jumps over the lazy dog, and so on.")


class Instance:
    """Common part of both sides: the model, its cache, and a context with the cache's
    memory."""

    def __init__(self, role, seed):
        self.model = tiny_llm.Model()
        gpu = tiny_llm.Gpu()
        self.cache = tiny_llm.PagedCache(gpu, BLOCKS, seed)
        self.name = f"{role} on {gpu.bus_id()}"
        # the library's own thread answers peers while we compute or wait for a request
        self.context = morikv.Context(
            name=self.name,
            options={"PROGRESS_THREADS": "1"},
            page_tokens=tiny_llm.BLOCK_TOKENS,
            total_kv_heads=tiny_llm.KV_HEADS,
        )
        for (layer, part), base in self.cache.bases.items():
            memory = morikv.Memory(base, BLOCKS * tiny_llm.BLOCK_BYTES, morikv.memory.ROCM)
            self.context.add_region(
                memory, layer=layer, part=part, unit_bytes=tiny_llm.BLOCK_BYTES
            )
        self.context.commit()
        self.later = deque()

    def wait(self, kind, transfer=None):
        """Next event of a kind, of a transfer; other events are kept. RuntimeError: it has
        failed."""
        for event in self.context.events(LIMIT_S):
            if event.transfer is transfer and event.type == kind:
                return event
            if event.transfer is transfer and event.type in FAILURES:
                raise RuntimeError(event.text)
            self.keep(event)
        raise TimeoutError(f"no {kind.name} within {LIMIT_S} s")

    def keep(self, event):
        if event is not None and event.transfer is None:
            self.later.append(event)

    @contextlib.contextmanager
    def transfer(self, id, pairs, mode, role, table):
        """A transfer for the body, which is over when this returns. The blocks of a failed
        transfer are released only when they are not accessed any more."""
        transfer = self.context.transfer(id, [pairs], mode, role)
        try:
            yield transfer
            self.wait(EventType.QUIET, transfer)
        except Exception as error:
            transfer.abort(str(error))
            while not transfer.is_quiet:
                self.keep(next(self.context.events(LIMIT_S), None))
            self.cache.release(table)
            raise
        finally:
            transfer.close()


class Prefill(Instance):
    def __init__(self, url):
        super().__init__("prefill", seed=7)
        with urllib.request.urlopen(f"{url}/address", timeout=LIMIT_S) as answer:
            self.context.add_peer(base64.b64decode(answer.read()))
        self.pairs = self.wait(EventType.PEER_READY).peer.map()

    def run(self):
        while True:
            event = self.later.popleft() if self.later else next(self.context.events())
            if event.type == EventType.INCOMING:
                self.serve(event)
            elif event.type in (EventType.PEER_CLOSED, EventType.PEER_FAILED):
                return

    def serve(self, asked):
        tokens, mode = list(asked.data), Mode(asked.value)
        try:
            table = self.cache.allocate(len(tokens))
        except MemoryError as error:
            asked.peer.refuse(asked.id, asked.epoch, str(error))
            return
        try:
            with self.transfer(asked.id, self.pairs, mode, Role.SRC, table) as transfer:
                {Mode.WRITE: self.push, Mode.READ: self.show}[mode](transfer, tokens, table)
        except Exception as error:  # fails this request alone; decode is notified
            print(f"request {asked.id}: {error}", file=sys.stderr)
            return
        self.cache.release(table)

    def push(self, transfer, tokens, table):
        there = self.wait(EventType.EXPOSED, transfer).units[0].remote
        plan = self.pairs.plan({0: (table, there)})  # once, for all layers

        def post(layer):
            transfer.post(plan, layers=(layer, layer + 1))

        first = self.model.forward(tokens, 0, self.cache, table, computed=post)
        transfer.seal(data=self.beside(first))

    def show(self, transfer, tokens, table):
        first = self.model.forward(tokens, 0, self.cache, table)
        transfer.expose({0: table}, meta=self.beside(first))

    def beside(self, first):
        """Data for decode beside keys and values."""
        return json.dumps({"first": first, "paths": self.pairs.peer.query().paths}).encode()


class Decode(Instance):
    def __init__(self):
        super().__init__("decode", seed=8)
        self.ids = itertools.count(1)
        self.pairs = None

    def address(self):
        return base64.b64encode(self.context.blob())

    def connect(self):
        """Accept prefill's connection, which comes at any time before the first request."""
        if self.pairs is None:
            self.pairs = self.wait(EventType.PEER_READY).peer.map()

    def generate(self, ask):
        self.connect()
        tokens, max_tokens = list(ask["prompt"].encode()), int(ask.get("max_tokens", 16))
        mode = Mode[ask.get("mode", "WRITE")]
        if not tokens or max_tokens < 1:
            raise ValueError("an empty prompt, or no tokens are wanted")
        table = self.cache.allocate(len(tokens) + max_tokens)
        beside = self.fetch(tokens, table, mode)
        made = self.model.decode(beside["first"], len(tokens), max_tokens, self.cache, table)
        self.cache.release(table)
        prefill = self.pairs.peer.query()
        return {
            "tokens": made,
            "text": bytes(made).decode("latin-1"),
            "instances": [prefill.name, self.name],
            "backend": prefill.backend.name,
            "paths": [beside["paths"], prefill.paths],  # transports for puts, for gets
        }

    def fetch(self, tokens, table, mode):
        """Keys and values of the prompt. :return: prefill's answer beside them."""
        mine = table[: tiny_llm.blocks_of(len(tokens))]
        with self.transfer(next(self.ids), self.pairs, mode, Role.DST, table) as transfer:
            if mode == Mode.WRITE:
                transfer.expose({0: mine})
                transfer.request(bytes(tokens))
                return json.loads(self.wait(EventType.DONE, transfer).data)
            transfer.request(bytes(tokens))
            shown = self.wait(EventType.EXPOSED, transfer)
            transfer.post(self.pairs.plan({0: (mine, shown.units[0].remote)}))
            transfer.seal()
            return json.loads(shown.data)


# ---- HTTP ----


def server(decode, port):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(lambda: decode.address(), {"/address"})

        def do_POST(self):
            self.answer(self.generate, {"/generate"})

        def generate(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return json.dumps(decode.generate(json.loads(body))).encode()

        def answer(self, make, paths):
            try:
                status, data = (200, make()) if self.path in paths else (404, b"")
            except Exception as error:  # a failed request must not end the server
                told = {"error": f"{type(error).__name__}: {error}"}
                status, data = 500, json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_args):
            pass

    return HTTPServer(("127.0.0.1", port), Handler)


def generate(url, prompt, max_tokens=16, mode="WRITE"):
    """Request of a proxy or a user. urllib.error.HTTPError: the request failed."""
    ask = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "mode": mode}).encode()
    with urllib.request.urlopen(f"{url}/generate", ask, timeout=2 * LIMIT_S) as answer:
        return json.loads(answer.read())


# ---- both on this host ----


@contextlib.contextmanager
def deployment(**programs):
    """Decode and prefill, on the first two GPUs that we see, until the body's end.

    :param programs: what to run in place of this file, by "prefill" and "decode".
    :return: decode's address.
    """
    gpus = os.environ.get("HIP_VISIBLE_DEVICES", "0,1").split(",")
    processes = []

    def start(role, gpu, *arguments):
        process = subprocess.Popen(
            [sys.executable, *programs.get(role, [__file__]), role, *arguments],
            env={**os.environ, "HIP_VISIBLE_DEVICES": gpu},
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        for line in process.stdout:  # UCX may print lines, too
            if line.startswith(READY):
                return line[len(READY) :].strip()
        raise RuntimeError(f"{role} has not started")

    try:
        url = start("decode", gpus[1])
        start("prefill", gpus[0], url)
        yield url
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def demo(prompts):
    cache = tiny_llm.PagedCache(tiny_llm.Gpu(), BLOCKS, seed=0)
    model, different = tiny_llm.Model(), 0
    with deployment() as url:
        for prompt in prompts:
            alone = model.generate(list(prompt.encode()), 16, cache)
            for mode in Mode:
                answer = generate(url, prompt, 16, mode.name)
                verdict = "equal" if answer["tokens"] == alone else f"DIFFERENT from {alone}"
                different += verdict != "equal"
                print(f"{mode.name} {prompt!r}: {answer['tokens']}, {verdict}")
    print(f"{' and '.join(answer['instances'])}, by {answer['backend']}: {answer['paths']}")
    return f"{different} answers differ" if different else 0


def main(role=None, *arguments):
    if role == "decode" and len(arguments) <= 1:
        front = server(Decode(), int(arguments[0]) if arguments else 0)
        print(f"{READY}http://127.0.0.1:{front.server_port}", flush=True)
        front.serve_forever()
    elif role == "prefill" and len(arguments) == 1:
        instance = Prefill(arguments[0])
        print(f"{READY}{instance.name}", flush=True)
        instance.run()
    elif role == "demo":
        return demo(arguments or PROMPTS)
    else:
        return __doc__


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
