# SPDX-License-Identifier: BSD-3-Clause
"""Two NIXL agents in two processes, as pip gives them; every byte of both sides compared.

    agents.py CASE [OPTION...]

The environment selects the UCX transports, and the GPU runtime as libamdhip64 or HIP_LIBRARY. The
test reads its memory directly, so its GPUs must be simulated on the CPU. A case prints its result
and exits 0, or prints the error and exits 1.
"""

import argparse
import ctypes
import hashlib
import json
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

import numpy as np
from nixl._api import nixl_agent, nixl_agent_config

LIMIT = 60.0
SIZES = {1: 512, 13: 512, 4096: 2048, 65536: 64}
keep = []


class Wrong(Exception):
    """Result of a case."""


def expect(condition, text):
    if not condition:
        raise Wrong(text)


def allocate(kind, size):
    """Memory of that kind and a view of it."""
    if kind == "VRAM":
        hip = ctypes.CDLL(os.environ.get("HIP_LIBRARY", "libamdhip64.so.6"))
        pointer = ctypes.c_void_p()
        gpu = int(os.environ.get("AGENTS_GPU", "0"))
        expect(hip.hipSetDevice(gpu) == 0, f"hipSetDevice({gpu}) failed")
        status = hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(size))
        expect(status == 0, f"hipMalloc({size}) failed: {status}")
        address = pointer.value
    else:
        memory = mmap.mmap(-1, size)
        keep.append(memory)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return address, np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def pattern(size, salt):
    """Random bytes, which differ with the place and with the salt."""
    return np.random.default_rng(salt).integers(0, 256, size, dtype=np.uint8)


def digest(array):
    return hashlib.sha256(array.tobytes()).hexdigest()


class Line:
    """Messages between the two processes."""

    def __init__(self, sock):
        self.sock = sock

    def send(self, message):
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.sock.sendall(struct.pack("<I", len(data)) + data)

    def _read(self, count):
        data = b""
        while len(data) < count:
            part = self.sock.recv(count - len(data))
            if not part:
                raise EOFError("the peer is gone")
            data += part
        return data

    def receive(self, raw=False):
        data = self._read(struct.unpack("<I", self._read(4))[0])
        return data if raw else json.loads(data)

    def call(self, command, raw=False, **more):
        self.send({"command": command, **more})
        return self.receive(raw)


class Target:
    """The peer: memory that is written and read, and requests about it."""

    def __init__(self, line, options):
        self.line = line
        self.options = options
        self.agent = make_agent("target", options)
        self.notified = []
        self.regions = []
        self.views = []

    def run(self):
        ready = select.poll()
        ready.register(self.line.sock, select.POLLIN)
        while True:
            # without NIXL's thread this answers the other agent
            while not ready.poll(1):
                self.poll()
            message = self.line.receive()
            if message["command"] == "quit":
                self.line.send({})
                return
            self.line.send(getattr(self, message.pop("command"))(**message))

    def allocate(self, kind, size, count=1):
        places = [allocate(kind, size) for _ in range(count)]
        self.views = [view for _, view in places]
        self.regions = [(address, size, 0, "") for address, _ in places]
        self.kind = kind
        return [address for address, _ in places]

    def register(self):
        self.handle = self.agent.register_memory(self.regions, self.kind)
        return self.agent.get_agent_metadata()

    def register_again(self):
        self.agent.deregister_memory(self.handle)
        return self.register()

    def fill(self, salt):
        for view in self.views:
            view[:] = pattern(len(view), salt)
        return {}

    def corrupt(self):
        self.views[0][len(self.views[0]) // 2] ^= 1
        return {}

    def digest(self):
        whole = np.concatenate(self.views) if len(self.views) > 1 else self.views[0]
        return {"digest": digest(whole)}

    def poll(self):
        for messages in self.agent.get_new_notifs().values():
            self.notified += [text.decode() for text in messages]

    def notification(self, text):
        """Wait for it; the bytes are those of that moment."""
        end = time.time() + LIMIT
        while text not in self.notified and time.time() < end:
            self.poll()
        answer = self.digest()
        answer["count"] = self.notified.count(text)
        return answer

    def seen(self):
        self.poll()
        return {"seen": self.notified}


def make_agent(name, options):
    config = nixl_agent_config(
        enable_prog_thread=options.thread,
        backends=["UCX"],
        capture_telemetry=True,
        num_threads=options.threads,
    )
    return nixl_agent(name, config)


class Initiator:
    """The agent that posts, and its peer in a process of its own."""

    def __init__(self, options, kind, peer_kind, size, count=1):
        self.options = options
        self.kind = kind
        self.peer_kind = peer_kind
        self.agent = make_agent("initiator", options)
        places = [allocate(kind, size) for _ in range(count)]
        self.addresses = [address for address, _ in places]
        self.view = places[0][1]
        self.views = [view for _, view in places]
        self.handle = self.agent.register_memory(
            [(address, size, 0, "") for address in self.addresses], kind
        )
        self.name = None
        self.start_peer(size, count)

    def start_peer(self, size, count):
        ours, theirs = socket.socketpair()
        arguments = [sys.executable, __file__, *sys.argv[1:], "--fd", str(theirs.fileno())]
        self.process = subprocess.Popen(arguments, pass_fds=[theirs.fileno()])
        theirs.close()
        self.line = Line(ours)
        ours.settimeout(LIMIT)
        self.peer_addresses = self.line.call(
            "allocate", kind=self.peer_kind, size=size, count=count
        )
        self.connect("register")

    def connect(self, command):
        metadata = self.line.call(command, raw=True)
        if self.name is not None:
            self.agent.remove_remote_agent(self.name)
        name = self.agent.add_remote_agent(metadata)
        self.name = name.decode() if isinstance(name, bytes) else name

    def prepare(self, ours, theirs):
        return (
            self.agent.prep_xfer_dlist("NIXL_INIT_AGENT", ours, self.kind),
            self.agent.prep_xfer_dlist(self.name, theirs, self.peer_kind),
        )

    def post(self, operation, lists, count, text):
        which = np.arange(count, dtype=np.int32)
        transfer = self.agent.make_prepped_xfer(
            operation, lists[0], which, lists[1], which, text.encode()
        )
        return transfer, self.agent.transfer(transfer)

    def wait(self, transfer, state):
        end = time.time() + LIMIT
        while state == "PROC":
            state = self.agent.check_xfer_state(transfer)
            expect(time.time() < end, f"a transfer is in progress after {LIMIT} s")
        return state

    def release(self, lists):
        for handle in lists:
            self.agent.release_dlist_handle(handle)

    def quit(self):
        self.line.call("quit")
        expect(self.process.wait(LIMIT) == 0, f"the peer ended with {self.process.returncode}")


def places(order, count, seed):
    """Which of 2 * count blocks: every second one, or any."""
    if order == "strided":
        return np.arange(count) * 2
    return np.random.default_rng(seed).permutation(2 * count)[:count]


def descriptors(order, base, size, which):
    """The lists as NIXL takes them: five columns with a stride, or three."""
    if order == "strided":
        return np.array([[base, size, 0, 2 * size, len(which)]], dtype=np.uint64)
    rows = [base + which * size, np.full(len(which), size), np.zeros(len(which), dtype=int)]
    return np.stack(rows, axis=1).astype(np.uint64)


def check_round(pair, operation, size, count, order, salt):
    """Move a list; compare all bytes of both sides, at the time of the notification for
    WRITE."""
    text = f"{operation} {size} {order} {salt}"
    total = 2 * size * count
    ours, theirs = places(order, count, salt), places(order, count, salt + 1)
    wanted, wanted_there = pattern(len(pair.view), salt), pattern(len(pair.view), salt + 7)
    pair.view[:] = wanted
    pair.line.call("fill", salt=salt + 7)
    here = wanted[:total].reshape(-1, size)
    there = wanted_there[:total].reshape(-1, size)
    if operation == "WRITE":
        there[theirs] = here[ours]
    else:
        here[ours] = there[theirs]

    lists = pair.prepare(
        descriptors(order, pair.addresses[0], size, ours),
        descriptors(order, pair.peer_addresses[0], size, theirs),
    )
    expect(text not in pair.line.call("seen")["seen"], f"{text}: notified before it was posted")
    transfer, state = pair.post(operation, lists, count, text)
    state = pair.wait(transfer, state)
    expect(state == "DONE", f"{text}: {state}")
    answer = pair.line.call("notification", text=text)
    expect(answer["count"] == 1, f"{text}: {answer['count']} notifications")
    if pair.options.corrupt:
        pair.line.call("corrupt")
        answer = pair.line.call("digest")
    expect(answer["digest"] == digest(wanted_there), f"{text}: bytes of the peer are wrong")
    expect(bool((pair.view == wanted).all()), f"{text}: bytes here are wrong")
    told = pair.agent.get_xfer_telemetry(transfer)
    expect(
        told.descCount == count and told.totalBytes == count * size,
        f"{text}: telemetry reports {told.descCount} descriptors, {told.totalBytes} bytes",
    )
    pair.agent.release_xfer_handle(transfer)
    pair.release(lists)


def largest():
    return 2 * max(size * count for size, count in SIZES.items())


def case_transfer(options):
    pair = Initiator(options, options.kind, options.peer_kind, largest())
    rounds = 0
    for size, count in SIZES.items():
        for order in ("random", "strided"):
            for operation in ("WRITE", "READ"):
                for _ in range(2):
                    check_round(pair, operation, size, count, order, 100 + rounds)
                    rounds += 1
    pair.quit()
    return f"{rounds} lists of {min(SIZES)} to {max(SIZES)} byte blocks"


def case_rereg(options):
    """Metadata of each registration works, also when the former one was used."""
    pair = Initiator(options, "VRAM", "VRAM", largest())
    for i in range(20):
        check_round(pair, "WRITE", 4096, 256, "random", 1000 + i)
        pair.connect("register_again")
    pair.quit()
    return "20 registrations"


def case_regions(options):
    """Allocations by the thousand, a block in each."""
    size, count = 4096, 3000
    pair = Initiator(options, "VRAM", "VRAM", size, count)
    for i, view in enumerate(pair.views):
        view[:] = i % 251
    pair.line.call("fill", salt=1)
    lists = pair.prepare(
        [(address, size, 0) for address in pair.addresses],
        [(address, size, 0) for address in pair.peer_addresses],
    )
    for i in range(3):
        state = pair.wait(*pair.post("WRITE", lists, count, f"regions {i}"))
        expect(state == "DONE", f"list {i} of {count} regions: {state}")
    wanted = np.concatenate([np.full(size, i % 251, dtype=np.uint8) for i in range(count)])
    answer = pair.line.call("notification", text="regions 2")
    expect(answer["digest"] == digest(wanted), "bytes of the peer are wrong")
    pair.quit()
    return f"{count} allocations"


def try_post(pair, lists, count, text):
    try:
        return pair.post("WRITE", lists, count, text)
    except Exception as error:  # NIXL's, one class for each status
        return None, type(error).__name__


def post_many(pair, number):
    """As many lists as a peer's end may meet; :return: the result of each."""
    count = 2048
    lists = pair.prepare(
        descriptors("random", pair.addresses[0], 4096, places("random", count, 1)),
        descriptors("random", pair.peer_addresses[0], 4096, places("random", count, 2)),
    )
    posted = []
    for i in range(number):
        if i == number // 2:
            yield None
        posted.append(try_post(pair, lists, count, f"many {i}"))
    yield lists, posted


class Held:
    """While it lasts no stream of this process works: lists that are posted stay half done."""

    def __init__(self):
        self.path = os.environ.get("HIPCPU_HOLD")
        expect(self.path, "expected HIPCPU_HOLD to name a file")

    def __enter__(self):
        open(self.path, "w").close()

    def __exit__(self, *_):
        os.unlink(self.path)


def end_of(pair, transfer, state):
    try:
        return pair.wait(transfer, state)
    except Wrong:
        raise
    except Exception as error:  # NIXL's, one class for each status
        return type(error).__name__


def check_next_life(pair):
    """A peer of the same name, after the death of the first."""
    try:
        pair.agent.remove_remote_agent(pair.name)
    except Exception:  # NIXL has done so
        pass
    pair.name = None
    pair.start_peer(largest(), 1)
    check_round(pair, "WRITE", 4096, 256, "random", 2)
    pair.quit()


def case_kill(options):
    """kill -9 between lists: each ends, none hangs, and a peer of the same name works."""
    pair = Initiator(options, "VRAM", "VRAM", largest())
    check_round(pair, "WRITE", 4096, 256, "random", 1)
    posts = post_many(pair, 8)
    next(posts)
    pair.process.kill()
    pair.process.wait()
    lists, posted = next(posts)
    states = [end_of(pair, *post) for post in posted]
    while set(states) == {"DONE"} and len(states) < 1000:  # its end was not noticed yet
        time.sleep(0.1)
        posted.append(try_post(pair, lists, 2048, "more"))
        states.append(end_of(pair, *posted[-1]))
    expect(
        set(states) <= {"DONE", "nixlRemoteDisconnectError"}
        and "nixlRemoteDisconnectError" in states,
        f"lists to a killed peer ended in {states}",
    )
    for transfer, _ in posted:
        if transfer is not None:
            pair.agent.release_xfer_handle(transfer)
    pair.release(lists)
    check_next_life(pair)
    return " ".join(states)


def case_kill_inside(options):
    """kill -9 while the GPU copies a list: the list ends, and not before the GPU has finished."""
    pair = Initiator(options, "VRAM", "VRAM", largest())
    check_round(pair, "WRITE", 4096, 256, "random", 1)
    posts = post_many(pair, 1)
    with Held():
        next(posts)
        lists, posted = next(posts)
        transfer, state = posted[0]
        expect(state == "PROC", f"a list that the GPU holds is {state}")
        pair.process.kill()
        pair.process.wait()
        end = time.time() + 1
        while time.time() < end:
            try:
                state = pair.agent.check_xfer_state(transfer)
            except Exception as error:  # NIXL's, one class for each status
                state = type(error).__name__
            expect(state == "PROC", f"a list that the GPU holds is {state}")
    state = end_of(pair, transfer, state)
    expect(
        state in ("DONE", "nixlRemoteDisconnectError"),
        f"a list to a peer killed meanwhile ended in {state}",
    )
    pair.agent.release_xfer_handle(transfer)
    pair.release(lists)
    check_next_life(pair)
    return state


def case_stop(options):
    """SIGSTOP between lists, for a second: nothing is lost when it goes on."""
    pair = Initiator(options, "VRAM", "VRAM", largest())
    check_round(pair, "WRITE", 4096, 256, "random", 1)
    posts = post_many(pair, 8)
    next(posts)
    os.kill(pair.process.pid, signal.SIGSTOP)
    lists, posted = next(posts)
    end = time.time() + 1
    while time.time() < end:
        for transfer, _ in posted:
            pair.agent.check_xfer_state(transfer)
    os.kill(pair.process.pid, signal.SIGCONT)
    states = {end_of(pair, *post) for post in posted}
    expect(states == {"DONE"}, f"lists to a peer that was stopped ended in {states}")
    for i in range(len(posted)):
        answer = pair.line.call("notification", text=f"many {i}")
        expect(answer["count"] == 1, f"many {i}: {answer['count']} notifications")
    pair.release(lists)
    check_round(pair, "READ", 4096, 256, "random", 2)
    pair.quit()
    return f"{len(posted)} lists"


def parse():
    cases = [name.removeprefix("case_") for name in globals() if name.startswith("case_")]
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=cases)
    parser.add_argument("--kind", default="VRAM", choices=["VRAM", "DRAM"])
    parser.add_argument("--peer-kind", default="VRAM", choices=["VRAM", "DRAM"])
    parser.add_argument("--thread", action="store_true", help="NIXL's progress thread")
    parser.add_argument("--threads", type=int, default=0, help="NIXL's threads that post")
    parser.add_argument("--corrupt", action="store_true", help="change a byte: must fail")
    parser.add_argument("--fd", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse()
    status = 0
    try:
        if options.fd is not None:
            Target(Line(socket.socket(fileno=options.fd)), options).run()
        else:
            print(f"{options.case}: {globals()['case_' + options.case](options)}")
    except EOFError:
        status = 1
    except Exception as error:  # after any error, the exit handlers must not run
        print(f"{options.case}: {type(error).__name__}: {error}")
        status = 1
    sys.stdout.flush()
    os._exit(status)  # a libnl of the wheel crashes in its exit handler


main()
