#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# BM-02, PY-01
"""A toy of a disaggregated engine: a router, and prefill and decode instances with a made-up model.

    toy_pd.py router PORT
    toy_pd.py prefill|decode NAME ROUTER_PORT
    toy_pd.py bench [BACKEND..]          # all of them, by each MORIKV_BACKEND, three times; default auto

Start them in any order: instances call the router until it answers, and repeat the call as their
heartbeat. The router answers GET /health with 200 when a prefill and a decode instance have
connected (PEER_READY), and POST /generate {"tokens": [..], "max_tokens": n}: decode shows its
blocks, prefill writes the caches into them, and the first token comes with DONE. An instance that
does not answer is forgotten, and may come back under its name.

The model's next token depends on every byte of the caches, so that a wrong one shows.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import itertools
import json
import os
import queue
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import morikv
from morikv import EventType, Mode, Role

ENTRY = 16  #: bytes of the caches for a token
BLOCK_TOKENS = 4
BLOCK = BLOCK_TOKENS * ENTRY
BLOCKS = 1024
LIMIT_S = 120
BEAT_S = 0.1
DEAD_S = 30.0

# ---- the model ----


def extend(cache, tokens):
    """Caches of all tokens so far: each entry depends on those before it."""
    state = bytes(cache[-ENTRY:])
    for token in tokens:
        state = hashlib.md5(state + token.to_bytes(4, "little")).digest()
        cache += state
    return cache


def next_token(cache):
    return int.from_bytes(hashlib.md5(cache).digest()[:2], "little")


def generate(tokens, max_tokens):
    """Generate in one process; every answer must equal it."""
    cache, made = extend(bytearray(), tokens), []
    while len(made) < max_tokens:
        made.append(next_token(cache))
        extend(cache, made[-1:])
    return made


# ---- HTTP ----


def call(port, path, body=None):
    """:return: status and answer. OSError: the server does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("POST" if body is not None else "GET", path, json.dumps(body))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except http.client.HTTPException as error:  # it died while it answered
        raise ConnectionError(str(error)) from error
    finally:
        connection.close()


def serve(port, routes):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            try:
                status, value = routes[self.path](json.loads(body) if body else None)
            except Exception as error:  # a failed request must not end the server
                status, value = 500, {"error": f"{type(error).__name__}: {error}"}
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = answer

        def log_message(self, *_args):
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


# ---- an instance ----


class Instance:
    def __init__(self, role, name, router):
        self.role, self.name, self.router = role, name, router
        self.memory = bytearray(BLOCKS * BLOCK)
        self.context = morikv.Context(name=name)
        self.context.add_region(self.memory, unit_bytes=BLOCK)
        self.context.commit()
        self.maps = {}  # of peers that are ready, by their names
        self.inboxes = {}
        self.free = list(range(BLOCKS))
        self.lock = threading.Condition()
        self.server = serve(0, {"/prefill": self.prefill, "/decode": self.decode})
        self.known = set()

    def listen(self):
        for event in self.context.events():
            if event.type == EventType.PEER_READY and event.peer is not None:
                with self.lock:
                    self.maps[event.peer.query().name] = event.peer.map()
            elif event.type in (EventType.PEER_FAILED, EventType.PEER_CLOSED):
                with self.lock:
                    gone = [n for n, m in self.maps.items() if m.peer is event.peer]
                    for name in gone:
                        del self.maps[name]
                if event.peer is not None:
                    event.peer.close(force=True)
            elif event.transfer is not None:
                self.inbox(event.id).put(event)

    def inbox(self, id):
        with self.lock:
            return self.inboxes.setdefault(id, queue.Queue())

    def wait(self, id, kind):
        while True:
            event = self.inbox(id).get(timeout=LIMIT_S)
            if event.type == kind:
                return event
            if event.type in (EventType.FAILED, EventType.ABORTED):
                raise RuntimeError(event.text)

    def take(self, num_tokens):
        need = -(-num_tokens // BLOCK_TOKENS)
        with self.lock:
            self.lock.wait_for(lambda: len(self.free) >= need, LIMIT_S)
            blocks, self.free = self.free[:need], self.free[need:]
        return blocks

    def give(self, id, blocks):
        with self.lock:
            self.inboxes.pop(id, None)
            self.free += blocks  # so that the next request gets other blocks, in another order
            self.lock.notify_all()

    def map_of(self, name):
        with self.lock:
            return self.maps[name]

    def prefill(self, ask):
        id, tokens = ask["id"], ask["tokens"]
        cache = extend(bytearray(), tokens)
        blocks = self.take(len(tokens))
        for i, block in enumerate(blocks):
            part = cache[i * BLOCK : (i + 1) * BLOCK]
            self.memory[block * BLOCK : block * BLOCK + len(part)] = part
        pairs = self.map_of(ask["decode"])
        transfer = self.context.transfer(id, [pairs], Mode.WRITE, Role.SRC)
        try:
            there = self.wait(id, EventType.EXPOSED).units[0].remote
            transfer.post(pairs.plan({0: (blocks, there)}))
            transfer.seal(data=next_token(cache).to_bytes(2, "little"))
        except Exception as error:
            transfer.abort(str(error))
            raise
        finally:
            while self.inbox(id).get(timeout=LIMIT_S).type != EventType.QUIET:
                pass
            transfer.close()
            self.give(id, blocks)
        return 200, {}

    def decode(self, ask):
        id, num, begin = ask["id"], ask["num_tokens"], time.monotonic()
        blocks = self.take(num)
        transfer = self.context.transfer(id, [self.map_of(ask["prefill"])], Mode.WRITE, Role.DST)
        try:
            transfer.expose({0: blocks})
            first = int.from_bytes(self.wait(id, EventType.DONE).data, "little")
            ttft_s = time.monotonic() - begin
        except Exception as error:
            transfer.abort(str(error))
            raise
        finally:
            while self.inbox(id).get(timeout=LIMIT_S).type != EventType.QUIET:
                pass
            transfer.close()
        cache = bytearray(b"".join(bytes(self.memory[b * BLOCK : (b + 1) * BLOCK]) for b in blocks))
        if "TOY_FORGET" in os.environ:  # wrong bytes, which a test of this example must notice
            cache = bytearray(len(cache))
        self.give(id, blocks)
        made = [first]
        del cache[num * ENTRY :]
        extend(cache, made)
        while len(made) < ask["max_tokens"]:
            made.append(next_token(cache))
            extend(cache, made[-1:])
        return 200, {"tokens": made, "ttft_s": ttft_s}

    def beat(self):
        """Report this instance to the router, and connect to the decode instances that it
        lists."""
        blob = base64.b64encode(self.context.blob()).decode()
        while True:
            try:
                with self.lock:
                    ready = sorted(self.maps)
                me = {"role": self.role, "name": self.name, "port": self.server.server_port,
                      "blob": blob, "ready": ready}  # fmt: skip
                for other in call(self.router, "/register", me)[1]["others"]:
                    if self.role == "prefill" and other["blob"] not in self.known:
                        self.known.add(other["blob"])
                        self.context.add_peer(base64.b64decode(other["blob"]))
            except OSError:
                pass  # the router has not started yet, or has ended
            time.sleep(BEAT_S)

    def run(self):
        threading.Thread(target=self.listen, daemon=True).start()
        threading.Thread(target=self.beat, daemon=True).start()
        self.server.serve_forever()


# ---- the router ----


class Router:
    def __init__(self, port):
        self.instances = {}
        self.lock = threading.Lock()
        self.ids = itertools.count(1)
        self.server = serve(
            port,
            {"/register": self.register, "/health": self.health, "/generate": self.generate},
        )

    def register(self, instance):
        with self.lock:
            self.instances[instance["name"]] = {**instance, "heard": time.monotonic()}
            others = [i for i in self.instances.values() if i["role"] != instance["role"]]
        return 200, {"others": [{"name": i["name"], "blob": i["blob"]} for i in others]}

    def pairs(self):
        """Pairs of living instances that have both reported their connection to each other.
        """
        late = time.monotonic() - DEAD_S
        with self.lock:
            alive = [i for i in self.instances.values() if i["heard"] > late]
        return [
            (p, d)
            for p in alive
            for d in alive
            if (p["role"], d["role"]) == ("prefill", "decode")
            and d["name"] in p["ready"]
            and p["name"] in d["ready"]
        ]

    def health(self, _ask):
        num = len(self.pairs())
        return 200 if num else 503, {"pairs": num}

    def forget(self, instance, why):
        with self.lock:
            if self.instances.get(instance["name"], {}).get("blob") == instance["blob"]:
                del self.instances[instance["name"]]
        return 503, {"error": f"{instance['name']}: {why}"}

    def generate(self, ask):
        id, pairs = next(self.ids), self.pairs()
        if not pairs:
            return 503, {"error": "no prefill and decode instances are ready"}
        prefill, decode = pairs[id % len(pairs)]
        answers = {}

        def do(instance, path, body):
            try:
                answers[path] = call(instance["port"], path, body)
            except OSError as error:
                answers[path] = self.forget(instance, error)

        first = threading.Thread(
            target=do,
            args=(prefill, "/prefill",
                  {"id": id, "tokens": ask["tokens"], "decode": decode["name"]}),
        )  # fmt: skip
        first.start()
        do(decode, "/decode", {"id": id, "num_tokens": len(ask["tokens"]),
                               "prefill": prefill["name"], "max_tokens": ask["max_tokens"]})  # fmt: skip
        first.join()
        status, answer = answers["/prefill"]
        return answers["/decode"] if status == 200 else (status, answer)


# ---- the benchmark ----


kept = []


def keep_port():
    """A port that stays reserved until this process ends. The kernel chooses it, and a bound
    socket that does not listen keeps it. Servers can listen there because they set
    SO_REUSEADDR."""
    kept.append(socket.socket())
    kept[-1].bind(("", 0))
    kept[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after bind(): no socket shares it
    return kept[-1].getsockname()[1]


def wait_until_healthy(port):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        try:
            if call(port, "/health")[0] == 200:
                return
        except OSError:
            pass  # there is no router yet
        time.sleep(0.02)
    raise TimeoutError(f"not healthy within {LIMIT_S} s")


def measure(port, num, max_tokens=16):
    """:return: mean time to the first token in ms, and tokens a second."""
    source = random.Random(1)
    asks = [
        {"tokens": [source.randrange(50000) for _ in range(256)], "max_tokens": max_tokens}
        for _ in range(num)
    ]
    begin = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda ask: call(port, "/generate", ask), asks))
    seconds = time.monotonic() - begin
    for ask, (status, answer) in zip(asks, answers):
        if status != 200 or answer["tokens"] != generate(**ask):
            raise RuntimeError(f"a wrong answer: {status} {answer}")
    ttft = statistics.mean(answer["ttft_s"] for _status, answer in answers)
    return ttft * 1e3, num * max_tokens / seconds


def bench(backends, num, repetitions=3):
    print(f"{num} prompts of 256 tokens, 16 tokens each, 4 at once, {repetitions} times, every token checked")
    for backend in backends:
        port, environment = keep_port(), {**os.environ, "MORIKV_BACKEND": backend}
        processes = [
            subprocess.Popen([sys.executable, __file__, *arguments, str(port)], env=environment)
            for arguments in (["prefill", "p"], ["decode", "d"], ["router"])
        ]
        try:
            wait_until_healthy(port)
            rows = [measure(port, num) for _ in range(repetitions)]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        told = []
        for name, values in zip(("TTFT ms", "tokens/s"), zip(*rows)):
            told.append(f"{name} {statistics.mean(values):.2f} +- {statistics.stdev(values):.2f}")
        print(f"{backend} | {' | '.join(told)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["router"] and len(sys.argv) == 3:
        Router(int(sys.argv[2])).server.serve_forever()
    elif sys.argv[1:2] in (["prefill"], ["decode"]) and len(sys.argv) == 4:
        Instance(sys.argv[1], sys.argv[2], int(sys.argv[3])).run()
    elif sys.argv[1:2] == ["bench"]:
        bench(sys.argv[2:] or ["auto"], int(os.environ.get("TOY_PROMPTS", "200")))
    else:
        sys.exit(__doc__)
