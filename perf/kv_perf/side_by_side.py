#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""CollectiveX kv-transfer (kv-dsv4, fp8) by libmorikv, NIXL and Mooncake, on the same lists.

    side_by_side.py [OPTION...] [ENGINE...]

ENGINE is morikv, nixl or mooncake, with its own settings: nixl+UCX_TLS=tcp,self sets a
variable, +MEMORY=DRAM its memory, +PYTHON=/usr/bin/python3.13 its interpreter. Each runs in
two processes of this host, one after the other; the row of an engine that cannot run has the
reason.

A request is a list of pages, layer by layer, of what vLLM keeps for DeepSeek-V4-Pro: 30
layers of an entry for 4 tokens (576 bytes, and 132 of the indexer), 31 of one for 128, and 61
of the last 128 tokens. Each side permutes its pages by a seed of the case, with NumPy's default
generator, so that the block tables are CollectiveX's. A burst posts its requests and waits for
all; two warm up, eight are timed, three times over. Bursts with too many pages or too large a
pool are left out, from the largest on. Every byte of each page is compared. The row "bulk" moves
one piece as large as a request.

Exit status: 0, 1 when bytes were wrong or an engine failed, 3 for a wrong option.
"""

import argparse
import ctypes
import datetime
import json
import mmap
import os
import platform
import socket
import struct
import subprocess
import sys
import tempfile
import time
from array import array

WARMUP, TIMED, TRIALS = 2, 8, 3
LIMIT_S = 600
MOST_PAGES = 2_250_000  # of a burst of several requests, as in CollectiveX
# layers, tokens an entry, bytes of it; the indexer has a region of its own
REGIONS = (("csa", 30, 4, 576), ("csa-idx", 30, 4, 132), ("hca", 31, 128, 576))
WINDOW = ("window", 61, 128, 576)


class Missing(Exception):
    """The reason why an engine cannot run."""


# ---- The workload ------------------------------------------------------------------


def plan(isl, page_tokens, batch):
    """Regions of a pool: name, layers, bytes of a page, pages a request, pages, first byte."""
    slack = max(2.0, batch * 1.25)
    regions, first = [], 0
    for name, layers, tokens, size in REGIONS:
        entries = max(1, page_tokens // tokens)
        pages = -(-(-(-isl // tokens)) // entries)
        regions.append((name, layers, entries * size, pages, int(pages * slack) + 8, first))
        first += layers * regions[-1][4] * entries * size
    name, layers, tokens, size = WINDOW
    pages = -(-min(isl, tokens) // page_tokens)
    regions.append((name, layers, page_tokens * size, pages, int(pages * slack) + 8, first))
    return regions, first + layers * regions[-1][4] * page_tokens * size


def offsets(regions, seed, request):
    """Offsets of a request's pages, layer by layer, on one side."""
    import numpy

    random = numpy.random.default_rng(seed)
    places = array("Q")
    for _, layers, size, pages, room, first in regions:
        table = random.permutation(room)[request * pages : (request + 1) * pages]
        rows = numpy.arange(layers)[:, None] * room + table[None, :]
        places.frombytes((rows.reshape(-1) * size + first).astype(numpy.uint64).tobytes())
    return places


def number_of(regions):
    """Pages of a request."""
    return sum(layers * pages for _, layers, _, pages, _, _ in regions)


def allowed(options, isl, page):
    """Bursts of a case whose pages are not too many, and whose pool is not too large."""
    bursts = sorted(options.batch)
    pages = number_of(plan(isl, page, 1)[0])
    bursts = [b for b in bursts if b == bursts[0] or b * pages <= MOST_PAGES]
    while bursts and plan(isl, page, bursts[-1])[1] > options.room:
        bursts.pop()
    return bursts


def points(options):
    """A case for each row: its description, and the lists of each request of its burst."""
    for isl in options.isl:
        for page in options.page_tokens:
            bursts = allowed(options, isl, page)
            if bursts != sorted(options.batch):
                most = f"bursts of up to {bursts[-1]}" if bursts else "none"
                print(f"{isl} tokens in pages of {page}: {most}, by the number of pages and --room", flush=True)
            if not bursts:
                continue
            regions, room = plan(isl, page, bursts[-1])
            sizes = array("Q")
            for _, layers, size, pages, _, _ in regions:
                sizes.extend([size] * (layers * pages))
            seed = isl * 31 + page + len("dsv4") * 7
            for batch in bursts:
                lists = [(offsets(regions, seed + 1000, r), offsets(regions, seed, r), sizes) for r in range(batch)]
                yield case("paged", isl, page, regions[0][2], batch, lists, room)
        regions, _ = plan(isl, 64, 1)
        if plan(isl, 64, 1)[1] > options.room:
            continue
        size = sum(layers * bytes_ * pages for _, layers, bytes_, pages, _, _ in regions)
        whole = [(array("Q", [0]), array("Q", [0]), array("Q", [size]))]
        yield case("bulk", isl, None, None, 1, whole, size)


def case(kind, isl, page, page_bytes, batch, lists, room):
    row = {"kind": kind, "preset": "dsv4", "isl": isl, "page_tokens": page, "layers": 61, "page_bytes": page_bytes}
    row |= {"descs": len(lists[0][2]), "req_bytes": sum(lists[0][2]), "batch": batch}
    return {"row": row, "lists": lists, "room": room}


# ---- Memory ------------------------------------------------------------------------


class Pool:
    """Memory whose bytes identify their place and their owner."""

    def __init__(self, kind, size):
        self.size, self.kind = size, kind
        if kind == "VRAM":
            hip, pointer = ctypes.CDLL("libamdhip64.so.6"), ctypes.c_void_p()
            if hip.hipSetDevice(0) or hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)):
                raise Missing(f"hipMalloc({size}) failed")
            self.address = pointer.value
        else:
            self.keep = mmap.mmap(-1, size)
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.keep))
        self.view = memoryview((ctypes.c_char * size).from_address(self.address)).cast("B")

    def paint(self, is_target):
        salt = 91 if is_target else 0
        period = b"".join(bytes([(i * 131 + 7 + salt) & 255]) * 256 for i in range(256))
        count = -(-self.size // len(period))
        self.view[:] = (period * count)[: self.size]

    @staticmethod
    def wanted(offset, size, of_target):
        salt, first = 91 if of_target else 0, offset >> 8
        chunks = range(first, ((offset + size - 1) >> 8) + 1)
        whole = b"".join(bytes([(i * 131 + 7 + salt) & 255]) * 256 for i in chunks)
        return whole[offset - (first << 8) :][:size]

    def wrong(self, lists, is_target):
        """The first page that does not have the other side's bytes, or None."""
        for ours, theirs, sizes in lists:
            for i, size in enumerate(sizes):
                here, there = (theirs[i], ours[i]) if is_target else (ours[i], theirs[i])
                if self.view[here : here + size] != self.wanted(there, size, not is_target):
                    return f"{size} bytes at {here}"
        return None


# ---- Engines -----------------------------------------------------------------------


class Morikv:
    """Transfers by the names of mori.io, as connectors for MORI-IO make them."""

    def __init__(self, name):
        from morikv import mori_io

        self.api, self.engine, self.session = mori_io, mori_io.IOEngine(name), {}
        for kind in mori_io.BackendType.XGMI, mori_io.BackendType.RDMA:
            self.engine.create_backend(kind)  # UCX decides between them

    def add(self, pool):
        kind = self.api.MemoryLocationType
        self.memory = self.engine.register_memory(
            pool.address, pool.size, 0, kind.GPU if pool.kind == "VRAM" else kind.CPU
        )
        return [self.engine.get_engine_desc().pack().hex(), self.memory.pack().hex()]

    def connect(self, told):
        self.engine.register_remote_engine(self.api.EngineDesc.unpack(bytes.fromhex(told[0])))
        self.session = self.engine.create_session(self.memory, self.api.MemoryDesc.unpack(bytes.fromhex(told[1])))

    def make(self, lists, op):
        call = self.session.batch_read if op == "pull" else self.session.batch_write
        return lambda: call(*lists, 1)

    def wait(self, status):
        if status.Wait() != self.api.StatusCode.SUCCESS:
            raise RuntimeError(status.Message())

    def idle(self):
        pass


class Nixl:
    def __init__(self, name):
        from nixl._api import nixl_agent, nixl_agent_config

        self.agent = nixl_agent(name, nixl_agent_config(backends=["UCX"]))

    def add(self, pool):
        self.pool = pool
        self.agent.register_memory([(pool.address, pool.size, 0, "")], pool.kind)
        return [self.agent.get_agent_metadata().hex(), str(pool.address), pool.kind]

    def connect(self, told):
        name = self.agent.add_remote_agent(bytes.fromhex(told[0]))
        self.peer, self.base, self.kind = name.decode() if isinstance(name, bytes) else name, int(told[1]), told[2]

    def make(self, lists, op):
        import numpy

        which = numpy.arange(len(lists[2]), dtype=numpy.int32)
        rows = [
            numpy.stack([numpy.array(o, dtype=numpy.uint64) + numpy.uint64(b), numpy.array(lists[2]), 0 * which], axis=1)
            for o, b in ((lists[0], self.pool.address), (lists[1], self.base))
        ]
        here = self.agent.prep_xfer_dlist("NIXL_INIT_AGENT", rows[0].astype(numpy.uint64), self.pool.kind)
        there = self.agent.prep_xfer_dlist(self.peer, rows[1].astype(numpy.uint64), self.kind)
        transfer = self.agent.make_prepped_xfer("READ" if op == "pull" else "WRITE", here, which, there, which)
        return lambda: (transfer, self.agent.transfer(transfer))

    def wait(self, posted):
        transfer, state = posted
        while state == "PROC":
            state = self.agent.check_xfer_state(transfer)
        if state != "DONE":
            raise RuntimeError(f"NIXL's transfer ended in {state}")

    def idle(self):
        self.agent.get_new_notifs()


class Mooncake:
    """Over tcp; in batches of 8192, on a thread that blocks, as SGLang calls it."""

    def __init__(self, _name):
        from concurrent.futures import ThreadPoolExecutor

        # without these it opens a connection for each piece, and refuses a batch of this size
        os.environ.setdefault("MC_TCP_ENABLE_CONNECTION_POOL", "1")
        os.environ.setdefault("MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER", "1000000")
        from mooncake.engine import TransferEngine

        self.engine = TransferEngine()
        status = self.engine.initialize(f"127.0.0.1:{20000 + os.getpid() % 12000}", "P2PHANDSHAKE", "tcp", "")
        if status != 0:
            raise Missing(f"TransferEngine.initialize() = {status}")
        self.threads = ThreadPoolExecutor(max_workers=16)

    def add(self, pool):
        self.pool = pool
        if pool.kind == "VRAM":
            raise Missing("the wheel without CUDA moves host memory alone")
        if self.engine.register_memory(pool.address, pool.size) != 0:
            raise Missing("register_memory() failed")
        return [f"127.0.0.1:{self.engine.get_rpc_port()}", str(pool.address)]

    def connect(self, told):
        self.peer, self.base = told[0], int(told[1])

    def make(self, lists, op):
        name = "batch_transfer_sync_" + ("read" if op == "pull" else "write")
        call = getattr(self.engine, name)
        ours = [o + self.pool.address for o in lists[0]]
        theirs = [o + self.base for o in lists[1]]
        sizes = list(lists[2])

        def run():
            for i in range(0, len(sizes), 8192):
                status = call(self.peer, ours[i : i + 8192], theirs[i : i + 8192], sizes[i : i + 8192])
                if status != 0:
                    raise RuntimeError(f"{name}() = {status}")

        return lambda: self.threads.submit(run)

    def wait(self, posted):
        posted.result()

    def idle(self):
        pass


ENGINES = {"morikv": Morikv, "nixl": Nixl, "mooncake": Mooncake}


# ---- The two sides -----------------------------------------------------------------


class Line:
    def __init__(self, sock):
        self.file = sock.makefile("rw")
        self.sock = sock

    def send(self, message):
        self.file.write(json.dumps(message) + "\n")
        self.file.flush()

    def receive(self):
        text = self.file.readline()
        if not text:
            raise EOFError("the other side is gone")
        message = json.loads(text)
        if isinstance(message, dict) and "error" in message:
            raise Missing(message["error"])
        return message


def load(folder, index):
    with open(f"{folder}/{index}.json") as file:
        point = json.load(file)
    with open(f"{folder}/{index}.lists", "rb") as file:
        lists = []
        for count in point["counts"]:
            lists.append(tuple(array("Q", file.read(8 * count)) for _ in range(3)))
    return point, lists


def open_side(name, is_target, kind, folder, line):
    with open(f"{folder}/rooms") as file:
        pool = Pool(kind, max(json.load(file)))
    engine = ENGINES[name]("target" if is_target else "initiator")
    line.send(engine.add(pool))
    told = line.receive()
    if not is_target:
        engine.connect(told)
    return engine, pool


def target(engine, pool, folder, line):
    import select

    while True:
        while not select.select([line.sock], [], [], 0.001)[0]:
            engine.idle()
        message = line.receive()
        if message == "quit":
            return
        pool.paint(True)
        line.send("painted")
        index, op = line.receive()
        line.send(pool.wrong(load(folder, index)[1], True) if op == "push" else None)


def timed_burst(engine, posts):
    begin = time.perf_counter()
    posted = [post() for post in posts]
    for post in posted:
        engine.wait(post)
    return (time.perf_counter() - begin) * 1e3


def measure(engine, pool, line, folder, index, op):
    point, lists = load(folder, index)
    pool.paint(False)
    line.send("paint")
    line.receive()
    begin = time.perf_counter()
    posts = [engine.make(one, op) for one in lists]
    row = point["row"] | {"op": op, "prep_ms": round((time.perf_counter() - begin) * 1e3, 3)}
    samples = []
    for _ in range(TRIALS):
        for i in range(WARMUP + TIMED):
            took = timed_burst(engine, posts)
            samples += [took] if i >= WARMUP else []
    line.send([index, op])
    wrong = line.receive()
    wrong = pool.wrong(lists, False) if op == "pull" else wrong
    samples.sort()
    number = len(samples)
    p50 = samples[number // 2]
    row["latency_ms"] = {
        "p50": round(p50, 3),
        "p95": round(samples[min(number - 1, int(number * 0.95))], 3),
        "min": round(samples[0], 3),
        "max": round(samples[-1], 3),
        "n": number,
    }
    row["gbps_p50"] = round(row["req_bytes"] * row["batch"] / p50 / 1e6, 2)
    row["verify"] = {"passed": wrong is None, "detail": wrong or ""}
    return row


def side(options):
    line = Line(socket.socket(fileno=options.fd))
    status = 0
    try:
        engine, pool = open_side(options.engine[0], options.side == "target", options.memory, options.folder, line)
        if options.side == "target":
            target(engine, pool, options.folder, line)
        else:
            for index, op in json.loads(options.what):
                print(json.dumps(measure(engine, pool, line, options.folder, index, op)), flush=True)
            line.send("quit")
    except EOFError:
        status = 1
    except BaseException as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        print(json.dumps({"error": text}), flush=True)
        line.send({"error": text})
        status = 1
    sys.stdout.flush()
    os._exit(status)  # skip the libraries' destructors, which are not measured


# ---- The table ---------------------------------------------------------------------


def run_engine(spec, options, folder, what):
    """Rows of one engine, or the reason for none."""
    name, *settings = spec.split("+")
    extra = dict(setting.split("=", 1) for setting in settings)
    memory = extra.pop("MEMORY", options.memory)
    python = extra.pop("PYTHON", sys.executable)
    ends = socket.socketpair()
    children = []
    for role, end in zip(("target", "initiator"), ends):
        command = [python, __file__, "--side", role, "--fd", str(end.fileno()), "--folder", folder, "--memory", memory]
        command += ["--what", json.dumps(what), name]
        log = open(f"{folder}/{role}.log", "w")
        pipe = subprocess.PIPE if role == "initiator" else log
        env = os.environ | extra
        children.append(subprocess.Popen(command, env=env, pass_fds=[end.fileno()], stdout=pipe, stderr=log, text=True))
        end.close()
    rows, reason = [], None
    try:
        text = children[1].communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        children[1].kill()
        text, reason = children[1].communicate()[0], f"no end after {LIMIT_S} s"
    for line in text.splitlines():
        row = json.loads(line) if line.startswith("{") else {}
        reason = row.get("error", reason)
        rows += [row | {"engine": spec, "memory": memory}] if "kind" in row else []
    children[0].kill()
    children[0].wait()
    if children[1].returncode != 0 and reason is None:
        reason = f"ended with status {children[1].returncode}"
    return rows, reason


def show(row):
    page = "bulk" if row["kind"] == "bulk" else f"paged-{row['page_tokens']}"
    print(
        f"{row['engine']:<27.27} {row['memory']} {row['op']} {page:<8} {row['isl']:>6} {row['batch']:>3}"
        f" {row['descs']:>8} {row['gbps_p50']:>8.2f} {row['latency_ms']['p50']:>9.3f} {row['latency_ms']['p95']:>9.3f}"
        + ("" if row["verify"]["passed"] else "  WRONG"),
        flush=True,
    )


def write_points(options, folder):
    what, rooms = [], []
    for index, point in enumerate(points(options)):
        with open(f"{folder}/{index}.json", "w") as file:
            json.dump({"row": point["row"], "counts": [len(one[2]) for one in point["lists"]]}, file)
        with open(f"{folder}/{index}.lists", "wb") as file:
            for columns in point["lists"]:
                for column in columns:
                    column.tofile(file)
        rooms.append(point["room"])
        what += [(index, op) for op in options.ops]
    with open(f"{folder}/rooms", "w") as file:
        json.dump(rooms, file)
    return what


def compare(options):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%FT%TZ")
    rows, failed = [], False
    print(f"CollectiveX kv-transfer, kv-dsv4 fp8 | host {platform.node()} | {now}")
    print(f"UCX_TLS={os.environ.get('UCX_TLS', 'all')} | every byte compared | median of {TRIALS * TIMED} bursts")
    print(f"{'engine':<27} mem  op   pages    tokens req    descs     GB/s    p50 ms    p95 ms")
    with tempfile.TemporaryDirectory() as folder:
        what = write_points(options, folder)
        for spec in options.engine:
            mine, reason = run_engine(spec, options, folder, what)
            for row in mine:
                show(row)
            rows += mine
            failed = failed or any(not row["verify"]["passed"] for row in mine) or (mine and reason is not None)
            if reason is not None:
                print(f"{spec:<27.27} left out: {reason}"[: 400], flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"tool": "side_by_side.py", "host": platform.node(), "date": now, "rows": rows}, file, indent=1)
    return 1 if failed or not rows else 0


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda text: (print(f"side_by_side.py: {text}", file=sys.stderr), sys.exit(3))
    parser.add_argument("engine", nargs="*", metavar="ENGINE", help="[morikv nixl mooncake]")
    parser.add_argument("--isl", type=numbers, default=[8192, 32768, 131072, 524288], help="tokens of a request")
    parser.add_argument("--page_tokens", type=numbers, default=[16, 64])
    parser.add_argument("--batch", type=numbers, default=[1, 2, 4, 8, 16], help="requests of a burst")
    parser.add_argument("--ops", type=lambda text: text.split(","), default=["pull", "push"])
    parser.add_argument("--memory", choices=["DRAM", "VRAM"], default="DRAM")
    parser.add_argument("--room", type=int, default=64 << 30, help="bytes that a pool may have [64 GiB]")
    parser.add_argument("--json", metavar="FILE", help="also write the rows, with CollectiveX's names")
    for name in ("--side", "--folder", "--what"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--fd", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.engine = options.engine or ["morikv", "nixl", "mooncake"]
    unknown = [spec for spec in options.engine if spec.split("+")[0] not in ENGINES]
    if unknown:
        parser.error(f"engine {unknown[0]}: expected {', '.join(ENGINES)}, then +NAME=VALUE")
    if options.side:
        side(options)
    sys.exit(compare(options))


main()
