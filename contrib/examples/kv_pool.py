#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# XM-08
"""A pool of KV blocks in a process of its own: engines store blocks of their GPU by key, and load them.

    kv_pool.py serve SOCKET [MIB [BLOCK]]     # the pool, until it is stopped
    kv_pool.py demo                           # a pool and three engines, one of them killed; bytes compared
    kv_pool.py bench                          # store and load 256 blocks of 4 KiB and more

The pool's memory is a memfd, so that engines of the host map it, and their GPU copies to and from it
without a buffer in between. The pool itself moves nothing: it has an index of keys, evicts what was used
longest ago, and reserves slots. A slot has one of three states: free, being stored, or in the index; a
slot in the index stays while engines load it.

An engine that dies gives its slots back. Those that it may be writing to are free again when its write is
quiet, or when its process has ended; not when its connection has: a living process may still write.
"""

from __future__ import annotations

import base64
import collections
import fcntl
import hashlib
import itertools
import json
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import morikv
import tiny_llm
from morikv import EventType, Mode

STORE, STORED, LOAD, END, COUNT = range(5)  # requests, as types of messages; the answer has the same
LIMIT_S = 120

# ---- the pool ----


class Pool:
    def __init__(self, path, mebibytes=1024, block=16384):
        size = mebibytes << 20
        self.block, self.num_slots = block, size // block
        memory = os.memfd_create("kv-pool", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, size)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)  # engines map it
        self.context = morikv.Context(name=f"pool {os.getpid()}")
        self.region = self.context.add_region(mmap.mmap(memory, size), one_sided=True)
        self.context.commit()
        self.index = collections.OrderedDict()  # slots by key, the one used longest ago first
        self.num_loads = collections.Counter()  # by slot
        self.free = list(range(self.num_slots))
        self.requests = {}  # (engine, id): kind and slots by key
        self.processes = {}  # pidfds by the engine's name
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(f"{path}.new")
        self.server.listen()
        os.rename(f"{path}.new", path)  # an engine that finds it can connect

    def welcome(self):
        """Send each new engine the pool's location. The kernel vouches for the engines' pids."""
        while True:
            connection, _address = self.server.accept()
            try:
                with connection:
                    self.welcome_one(connection)
            except OSError as error:
                report("an engine did not connect", error)

    def welcome_one(self, connection):
        connection.settimeout(LIMIT_S)
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        engine = f"engine {struct.unpack('3i', credentials)[0]}"
        if engine not in self.processes:
            self.processes[engine] = os.pidfd_open(int(engine.split()[1]))
        blob = base64.b64encode(self.context.blob(full=True)).decode()
        answer = {"blob": blob, "region": self.region.id, "block": self.block}
        connection.sendall(json.dumps(answer).encode())

    def take_slot(self):
        """:return: a free slot, else the least recently used one; None: all are in use."""
        if not self.free:
            for key, slot in self.index.items():
                if not self.num_loads[slot]:
                    self.free.append(self.index.pop(key))
                    break
        return self.free.pop() if self.free else None

    def store(self, keys):
        """:return: slots by key, for those that are new and fit."""
        busy = {k for kind, slots in self.requests.values() if kind == STORE for k in slots}
        slots = {}
        for key in keys:
            if key not in self.index and key not in busy and key not in slots:
                slot = self.take_slot()
                if slot is None:
                    break
                slots[key] = slot
        return slots

    def load(self, keys):
        slots = {key: self.index[key] for key in keys if key in self.index}
        for key, slot in slots.items():
            self.num_loads[slot] += 1
            self.index.move_to_end(key)
        return slots

    def end(self, engine, id, is_stored=False):
        kind, slots = self.requests.pop((engine, id), (END, {}))
        if kind == LOAD:
            self.num_loads.subtract(slots.values())
        elif is_stored:
            self.index.update(slots)
        else:
            self.free += slots.values()

    def on_request(self, event, engine):
        kind, slots = event.value, {}
        if kind in (STORE, LOAD):
            keys = [str(key) for key in json.loads(event.data)]
            if kind == LOAD:
                slots = self.load(keys)
            elif engine in self.processes:  # else its end would not be seen
                slots = self.store(keys)
            if slots:
                self.requests[engine, event.id] = kind, slots
        elif kind in (STORED, END):
            self.end(engine, event.id, kind == STORED)
        else:
            slots = {"free": len(self.free), "stored": len(self.index), "slots": self.num_slots}
        event.peer.send(event.id, kind, data=json.dumps(slots).encode())

    def end_all(self, engine, kinds):
        for (name, id), (kind, _slots) in list(self.requests.items()):
            if name == engine and kind in kinds:
                self.end(name, id)

    def on_event(self, event):
        engine = event.peer.query().name if event.peer is not None else ""
        if event.type == EventType.MSG:
            self.on_request(event, engine)
        elif event.type in (EventType.PEER_FAILED, EventType.PEER_CLOSED):
            self.end_all(engine, (LOAD,))
            event.peer.close(force=True)

    def collect(self):
        """Free the slots of engines after the end of their process."""
        for engine, process in list(self.processes.items()):
            if select.select([process], [], [], 0)[0]:
                self.end_all(engine, (STORE, LOAD))
                del self.processes[engine]
                os.close(process)

    def run(self):
        threading.Thread(target=self.welcome, daemon=True).start()
        while True:
            for event in self.context.events(timeout=0.1):
                try:
                    self.on_event(event)
                except (morikv.MorikvError, ValueError, TypeError) as error:
                    report("a request failed", error)
                self.collect()
            self.collect()


def report(text, error):
    print(f"kv_pool.py: {text}: {error}", file=sys.stderr, flush=True)


# ---- an engine ----


class Engine:
    """The pool as an engine uses it. Blocks are those of `memory`, by their numbers."""

    def __init__(self, path, memory):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(LIMIT_S)
            connection.connect(path)
            answer = json.loads(connection.makefile().read())
        self.block, self.there, self.ids = answer["block"], answer["region"], itertools.count(1)
        self.messages, self.moved_s = [], 0.0  # seconds of the last move alone
        self.context = morikv.Context(name=f"engine {os.getpid()}")
        self.region = self.context.add_region(memory)
        self.context.commit()
        self.peer = self.context.add_peer(base64.b64decode(answer["blob"]))
        self.wait(lambda event: event.type == EventType.PEER_READY)

    def wait(self, is_wanted):
        """:return: an event; messages that come before it are kept for later calls."""
        for event in self.messages:
            if is_wanted(event):
                self.messages.remove(event)
                return event
        for event in self.context.events(timeout=LIMIT_S):
            if is_wanted(event):
                return event
            if event.type == EventType.PEER_FAILED:
                raise ConnectionError(event.text)
            if event.type == EventType.MSG:
                self.messages.append(event)
        raise TimeoutError(f"the pool does not answer within {LIMIT_S} s")

    def request(self, kind, id, keys=()):
        self.peer.send(id, kind, data=json.dumps(list(keys)).encode())
        answer = self.wait(lambda event: event.type == EventType.MSG and event.id == id)
        return json.loads(answer.data or b"{}")

    def move(self, mode, id, slots, blocks):
        """:return: whether nothing moves any more, and the operation's status."""
        here = [blocks[key] * self.block for key in slots]
        there = [slot * self.block for slot in slots.values()]
        begin = time.perf_counter()
        operation = self.peer.post(
            mode, self.region, self.there, here, there, self.block, id=id
        )
        self.wait(lambda event: event.type == EventType.QUIET and event.operation is operation)
        self.moved_s = time.perf_counter() - begin
        info = operation.query()
        operation.close()
        return not info.may_arrive, info.status

    def store(self, blocks):
        """Store blocks, given by key. :return: keys that are new in the pool."""
        id = next(self.ids)
        slots = self.request(STORE, id, blocks)
        is_quiet, status = self.move(Mode.WRITE, id, slots, blocks) if slots else (True, 0)
        if is_quiet:
            self.request(STORED if status == 0 else END, id)
        morikv.errors.check(status)
        return list(slots)

    def load(self, blocks):
        """Load into blocks, given by key. :return: keys that the pool has."""
        id = next(self.ids)
        slots = self.request(LOAD, id, blocks)
        status = self.move(Mode.READ, id, slots, blocks)[1] if slots else 0
        self.request(END, id)
        morikv.errors.check(status)
        return list(slots)


# ---- demonstration and figures ----


class Cache:
    """Blocks of an engine, in the memory of its GPU."""

    def __init__(self, num_blocks, block):
        self.gpu, self.block, length = tiny_llm.Gpu(), block, num_blocks * block
        self.base = self.gpu.allocate(length)
        self.memory = morikv.Memory(self.base, length, morikv.memory.ROCM)

    def write(self, number, data):
        self.gpu.write(self.base + number * self.block, data)
        self.gpu.synchronize()

    def read(self, number):
        return self.gpu.read(self.base + number * self.block, self.block)


def contents(key, length):
    return hashlib.shake_128(key.encode()).digest(length)


def engine(path, prefix, num_blocks, is_killed):
    """Store blocks with bytes made from their keys, or die while they are written."""
    block = 16384
    cache = Cache(num_blocks, block)
    pool = Engine(path, cache.memory)
    keys = [f"{prefix}{i}" for i in range(num_blocks)]
    for i, key in enumerate(keys):
        cache.write(i, contents(key, block))
    if is_killed:
        slots = pool.request(STORE, 1, keys)
        pool.peer.post(Mode.WRITE, pool.region, pool.there, 0, slots[keys[0]] * block, block)
        os.kill(os.getpid(), signal.SIGKILL)
    stored = pool.store({key: i for i, key in enumerate(keys)})
    if stored != keys:
        sys.exit(f"stored {len(stored)} of {num_blocks} blocks")
    print(f"{num_blocks} blocks stored; {pool.peer.query().paths}")


def serve(folder, *arguments):
    path = os.path.join(folder, "pool")
    process = subprocess.Popen([sys.executable, __file__, "serve", path, *map(str, arguments)])
    end = time.monotonic() + LIMIT_S
    while not os.path.exists(path) and time.monotonic() < end and process.poll() is None:
        time.sleep(0.01)
    return process, path


def expect(condition, text):
    if not condition:
        sys.exit(f"kv_pool.py: {text}")


def load_and_compare(pool, cache, keys):
    order = dict(zip(keys, reversed(range(len(keys)))))
    expect(pool.load(order) == keys, "the pool has lost blocks")
    for key, i in order.items():
        expect(cache.read(i) == contents(key, cache.block), f"block {key} has other bytes")


def demo(num_blocks=64, block=16384):
    with tempfile.TemporaryDirectory() as folder:
        process, path = serve(folder, 2, block)  # 128 blocks
        me = [sys.executable, __file__, "engine", path]
        try:
            expect(subprocess.call([*me, "a", str(num_blocks)]) == 0, "the first engine failed")
            killed = subprocess.call([*me, "b", str(num_blocks), "killed"])
            expect(killed == -signal.SIGKILL, f"the second engine ended with {killed}")
            cache = Cache(num_blocks, block)
            pool = Engine(path, cache.memory)
            load_and_compare(pool, cache, [f"a{i}" for i in range(num_blocks)])
            end = time.monotonic() + LIMIT_S
            while (count := pool.request(COUNT, 0))["free"] < num_blocks:
                expect(time.monotonic() < end, f"slots of the killed engine are lost: {count}")
                time.sleep(0.05)
            expect(subprocess.call([*me, "b", str(num_blocks)]) == 0, "the third engine failed")
            load_and_compare(pool, cache, [f"b{i}" for i in range(num_blocks)])
            count = pool.request(COUNT, 0)
            expect(count["stored"] == count["slots"], f"slots are lost: {count}")
            print(f"{2 * num_blocks} blocks stored and loaded, an engine killed: {count}; {pool.peer.query().paths}")
        finally:
            process.kill()
            process.wait()


def bench(num_blocks=256, repetitions=20):
    for block in (4096, 16384, 65536, 262144, 1 << 20):
        with tempfile.TemporaryDirectory() as folder:
            process, path = serve(folder, num_blocks * block >> 20, block)
            try:
                cache = Cache(num_blocks, block)
                pool = Engine(path, cache.memory)
                times = {"store": [], "load": []}  # of the whole call, and of the move in it
                for turn in range(repetitions):
                    blocks = {f"{turn} {i}": i for i in range(num_blocks)}
                    for name, call in (("store", pool.store), ("load", pool.load)):
                        begin = time.perf_counter()
                        expect(len(call(blocks)) == num_blocks, f"{name} left blocks out")
                        times[name].append((time.perf_counter() - begin, pool.moved_s))
            finally:
                process.kill()
                process.wait()
        for name, values in times.items():
            whole, moved = (sorted(column)[repetitions // 2] for column in zip(*values))
            rates = [num_blocks * block / seconds / 1e9 for seconds in (whole, moved)]
            print(f"{name} of {num_blocks} x {block >> 10} KiB: {whole * 1e3:.2f} ms, {rates[0]:.1f} GB/s; "
                  f"the move alone {moved * 1e3:.2f} ms, {rates[1]:.1f} GB/s")


if __name__ == "__main__":
    arguments = sys.argv[2:]
    if sys.argv[1:2] == ["serve"] and 1 <= len(arguments) <= 3:
        Pool(arguments[0], *map(int, arguments[1:])).run()
    elif sys.argv[1:2] == ["engine"] and len(arguments) in (3, 4):
        engine(arguments[0], arguments[1], int(arguments[2]), len(arguments) == 4)
    elif sys.argv[1:] == ["demo"]:
        demo()
    elif sys.argv[1:] == ["bench"]:
        bench()
    else:
        sys.exit(__doc__)
