# SPDX-License-Identifier: BSD-3-Clause
"""Move lists of scattered blocks between two processes by pip's NIXL, on GPUs or the host.

    nixl_lists.py [--op WRITE|READ] [--blocks N] [--size BYTES] [--repeats N]
                  [--no-thread] [--threads N] [--memory OURS,THEIRS]

It times one transfer of prepared lists at a time, from the post until NIXL reports DONE, with a
notification each. It prints the median, the best, and the time of the post alone. Each list takes
half of the blocks, in random order. The bytes of both sides are compared after the first and the
last transfer. PYTHONPATH names NIXL, and LD_LIBRARY_PATH where libamdhip64.so.6 is; UCX's
variables are the caller's.

Exit status 0: measured, every byte right. 1: the error is printed.
"""

import argparse
import ctypes
import importlib
import json
import mmap
import os
import socket
import statistics
import struct
import subprocess
import sys
import time

import numpy as np

LIMIT = 60.0
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


class Wrong(Exception):
    """An error that makes the run void."""


def nixl_api():
    """NIXL's Python interface, whichever of its wheels is there."""
    for name in ("nixl._api", "nixl_cu13._api", "nixl_cu12._api"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise Wrong("no nixl is installed: pip install nixl, or PYTHONPATH names its folder")


class Gpu:
    """Memory of one GPU, by the runtime that the module uses."""

    kind = "VRAM"

    def __init__(self, number, size):
        self.hip = ctypes.CDLL("libamdhip64.so.6")
        self.size = size
        self._call("hipSetDevice", number)
        pointer = ctypes.c_void_p()
        self._call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
        self.address = pointer.value

    def _call(self, name, *arguments):
        status = getattr(self.hip, name)(*arguments)
        if status != 0:
            raise Wrong(f"{name}() returned {status}")

    def _copy(self, target, source, kind):
        self._call("hipMemcpy", ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_size_t(self.size), kind)

    def write(self, array):
        self._copy(self.address, array.ctypes.data, HOST_TO_DEVICE)

    def read(self):
        array = np.empty(self.size, dtype=np.uint8)
        self._copy(array.ctypes.data, self.address, DEVICE_TO_HOST)
        return array


class Host:
    """Memory of the host: shared by a memfd, which peers can map, or private."""

    kind = "DRAM"

    def __init__(self, name, size):
        self.size = size
        self.fd = os.memfd_create("nixl_lists") if name == "shared" else -1
        if self.fd >= 0:
            os.ftruncate(self.fd, size)
        self.bytes = np.frombuffer(
            mmap.mmap(self.fd, size, mmap.MAP_SHARED if self.fd >= 0 else mmap.MAP_PRIVATE), dtype=np.uint8
        )
        self.address = self.bytes.ctypes.data

    def write(self, array):
        self.bytes[:] = array.reshape(-1)

    def read(self):
        return self.bytes.copy()


def allocate(name, size):
    return Gpu(int(name), size) if name.isdigit() else Host(name, size)


def pattern(size, salt):
    """Random bytes, which differ with the place and with the salt."""
    return np.random.default_rng(salt).integers(0, 256, size, dtype=np.uint8)


class Line:
    """Messages between the two processes."""

    def __init__(self, sock):
        self.sock = sock

    def send(self, data):
        self.sock.sendall(struct.pack("<I", len(data)) + data)

    def _read(self, count):
        data = bytearray(count)
        left = memoryview(data)
        while left:
            size = self.sock.recv_into(left)
            if size == 0:
                raise Wrong("the other process is gone")
            left = left[size:]
        return bytes(data)

    def receive(self):
        return self._read(struct.unpack("<I", self._read(4))[0])

    def request(self, word, **more):
        self.send(json.dumps({"word": word, **more}).encode())
        return self.receive()


class Side:
    """Common part of both processes: an agent, and memory registered with it."""

    def __init__(self, name, options, memory):
        api = nixl_api()
        self.options = options
        self.memory = allocate(memory, 2 * options.blocks * options.size)
        self.agent = api.nixl_agent(
            name,
            api.nixl_agent_config(
                enable_prog_thread=options.thread, num_threads=options.threads, backends=["UCX"]
            ),
        )
        self.agent.register_memory([(self.memory.address, self.memory.size, 0, "")], self.memory.kind)
        self.notifications = set()

    def listen(self):
        for messages in self.agent.get_new_notifs().values():
            self.notifications |= set(messages)


class Target(Side):
    """Serves the initiator's requests, and makes progress meanwhile."""

    def run(self, sock):
        line = Line(sock)
        sock.settimeout(0.001)
        while True:
            self.listen()
            try:
                first = sock.recv(1, socket.MSG_PEEK)
            except TimeoutError:
                continue
            if not first:
                return
            sock.settimeout(LIMIT)
            words = json.loads(line.receive())
            line.send(getattr(self, words.pop("word"))(**words))
            sock.settimeout(0.001)

    def metadata(self):
        return self.agent.get_agent_metadata()

    def address(self):
        return str(self.memory.address).encode()

    def fill(self, salt):
        self.memory.write(pattern(self.memory.size, salt))
        return b"filled"

    def bytes(self):
        array = self.memory.read()
        array[len(array) // 2] ^= self.options.corrupt
        return array.tobytes()

    def has_notification(self, text):
        end = time.monotonic() + LIMIT
        while text.encode() not in self.notifications:
            if time.monotonic() > end:
                return b"no"
            self.listen()
        return b"yes"


class Initiator(Side):
    """Posts transfers and times them."""

    def __init__(self, options, line):
        super().__init__("initiator", options, options.memory[0])
        self.line = line
        name = self.agent.add_remote_agent(line.request("metadata"))
        self.name = name.decode() if isinstance(name, bytes) else name
        self.places = [
            np.random.default_rng(seed).permutation(2 * options.blocks)[: options.blocks] for seed in (1, 2)
        ]
        theirs = int(line.request("address"))
        self.lists = (
            self.agent.prep_xfer_dlist("NIXL_INIT_AGENT", self._rows(self.memory.address, 0), self.memory.kind),
            self.agent.prep_xfer_dlist(self.name, self._rows(theirs, 1), "VRAM" if options.memory[1].isdigit() else "DRAM"),
        )

    def _rows(self, base, side):
        size = self.options.size
        return [(int(base + place * size), size, 0) for place in self.places[side]]

    def _one(self, number):
        """Seconds of the transfer and of its post."""
        which = np.arange(self.options.blocks, dtype=np.int32)
        text = f"list {number}"
        transfer = self.agent.make_prepped_xfer(
            self.options.op, self.lists[0], which, self.lists[1], which, text.encode()
        )
        start = time.perf_counter()
        state = self.agent.transfer(transfer)
        posted = time.perf_counter()
        while state == "PROC":
            state = self.agent.check_xfer_state(transfer)
            if time.perf_counter() - start > LIMIT:
                raise Wrong(f"list {number} is in progress after {LIMIT} s")
        end = time.perf_counter()
        if state != "DONE":
            raise Wrong(f"list {number} is {state}")
        if self.line.request("has_notification", text=text) != b"yes":
            raise Wrong(f"no notification of list {number} within {LIMIT} s")
        self.agent.release_xfer_handle(transfer)
        return end - start, posted - start

    def _checked(self, number):
        """Make a transfer and check that each byte is in its place, and that no other has
        changed."""
        size, salt = self.options.size, 2 * number
        here, there = (pattern(self.memory.size, salt + i).reshape(-1, size) for i in (0, 1))
        self.memory.write(here)
        self.line.request("fill", salt=salt + 1)
        self._one(number)
        if self.options.op == "WRITE":
            there[self.places[1]] = here[self.places[0]]
        else:
            here[self.places[0]] = there[self.places[1]]
        for name, wanted, found in (
            ("here", here, self.memory.read()),
            ("of the peer", there, np.frombuffer(self.line.request("bytes"), dtype=np.uint8)),
        ):
            wrong = np.nonzero((found.reshape(-1, size) != wanted).any(axis=1))[0]
            if len(wrong) > 0:
                raise Wrong(f"list {number}: {len(wrong)} blocks {name} are wrong, the first is {wrong[0]}")

    def run(self):
        self._checked(0)
        times = [self._one(1 + number) for number in range(self.options.repeats)]
        self._checked(1 + self.options.repeats)
        total, posts = zip(*times)
        median, best = statistics.median(total), min(total)
        moved = self.options.blocks * self.options.size / 1e9
        print(
            f"{self.options.op} {self.options.blocks} x {self.options.size}: median {median * 1e6:.0f} us,"
            f" post {statistics.median(posts) * 1e6:.0f} us, {moved / median:.1f} GB/s (best {moved / best:.1f})",
            flush=True,
        )


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--op", choices=("WRITE", "READ"), default="WRITE")
    parser.add_argument("--blocks", type=int, default=4096, help="blocks in a list (4096)")
    parser.add_argument("--size", type=int, default=4096, help="bytes of a block (4096)")
    parser.add_argument("--repeats", type=int, default=60, help="transfers that are timed (60)")
    parser.add_argument("--no-thread", dest="thread", action="store_false", help="run without NIXL's progress thread")
    parser.add_argument("--threads", type=int, default=0, help="NIXL's threads that post (0: the caller's)")
    parser.add_argument(
        "--memory",
        default="0,1",
        help="memory of the initiator and the target: the number of a GPU, shared or private (0,1)",
    )
    parser.add_argument("--corrupt", action="store_true", help="change a byte behind the transfer: a control that must fail")
    parser.add_argument("--fd", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for name in ("blocks", "size", "repeats"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: at least 1 was expected")
    options.memory = options.memory.split(",")
    if len(options.memory) != 2 or not all(name.isdigit() or name in ("shared", "private") for name in options.memory):
        parser.error("--memory: two of a GPU's number, shared and private were expected, such as 0,shared")
    return options


def main(arguments):
    options = parse(arguments)
    if options.fd is not None:
        Target("target", options, options.memory[1]).run(socket.socket(fileno=options.fd))
        return 0
    ours, theirs = socket.socketpair()
    with subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), *arguments, "--fd", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
    ) as peer:
        theirs.close()
        ours.settimeout(LIMIT)
        try:
            Initiator(options, Line(ours)).run()
        finally:
            ours.close()
            try:
                peer.wait(LIMIT)
            except subprocess.TimeoutExpired:
                peer.kill()
    return 0


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    except Wrong as error:
        print(f"nixl_lists.py: {error}", file=sys.stderr)
        status = 1
    sys.stdout.flush()
    os._exit(status)  # NIXL's agents do not outlive their UCX at the interpreter's end
