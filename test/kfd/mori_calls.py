#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One call of mori.io and its answer in a line, as mori_calls.cc does with MORI's engine.

mori_calls.py xgmi|rdma CASE...
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import Any, Callable

from morikv.mori_io import (
    BackendType,
    IOEngine,
    IOEngineConfig,
    MemoryLocationType,
    StatusCode,
    TransferStatus,
)

IS_RDMA = sys.argv[1] == "rdma"
SIZE = 1 << 20
WRAPS = 2**64 - 8
if not IS_RDMA:
    hip = ctypes.CDLL(os.environ["HIP_LIBRARY"])


def code(status: TransferStatus) -> int:
    status.Wait()
    return int(status.Code())


def words(**values: int) -> str:
    return " ".join(f"{name}={int(value)}" for name, value in values.items())


class Memory:
    """Memory of a GPU, or of the host with RDMA, inside of a larger allocation: zeros, or
    bytes of a seed."""

    def __init__(self, device: int, seed: int) -> None:
        data = bytes((seed + i * 7 + (i >> 9)) & 255 if seed else 0 for i in range(SIZE))
        self.device = -1 if IS_RDMA else device
        if IS_RDMA:
            self.whole = ctypes.create_string_buffer(3 * SIZE)
            self.at = ctypes.addressof(self.whole) + SIZE
            ctypes.memmove(self.at, data, SIZE)
            return
        pointer = ctypes.c_void_p()
        hip.hipSetDevice(device)
        assert hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(3 * SIZE)) == 0
        self.at = (pointer.value or 0) + SIZE
        assert hip.hipMemcpy(ctypes.c_void_p(self.at), data, ctypes.c_size_t(SIZE), 1) == 0
        hip.hipDeviceSynchronize()
        hip.hipSetDevice(0)

    def bytes(self) -> bytes:
        if IS_RDMA:
            return ctypes.string_at(self.at, SIZE)
        data = ctypes.create_string_buffer(SIZE)
        assert hip.hipMemcpy(data, ctypes.c_void_p(self.at), ctypes.c_size_t(SIZE), 2) == 0
        return data.raw


def side(key: str, has_backend: bool = True) -> IOEngine:
    engine = IOEngine(key, IOEngineConfig("127.0.0.1", 0))
    if has_backend:
        engine.create_backend(BackendType.RDMA if IS_RDMA else BackendType.XGMI)
    return engine


def add(engine: IOEngine, memory: Memory) -> Any:
    location = MemoryLocationType.CPU if IS_RDMA else MemoryLocationType.GPU
    return engine.register_memory(memory.at, SIZE, memory.device, location)


class Two:
    """Two engines of one process, one memory each on a GPU of its own."""

    def __init__(self) -> None:
        self.a, self.b = side("a"), side("b")
        self.here, self.there = Memory(0, 3), Memory(1, 0)
        self.a.register_remote_engine(self.b.get_engine_desc())
        self.b.register_remote_engine(self.a.get_engine_desc())
        self.mine, self.theirs = add(self.a, self.here), add(self.b, self.there)


def batch(op: str, count: int, piece: int, beyond: int = 0) -> str:
    two = Two()
    session = two.a.create_session(two.mine, two.theirs)
    if session is None:
        return words(session=0)
    local = [2 * i * piece for i in range(count)]
    remote = [2 * (count - 1 - i) * piece + beyond for i in range(count)]
    before = (two.there if op == "read" else two.here).bytes()
    call = getattr(session, f"batch_{op}")
    ended = code(call(local, remote, [piece] * count, session.allocate_transfer_uid()))
    after = (two.here if op == "read" else two.there).bytes()
    source, to = (remote, local) if op == "read" else (local, remote)
    wrong = 0
    if not beyond:
        wrong = sum(before[s : s + piece] != after[t : t + piece] for s, t in zip(source, to))
    return words(code=ended, wrong=wrong)


def one(call: Callable[[Two], TransferStatus]) -> str:
    two = Two()  # its engines live until the end
    return words(code=code(call(two)))


def of_session(two: Two, *numbers: list[int]) -> TransferStatus:
    session = two.a.create_session(two.mine, two.theirs)
    assert session is not None
    return session.batch_write(*numbers, 1)


def apart(has_backend: bool) -> str:
    """Engines that are not registered with each other."""
    a, b = side("a", has_backend), side("b", has_backend)
    mine, theirs = add(a, Memory(0, 3)), add(b, Memory(1, 0))
    ended = code(a.write(mine, 0, theirs, 0, 64, 1))
    try:
        session = a.create_session(mine, theirs)
    except RuntimeError:
        session = None
    return words(session=session is not None, code=ended)


def deregistered(what: str) -> str:
    two = Two()
    if what == "memory":
        two.a.deregister_memory(two.mine)
    else:
        two.a.deregister_remote_engine(two.b.get_engine_desc())
    return words(code=code(two.a.write(two.mine, 0, two.theirs, 0, 64, 1)))


def uids() -> str:
    two = Two()
    session = two.a.create_session(two.mine, two.theirs)
    assert session is not None
    return words(next=two.a.allocate_transfer_uid() + 1 == session.allocate_transfer_uid())


def inbound() -> str:
    two = Two()
    code(two.a.write(two.mine, 0, two.theirs, 0, 64, 9))
    for _ in range(60000 if IS_RDMA else 1):  # it may come later than the status here
        if two.b.pop_inbound_transfer_status("a", 9) is not None:
            return words(inbound=1)
        time.sleep(0.001)
    return words(inbound=0)


def new_status() -> str:
    status = TransferStatus()
    return words(code=status.Code(), message=len(status.Message()))


def wait_all() -> str:
    engine = side("a")
    good, bad, running = TransferStatus(), TransferStatus(), TransferStatus()
    good.SetCode(StatusCode.SUCCESS)
    bad.SetCode(StatusCode.ERR_RDMA_OP)
    running.SetCode(StatusCode.IN_PROGRESS)
    return words(
        empty=engine.wait_all([], 0),
        good=engine.wait_all([good], 0),
        running=engine.wait_all([good, running], 0),
        bad=engine.wait_all([running, bad], 0),
    )


def of_one_engine() -> str:
    a, here, there = side("a"), Memory(0, 3), Memory(1, 0)
    ended = code(a.write(add(a, here), 0, add(a, there), 0, SIZE, 1))
    return words(code=ended, right=there.bytes() == here.bytes())


def closed(first: str) -> str:
    two = Two()
    ended = code(two.a.write(two.mine, 0, two.theirs, 0, 64, 1))
    for engine in (two.a, two.b) if first == "a" else (two.b, two.a):
        engine.close()
    return words(code=ended, closed=1)


CASES: dict[str, Callable[[], str]] = {
    "write-batch-1": lambda: batch("write", 1, 4096),
    "write-batch-64": lambda: batch("write", 64, 4096),
    "write-batch-4096": lambda: batch("write", 4096, 128),
    "read-batch-1": lambda: batch("read", 1, 4096),
    "read-batch-64": lambda: batch("read", 64, 4096),
    "read-batch-4096": lambda: batch("read", 4096, 128),
    "write": lambda: one(lambda t: t.a.write(t.mine, 0, t.theirs, 0, SIZE, 1)),
    "read": lambda: one(lambda t: t.a.read(t.mine, 0, t.theirs, 0, SIZE, 1)),
    "read-by-the-other": lambda: one(lambda t: t.b.read(t.theirs, 0, t.mine, 0, SIZE, 1)),
    "batch-beyond-the-end": lambda: batch("write", 8, 4096, SIZE),
    "beyond-the-end": lambda: one(lambda t: t.a.write(t.mine, SIZE - 8, t.theirs, 0, 16, 1)),
    "beyond-the-remote-end": lambda: one(
        lambda t: t.a.write(t.mine, 0, t.theirs, SIZE - 8, 16, 1)
    ),
    "offset-that-wraps": lambda: one(lambda t: t.a.write(t.mine, WRAPS, t.theirs, 0, 16, 1)),
    "batch-of-nothing": lambda: one(lambda t: of_session(t, [], [], [])),
    "batch-of-other-lengths": lambda: one(lambda t: of_session(t, [0, 8], [0], [8, 8])),
    "size-of-zero": lambda: one(lambda t: t.a.write(t.mine, 0, t.theirs, 0, 0, 1)),
    "no-backend": lambda: apart(False),
    "unknown-engine": lambda: apart(True),
    "deregistered-memory": lambda: deregistered("memory"),
    "deregistered-engine": lambda: deregistered("engine"),
    "uids": uids,
    "inbound-status": inbound,
    "new-status": new_status,
    "wait-all": wait_all,
    "memory-of-one-engine": of_one_engine,
    "engine-closed-before-its-peer": lambda: closed("a"),
    "peer-closed-first": lambda: closed("b"),
}

if __name__ == "__main__":
    for case in sys.argv[2:]:
        print(f"{case}: {CASES[case]()}", flush=True)
