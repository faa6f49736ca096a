# SPDX-License-Identifier: BSD-3-Clause
# PY-12
"""The package's objects die in any order: dropped, closed, closed twice, or left to the
collector in a cycle, in any state of their transfers; also with their contexts, and at the
interpreter's exit. An order is a number, which is printed when it fails.

py_orders.py [ORDERS [EXITS]] tries so many; py_orders.py exit N is an interpreter that ends
with objects of order N.
"""

from __future__ import annotations

import ctypes
import gc
import os
import random
import subprocess
import sys
import threading
import time

import morikv
from morikv import EventType, Mode, Role, errors

BLOCKS, BLOCK_BYTES = 16, 256
IS_GPU = os.environ.get("KV_MEMORY") == "gpu"
LIMIT_S = 600
#: In one of so many orders the contexts and peers die as well.
CONTEXTS_EVERY = 20


def memory():
    """Memory of the host, or of a GPU through the HIP runtime of HIP_LIBRARY; not freed."""
    if not IS_GPU:
        return bytearray(BLOCKS * BLOCK_BYTES)
    pointer = ctypes.c_void_p()
    length = BLOCKS * BLOCK_BYTES
    if ctypes.CDLL(os.environ["HIP_LIBRARY"]).hipMalloc(ctypes.byref(pointer), length):
        raise MemoryError("hipMalloc")
    return morikv.Memory(pointer.value, length, morikv.memory.ROCM)


class Pair:
    """Two contexts of this process that are connected."""

    def __init__(self, drain: str = "5s") -> None:
        self.contexts = []
        for name in "ab":
            context = morikv.Context(name=name, options={"DRAIN_TIMEOUT": drain})
            context.add_region(memory(), unit_bytes=BLOCK_BYTES, one_sided=True)
            context.commit()
            self.contexts.append(context)
        self.contexts[0].add_peer(self.contexts[1].blob())
        ready = {}
        for side, event in self.events():
            if event.type == EventType.PEER_READY:
                ready[side] = event.peer
            if len(ready) == 2:
                break
        self.peers = [ready[0], ready[1]]
        self.regions = [next(iter(context._regions)) for context in self.contexts]

    def events(self):
        """(side, event), until the limit."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            for side, context in enumerate(self.contexts):
                context.progress()
                for event in context.poll():
                    yield side, event
        raise AssertionError("nothing happened in time")

    def settle(self) -> None:
        """Progress until dead objects have been freed, and no transfer is open in either."""
        end = time.monotonic() + LIMIT_S
        while any(c.stats()["xfers_open"] or c._owner.dead for c in self.contexts):
            for context in self.contexts:
                context.progress()
                context.poll()
            if time.monotonic() > end:
                raise AssertionError("objects without a reference are not freed")


class Things:
    """Objects by their names, of a transfer that has reached a random state."""

    def __init__(self, pair: Pair, number: int, is_answered: bool) -> None:
        self.pair = pair
        self.chance = random.Random(number)
        self.is_ended = False  # or another holder ends it
        self.alive: dict[str, object] = {}
        # a put that tcp emulates ends the process when its endpoint is gone (docs/morikv.md)
        self.make(number, (0, 1, 2, 3, 4, 5) if is_answered or IS_GPU else (0, 1, 2, 5))

    def make(self, number: int, ways: tuple[int, ...]) -> None:
        a, b = self.pair.contexts
        maps = [peer.map() for peer in self.pair.peers]
        self.alive["map a"], self.alive["map b"] = maps
        source = a.transfer(number, [maps[0]], Mode.WRITE, Role.SRC)
        target = b.transfer(number, [maps[1]], Mode.WRITE, Role.DST)
        self.alive["source"], self.alive["target"] = source, target
        come = self.chance.choice(ways)
        if come == 0:
            return
        target.expose({0: self.chance.sample(range(BLOCKS), 4)})
        if come == 1:
            return
        event = self.wait(EventType.EXPOSED, source)
        plan = maps[0].plan({0: (list(range(4)), event.units[0].remote)})
        self.alive["event"], self.alive["plan"] = event, plan
        if come == 2:
            return
        operation = self.pair.peers[0].post(
            Mode.READ, self.pair.regions[0], self.pair.regions[1], 0, 0, BLOCK_BYTES
        )
        self.alive["operation"] = operation
        source.post(plan, ready=(lambda: True) if self.chance.random() < 0.5 else None)
        if come == 3:
            return
        source.seal()
        self.is_ended = True
        if come == 5:
            left = {source, target, operation}
            for _, event in self.pair.events():
                if event.type == EventType.QUIET:
                    left.discard(event.transfer or event.operation)
                if not left:
                    break

    def wait(self, kind: EventType, transfer):
        for _, event in self.pair.events():
            if event.type == kind and event.transfer is transfer:
                return event
        raise AssertionError(f"no {kind.name}")

    def kill(self, name: str) -> None:
        thing = self.alive.pop(name)
        if name in ("source", "target") and not self.is_ended:
            try:
                thing.abort()
            except errors.InvalidError:
                assert thing._handle.is_closed  # with its context
            self.is_ended = True
        how = self.chance.choice(("drop", "close", "twice", "cycle"))
        if how == "cycle":
            thing.__dict__["itself"] = thing
        for _ in range(("close", "twice").index(how) + 1 if how in ("close", "twice") else 0):
            if hasattr(thing, "close"):
                try:
                    thing.close()
                except (errors.BusyError, errors.DeadlineError):
                    pass  # in use, or the other side no longer answers

    def die(self, num: int | None = None) -> None:
        """Kill so many of them, or all, in some order; now and then another thread calls."""
        names = self.chance.sample(sorted(self.alive), len(self.alive))
        for name in names[:num]:
            self.kill(name)
            chance = self.chance.random()
            if chance < 0.2:
                gc.collect()
            elif chance < 0.5:
                for context in self.pair.contexts:
                    context.progress()
                    context.poll()


def die_alone(pair: Pair, number: int) -> None:
    """The contexts live on, and have freed everything in the end."""
    Things(pair, number, True).die()
    gc.collect()
    pair.settle()
    for context in pair.contexts:
        live = [handle for handle in context._owner.live if not handle.is_closed]
        assert len(live) == 1, f"{len(live)} objects live, one of them the peer"


def die_with_contexts(number: int) -> None:
    """Let contexts die as well. The first one to close gets no answer."""
    pair = Pair(drain="1ms")
    things = Things(pair, number, False)
    things.alive["a"], things.alive["b"] = pair.contexts
    things.alive["peer a"], things.alive["peer b"] = pair.peers
    things.pair = type("Nobody", (), {"contexts": []})
    del pair
    things.die()
    gc.collect()


def at_exit(number: int) -> None:
    """Let some objects die before the interpreter and the others with it, in and out of cycles."""
    global left  # noqa: PLW0603: what a module holds dies last
    pair = Pair(drain="1ms")
    left = things = Things(pair, number, False)
    things.alive["peer a"], things.alive["peer b"] = pair.peers
    things.die(things.chance.randrange(len(things.alive) + 1))
    if number % 2:
        things.itself = things
        del left


def try_exit(number: int) -> None:
    done = subprocess.run(
        [sys.executable, __file__, "exit", str(number)],
        stderr=subprocess.PIPE,
        timeout=10 * LIMIT_S,
        check=False,
    )
    said = done.stderr.decode()
    assert done.returncode == 0, f"status {done.returncode}: {said}"
    assert "Traceback" not in said and "Exception ignored" not in said, said


def main() -> None:
    num_orders = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    num_exits = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    pair = Pair()
    for number in range(1, num_orders + 1):
        try:
            if number % CONTEXTS_EVERY:
                die_alone(pair, number)
            else:
                die_with_contexts(number)
        except BaseException:
            print(f"py_orders.py: order {number} failed", file=sys.stderr)
            raise
    for number in range(num_exits):
        try_exit(number)
    threads = [threading.Thread(target=context.close) for context in pair.contexts]
    for thread in threads:  # each answers the other
        thread.start()
    for thread, context in zip(threads, pair.contexts):
        thread.join()
        context.close()
        pair.peers.pop().close()
    print(f"{num_orders} orders, {num_exits} exits")


if __name__ == "__main__":
    if sys.argv[1:2] == ["exit"]:
        at_exit(int(sys.argv[2]))
    else:
        main()
