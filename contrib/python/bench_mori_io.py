#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure a batch of scattered pieces between two processes, in ns a piece.

    bench_mori_io.py [--by morikv|mori|nixl] [PIECES] [BYTES_A_PIECE]

All backends move the same lists by the calls that connectors make: batch_write() and
batch_read() of morikv's mori.io or of an installed mori.io (mori); NIXL's transfers from
addresses (new), or from prepared lists and indices of pieces (prepared, as in vLLM). The
memory is host memory, or with HIP_LIBRARY GPU memory of that runtime. The call alone and
the call with its completion are timed. UCX's variables select the transport, which is
printed where it is known. The lines "pack" show Python's share of a call of morikv; the
rest is libmorikv's and UCX's.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

ROUNDS = 50


def allocate(size: int) -> tuple[int, bool, Any]:
    """:return: an address, whether it is a GPU's, and what keeps it."""
    if "HIP_LIBRARY" not in os.environ:
        buffer = (ctypes.c_char * size)()
        return ctypes.addressof(buffer), False, buffer
    pointer = ctypes.c_void_p()
    if ctypes.CDLL(os.environ["HIP_LIBRARY"]).hipMalloc(
        ctypes.byref(pointer), ctypes.c_size_t(size)
    ):
        raise MemoryError("hipMalloc")
    return pointer.value or 0, True, None


class Lists:
    """Offsets of pieces on both sides; no two are adjacent."""

    def __init__(self, pieces: int, length: int) -> None:
        order = list(range(pieces))
        random.Random(1).shuffle(order)
        self.local = [2 * length * i for i in order]
        self.remote = [2 * length * i for i in range(pieces)]
        self.pieces, self.length = pieces, length


#: Name of a row, and a call that posts; what it returns is given to Engine.wait().
Row = tuple[str, Callable[[], Any]]


class MoriIO:
    """Transfers by the names of mori.io."""

    def __init__(self, key: str, module: str) -> None:
        self.api = importlib.import_module(module)
        config = self.api.IOEngineConfig("127.0.0.1", 0)
        self.engine = self.api.IOEngine(key, config)
        if module == "morikv.mori_io":
            self.engine.create_backend(self.api.BackendType.XGMI, self.api.XgmiBackendConfig())
        else:
            self.engine.create_backend(self.api.BackendType.RDMA, self.api.RdmaBackendConfig())

    def add(self, address: int, size: int, is_gpu: bool) -> list[str]:
        kind = self.api.MemoryLocationType
        self.memory = self.engine.register_memory(
            address, size, 0, kind.GPU if is_gpu else kind.CPU
        )
        return [self.engine.get_engine_desc().pack().hex(), self.memory.pack().hex()]

    def connect(self, lines: list[str]) -> None:
        there, remote = map(bytes.fromhex, lines)
        self.engine.register_remote_engine(self.api.EngineDesc.unpack(there))
        self.session = self.engine.create_session(self.memory, self.api.MemoryDesc.unpack(remote))

    def rows(self, lists: Lists) -> Iterator[Row]:
        sizes = [lists.length] * lists.pieces
        given: dict[str, Any] = {"lists": (lists.local, lists.remote, sizes)}
        try:
            import numpy

            given["arrays"] = tuple(map(numpy.array, given["lists"]))
        except ImportError:
            print("(no NumPy: lists alone)")
        for mode in ("write", "read"):
            call = getattr(self.session, f"batch_{mode}")
            for name, columns in given.items():
                yield f"{mode:5} {name}", partial(call, *columns, 1)

    def wait(self, status: Any) -> None:
        if status.Wait() != self.api.StatusCode.SUCCESS:
            raise RuntimeError(status.Message())

    def path(self) -> str:
        return self.session.path() if hasattr(self.session, "path") else "what mori.io chose"


class Nixl:
    def __init__(self, key: str) -> None:
        from nixl._api import nixl_agent, nixl_agent_config

        self.agent = nixl_agent(key, nixl_agent_config(backends=["UCX"]))

    def add(self, address: int, size: int, is_gpu: bool) -> list[str]:
        self.address, self.kind = address, "VRAM" if is_gpu else "DRAM"
        self.agent.register_memory([(address, size, 0, "")], self.kind)
        return [self.agent.get_agent_metadata().hex(), str(address)]

    def connect(self, lines: list[str]) -> None:
        name = self.agent.add_remote_agent(bytes.fromhex(lines[0]))
        self.peer, self.base = name.decode() if isinstance(name, bytes) else name, int(lines[1])

    def rows(self, lists: Lists) -> Iterator[Row]:
        import numpy

        def descs(offsets: list[int], base: int) -> Any:
            rows = numpy.zeros((lists.pieces, 3), dtype=numpy.uint64)
            rows[:, 0] = numpy.array(offsets, dtype=numpy.uint64) + numpy.uint64(base)
            rows[:, 1] = lists.length
            return rows

        agent, kind = self.agent, self.kind
        here, there = descs(lists.local, self.address), descs(lists.remote, self.base)
        ours = agent.prep_xfer_dlist("NIXL_INIT_AGENT", here, kind)
        theirs = agent.prep_xfer_dlist(self.peer, there, kind)
        which = numpy.arange(lists.pieces, dtype=numpy.int32)

        def new(mode: str) -> Any:
            descs = (agent.get_xfer_descs(each, kind) for each in (here, there))
            return agent.initialize_xfer(mode, *descs, self.peer)

        def prepared(mode: str) -> Any:
            return agent.make_prepped_xfer(mode, ours, which, theirs, which)

        for mode in ("WRITE", "READ"):
            for make in (new, prepared):
                yield f"{mode.lower():5} {make.__name__}", partial(self.post, make, mode)

    def post(self, make: Callable[[str], Any], mode: str) -> tuple[Any, str]:
        transfer = make(mode)
        return transfer, self.agent.transfer(transfer)

    def wait(self, posted: tuple[Any, str]) -> None:
        transfer, state = posted
        while state == "PROC":
            state = self.agent.check_xfer_state(transfer)
        if state != "DONE":
            raise RuntimeError(f"NIXL's transfer ended in {state}")
        self.agent.release_xfer_handle(transfer)

    def path(self) -> str:
        return f"UCX_TLS={os.environ.get('UCX_TLS', '')}"


def open_side(by: str, key: str, size: int) -> tuple[Any, list[str], Any]:
    modules = {"morikv": "morikv.mori_io", "mori": "mori.io"}
    engine: Any = Nixl(key) if by == "nixl" else MoriIO(key, modules[by])
    address, is_gpu, keep = allocate(size)
    return engine, engine.add(address, size, is_gpu), keep


def target(by: str, size: int) -> None:
    _engine, lines, _keep = open_side(by, "target", size)
    print("lines", *lines, flush=True)
    sys.stdin.read()  # until the other one is through
    os._exit(0)  # NIXL's wheel has a libnl that crashes in its exit handlers


def figures(times: list[float]) -> str:
    return f"{min(times):9.1f} {statistics.median(times):9.1f}"


def measure(engine: Any, call: Callable[[], Any], pieces: int) -> str:
    posts, ends = [], []
    engine.wait(call())
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        status = call()
        posts.append((time.perf_counter_ns() - begin) / pieces)
        engine.wait(status)
        ends.append((time.perf_counter_ns() - begin) / pieces)
    return f"{figures(posts)} {figures(ends)}"


def measure_pack(lists: Lists) -> None:
    from morikv.pieces import Pieces

    given: dict[str, Any] = {"lists": (lists.local, lists.remote, [lists.length] * lists.pieces)}
    try:
        import numpy

        given["arrays"] = tuple(map(numpy.array, given["lists"]))
    except ImportError:
        pass
    for name, columns in given.items():
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter_ns()
            Pieces(1, 1, *columns)
            times.append((time.perf_counter_ns() - begin) / lists.pieces)
        print(f"pack  {name:9} {figures(times)}")


def lines_of(other: Any) -> list[str]:
    for line in other.stdout:  # UCX may log there, too
        if line.startswith("lines "):
            return line.split()[1:]
    raise RuntimeError("the target has ended")


def main(by: str, pieces: int, length: int) -> None:
    size = 2 * pieces * length
    command = [sys.executable, __file__, "--target", str(size), "--by", by]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        engine, _lines, _keep = open_side(by, "initiator", size)
        engine.connect(lines_of(other))
        lists = Lists(pieces, length)
        print(f"{pieces} pieces of {length} bytes by {by}; ns a piece")
        print("mode  given as   call min    median  done min    median")
        if by == "morikv":
            measure_pack(lists)
        for name, call in engine.rows(lists):
            print(f"{name:15} {measure(engine, call, pieces)}", flush=True)
        print("over", engine.path(), flush=True)
        other.communicate()
    os._exit(0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", choices=("morikv", "mori", "nixl"), default="morikv")
    parser.add_argument("--target", type=int, help=argparse.SUPPRESS)
    parser.add_argument("pieces", nargs="?", type=int, default=4096)
    parser.add_argument("length", nargs="?", type=int, default=4096)
    options = parser.parse_args()
    if options.target:
        target(options.by, options.target)
    else:
        main(options.by, options.pieces, options.length)
