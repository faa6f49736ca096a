#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a batch of morikv's mori.io costs, in ns a piece, between two processes.

    bench_mori_io.py [PIECES] [BYTES_A_PIECE]

Scattered pieces of host memory, or with HIP_LIBRARY of the GPU memory of that runtime; the
call alone, and the call and its completion; as NumPy arrays and as lists. UCX's variables
choose the way, which is printed.
"""

from __future__ import annotations

import ctypes
import os
import random
import statistics
import subprocess
import sys
import time
from typing import Any

from morikv.mori_io import EngineDesc, IOEngine, MemoryDesc, MemoryLocationType, StatusCode

ROUNDS = 50


def allocate(size: int) -> tuple[int, MemoryLocationType, Any]:
    if "HIP_LIBRARY" not in os.environ:
        buffer = (ctypes.c_char * size)()
        return ctypes.addressof(buffer), MemoryLocationType.CPU, buffer
    pointer = ctypes.c_void_p()
    if ctypes.CDLL(os.environ["HIP_LIBRARY"]).hipMalloc(
        ctypes.byref(pointer), ctypes.c_size_t(size)
    ):
        raise MemoryError("hipMalloc")
    return pointer.value or 0, MemoryLocationType.GPU, None


def open_side(key: str, size: int) -> tuple[IOEngine, MemoryDesc, Any]:
    engine = IOEngine(key)
    address, location, keep = allocate(size)
    return engine, engine.register_memory(address, size, 0, location), keep


def target(size: int) -> None:
    engine, memory, _keep = open_side("target", size)
    print(engine.get_engine_desc().pack().hex(), memory.pack().hex(), flush=True)
    sys.stdin.read()  # until the other one is through


def measure(call: Any, pieces: int) -> str:
    posts, ends = [], []
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        status = call()
        posts.append((time.perf_counter_ns() - begin) / pieces)
        if status.Wait() != StatusCode.SUCCESS:
            raise RuntimeError(status.Message())
        ends.append((time.perf_counter_ns() - begin) / pieces)
    return " ".join(
        f"{min(times):9.1f} {statistics.median(times):9.1f}" for times in (posts, ends)
    )


def main(pieces: int, length: int) -> None:
    size = 2 * pieces * length
    with subprocess.Popen(
        [sys.executable, __file__, "target", str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        engine, memory, _keep = open_side("initiator", size)
        there, remote = map(bytes.fromhex, other.stdout.readline().split())
        desc = EngineDesc.unpack(there)
        engine.register_remote_engine(desc)
        session = engine.create_session(memory, MemoryDesc.unpack(remote))
        session.write(0, 0, 1, 0).Wait()
        peer = engine._get_hub().link(MemoryDesc.unpack(remote)).peer.query()
        print(f"{pieces} pieces of {length} bytes over {peer.transports}; ns a piece")
        print("mode  given as   call min    median  done min    median")
        run(session, pieces, length)
        engine.close()
        other.communicate()


def run(session: Any, pieces: int, length: int) -> None:
    order = list(range(pieces))
    random.Random(1).shuffle(order)
    lists = [[2 * length * i for i in order], [2 * length * i for i in range(pieces)]]
    given = {"lists": (*lists, [length] * pieces)}
    try:
        import numpy

        given["arrays"] = tuple(map(numpy.array, given["lists"]))
    except ImportError:
        print("(no NumPy: lists alone)")
    for mode in (session.batch_write, session.batch_read):
        for name, columns in given.items():
            times = measure(lambda mode=mode, columns=columns: mode(*columns, 1), pieces)
            print(f"{mode.__name__[6:]:5} {name:8} {times}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["target"]:
        target(int(sys.argv[2]))
    else:
        main(*([int(value) for value in sys.argv[1:]] + [4096, 4096][len(sys.argv) - 1 :]))
