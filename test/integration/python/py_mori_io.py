# SPDX-License-Identifier: BSD-3-Clause
"""mori.io over morikv between two processes: every byte, statuses, failures.

py_mori_io.py runs all tests; py_mori_io.py target is the other process. It sends packed
descriptors, and executes the lines of its input.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request
from array import array
from unittest import mock

import morikv.as_mori  # noqa: F401
import morikv.listener
import morikv.metrics
import mori.cpp
import mori.io
from morikv import EventType, Mode, Role, top
from morikv import memory as places
from mori.cpp import TransferStatus
from mori.io import (
    BackendType,
    EngineDesc,
    IOEngine,
    IOEngineConfig,
    MemoryDesc,
    MemoryLocationType,
    PollCqMode,
    RdmaBackendConfig,
    StatusCode,
    XgmiBackendConfig,
)

try:
    import numpy
except ImportError:
    numpy = None
try:
    import prometheus_client
    import prometheus_client.parser
except ImportError:
    prometheus_client = None

METRICS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../contrib/metrics")
SIZE, TENSORS = 1 << 18, 2
BLOCK, HERE, THERE = 1024, [3, 4, 90], [70, 71, 5]
LIMIT_MS = 600_000
ON_GPU = os.environ.get("KV_MEMORY") == "gpu"
BACKEND = BackendType[os.environ.get("MORI_BACKEND", "TCP")]


def pattern(side, tensor):
    """Bytes that are in no other place, nor any other side's."""
    return random.Random(side * 100 + tensor).randbytes(SIZE)


class HostMemory:
    loc = MemoryLocationType.CPU

    def __init__(self):
        self.buffer = (ctypes.c_char * SIZE)()
        self.address = ctypes.addressof(self.buffer)

    def fill(self, data):
        ctypes.memmove(self.address, data, SIZE)

    def read(self):
        return bytes(self.buffer)


class GpuMemory:
    """GPU memory, through the HIP runtime of HIP_LIBRARY."""

    loc = MemoryLocationType.GPU

    def __init__(self):
        self.hip = ctypes.CDLL(os.environ["HIP_LIBRARY"])
        pointer = ctypes.c_void_p()
        if self.hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(SIZE)):
            raise MemoryError("hipMalloc")
        self.address = pointer.value

    def _copy(self, to, source):
        if self.hip.hipMemcpy(to, source, ctypes.c_size_t(SIZE), 4):
            raise RuntimeError("hipMemcpy")

    def fill(self, data):
        self._copy(ctypes.c_void_p(self.address), data)

    def read(self):
        buffer = ctypes.create_string_buffer(SIZE)
        self._copy(buffer, ctypes.c_void_p(self.address))
        return buffer.raw


def held_of_peers():
    """Descriptors of this process that another process uses, or used."""
    held = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            held.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:  # the list's own
            pass
    return [name for name in held if "pidfd" in name or "/ucx-mori." in name and "deleted" in name]


def new_memory():
    return GpuMemory() if ON_GPU else HostMemory()


class Side:
    def __init__(self, number):
        self.number = number
        self.engine = IOEngine(f"engine-{number}-{'long' * 30}", IOEngineConfig("127.0.0.1", 0))
        config = {BackendType.XGMI: XgmiBackendConfig()}.get(
            BACKEND, RdmaBackendConfig(2, -1, 1, PollCqMode.POLLING, True)
        )
        self.engine.create_backend(BACKEND, config)
        self.memory = [new_memory() for _ in range(TENSORS)]
        self.descs = []
        for tensor, memory in enumerate(self.memory):
            memory.fill(pattern(number, tensor))
            desc = self.engine.register_memory(memory.address, SIZE, 0, memory.loc)
            self.descs.append(desc)

    def add_blocks(self):
        """The first tensor once more, as two layers of blocks."""
        context, kind = self.engine.context, places.ROCM if ON_GPU else places.HOST
        for layer in range(2):
            place = places.Memory(self.memory[0].address + layer * SIZE // 2, SIZE // 2, kind)
            context.add_region(place, component=1, layer=layer, unit_bytes=BLOCK)
        context.commit()
        self.engine.poll_events()  # from here on they are kept

    def wait(self, kind):
        """:return: values of all events until one of this kind, and that one."""
        values, end = [], time.monotonic() + LIMIT_MS / 1000
        while time.monotonic() < end:
            for event in self.engine.poll_events(1.0):
                if event.type == kind:
                    return values, event
                values.append((event.type, event.value))
        raise AssertionError(f"no {kind.name}: {values}")

    def expose_blocks(self):
        """:return: which layers have come, in any order."""
        peer = self.wait(EventType.PEER_READY)[1].peer
        transfer = self.engine.context.transfer(1, [peer.map([1])], Mode.WRITE, Role.DST)
        transfer.expose({1: THERE})
        told = self.wait(EventType.QUIET)[0]
        transfer.close()
        return sorted(value for kind, value in told if kind == EventType.ARRIVED)


# ---- the other process ----


def send(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def wait_for_note(engine, key, uid):
    end = time.monotonic() + LIMIT_MS / 1000
    status = engine.pop_inbound_transfer_status(key, uid)
    while status is None and time.monotonic() < end:
        time.sleep(0.001)  # a poll: mori.io has nothing to wait for
        status = engine.pop_inbound_transfer_status(key, uid)
    return status.Code() if status is not None else None


def target():
    side = Side(2)
    side.add_blocks()
    packed = [side.engine.get_engine_desc(), *side.descs]
    send([each.pack().hex() for each in packed])
    for line in sys.stdin:
        command, *rest = json.loads(line)
        if command == "read":
            send(side.memory[rest[0]].read().hex())
        elif command == "note":
            send(wait_for_note(side.engine, *rest))
        elif command == "more":
            memory = new_memory()
            send(side.engine.register_memory(memory.address, SIZE, 0, memory.loc).pack().hex())
            side.memory.append(memory)
        elif command == "blocks":
            send(side.expose_blocks())
        elif command == "forget":
            side.engine.deregister_memory(side.descs[rest[0]])
            send("forgotten")


class TwoProcesses(unittest.TestCase):
    def setUp(self):
        is_quiet = not self._testMethodName.startswith("test_every")
        self.other = subprocess.Popen(
            [sys.executable, __file__, "target"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if is_quiet else None,
            text=True,
        )
        self.addCleanup(self.other.wait)
        self.addCleanup(self.other.kill)
        self.addCleanup(self.other.stdout.close)
        self.addCleanup(self.other.stdin.close)
        self.side = Side(1)
        self.side.add_blocks()
        self.engine = self.side.engine
        self.addCleanup(self.engine.close)
        engine, *memory = [bytes.fromhex(each) for each in self.answer()]
        self.remote_engine = EngineDesc.unpack(engine)
        self.remote = [MemoryDesc.unpack(each) for each in memory]
        self.engine.register_remote_engine(self.remote_engine)
        self.sessions = [
            self.engine.create_session(local, remote)
            for local, remote in zip(self.side.descs, self.remote)
        ]

    def answer(self):
        return json.loads(self.other.stdout.readline())

    def send(self, *command):
        self.other.stdin.write(json.dumps(command) + "\n")
        self.other.stdin.flush()

    def call(self, *command):
        self.send(*command)
        return self.answer()

    def there(self, tensor):
        return bytes.fromhex(self.call("read", tensor))

    def succeed(self, *statuses):
        code = self.engine.wait_all(statuses, timeout_ms=LIMIT_MS)
        self.assertEqual(code, StatusCode.SUCCESS, statuses)

    def test_every_byte_of_writes_and_reads(self):
        """Scattered, merging and odd pieces, as lists and as arrays, by both calls."""
        local = [*range(0, 32768, 512), 70001, 90000, 90064]
        remote = [*range(32768, 65536, 512)][::-1] + [200003, 1000, 1064]
        sizes = [511] * 64 + [12345, 64, 64]
        here = [pattern(1, tensor) for tensor in range(TENSORS)]
        there = [bytearray(pattern(2, tensor)) for tensor in range(TENSORS)]
        for tensor in range(TENSORS):
            for a, b, n in zip(local, remote, sizes):
                there[tensor][b : b + n] = here[tensor][a : a + n]
        # posted when the connection is ready
        uid = self.engine.allocate_transfer_uid()
        first = self.sessions[0].batch_write(local, remote, sizes, uid)
        second = self.engine.batch_write(
            [self.side.descs[1]],
            [array("Q", local)],
            [self.remote[1]],
            [numpy.array(remote) if numpy else remote],
            [array("I", sizes)],
            [self.engine.allocate_transfer_uid()],
        )
        self.succeed(first, *second)
        for tensor in range(TENSORS):
            self.assertEqual(self.there(tensor), there[tensor])
        if BACKEND != BackendType.XGMI:
            self.assertEqual(self.call("note", self.engine.key, uid), StatusCode.SUCCESS)

        expected = bytearray(here[0])
        for a, b, n in zip(local, remote, sizes):
            expected[b : b + n] = there[0][a : a + n]
        read = self.sessions[0].batch_read(remote, local, sizes, 77)
        self.assertEqual(read.Wait(), StatusCode.SUCCESS)
        self.assertEqual(self.side.memory[0].read(), expected)
        single = self.sessions[1].read(0, 5, SIZE - 5, 78)
        self.succeed(single)
        self.assertTrue(single.Succeeded() and not single.Failed() and not single.InProgress())
        self.assertEqual(self.side.memory[1].read(), there[1][5:] + here[1][-5:])
        peer = self.engine._get_hub().link(self.remote[0]).peer
        self.assertEqual(peer.query().backend.name, BACKEND.name)

    def test_calls_of_atom_move_blocks_of_chunks(self):
        """As ROCm/ATOM's connector (16c41d0d, kv_transfer/disaggregation/moriio), which is in no
        wheel: settings by position and by name, chunks of a cache by address, a session for each
        pair of chunks, from packed descriptors, and statuses that are polled."""
        config = RdmaBackendConfig(4, -1, 4, PollCqMode.POLLING, False)
        config.max_send_wr = config.max_cqe_num = config.max_msg_sge = 0
        self.assertEqual(config.poll_cq_mode.name, "POLLING")
        key = "atom:ip:127.0.0.1+tp:0+dp:0"
        engine = IOEngine(key, IOEngineConfig(host="127.0.0.1", port=0))
        self.addCleanup(engine.close)
        engine.create_backend(BACKEND, *[config] * (BACKEND == BackendType.RDMA))
        self.assertEqual(EngineDesc.unpack(engine.get_engine_desc().pack()).key, key)
        cache, half = new_memory(), SIZE // 2
        cache.fill(pattern(3, 0))
        chunks = [
            engine.register_memory(cache.address + i * half, half, 0, cache.loc).pack()
            for i in range(2)
        ]
        remote = EngineDesc.unpack(self.remote_engine.pack())
        engine.register_remote_engine(remote)
        sessions = {
            (i, k): engine.create_session(
                MemoryDesc.unpack(chunks[i]), MemoryDesc.unpack(self.remote[k].pack())
            )
            for i in range(2)
            for k in range(TENSORS)
        }
        expected, there = bytearray(pattern(3, 0)), [bytearray(pattern(2, k)) for k in range(2)]
        statuses = []
        for (i, k), session in sessions.items():
            here = [(2 * k + each) * BLOCK for each in (0, 1, 5)]
            theirs = [(9 * i + each) * BLOCK for each in (7, 8, 2)]
            uid = engine.allocate_transfer_uid()
            statuses.append(session.batch_read(here, theirs, [BLOCK] * 3, uid))
            for a, b in zip(here, theirs):
                expected[i * half + a : i * half + a + BLOCK] = there[k][b : b + BLOCK]
        self.wait_until_all_succeed(statuses)
        self.assertEqual(cache.read(), expected)
        for (i, k), session in sessions.items():
            uid = engine.allocate_transfer_uid()
            to = (100 + i) * BLOCK
            statuses.append(session.batch_write([0], [to], [BLOCK], uid))
            there[k][to : to + BLOCK] = expected[i * half : i * half + BLOCK]
        self.wait_until_all_succeed(statuses)
        for k in range(2):
            self.assertEqual(self.there(k), there[k])

    def wait_until_all_succeed(self, statuses):
        end = time.monotonic() + LIMIT_MS / 1000
        while not all(each.Succeeded() for each in statuses) and time.monotonic() < end:
            time.sleep(0.001)  # ATOM polls in each step of its worker
        for status in statuses:
            status.Wait()
            self.assertTrue(status.Succeeded(), (status.Message(), status.Code()))

    def test_blocks_of_layers_beside_mori_io(self):
        """Transfers of the engine's context; both sides get an event for each layer."""
        self.succeed(self.sessions[0].write(0, 0, 1, 1))  # the connection is there
        pairs = self.engine.peer(self.remote_engine.key).map([1])
        transfer = self.engine.context.transfer(1, [pairs], Mode.WRITE, Role.SRC)
        self.send("blocks")
        exposed = self.side.wait(EventType.EXPOSED)[1]
        self.assertEqual((exposed.transfer, list(exposed.units[1].remote)), (transfer, THERE))
        plan = pairs.plan({1: (HERE, exposed.units[1].remote)})
        for layer in range(2):
            transfer.post(plan, layers=(layer, layer + 1), notify=layer)
        transfer.seal()
        told = self.side.wait(EventType.QUIET)[0]
        layers = sorted(value for kind, value in told if kind == EventType.LOCAL_DONE)
        self.assertEqual((layers, self.answer()), ([0, 1], [0, 1]))
        transfer.close()
        plan.close()
        pairs.close()
        expected = bytearray(pattern(1, 0)[:1] + pattern(2, 0)[1:])
        for layer in range(2):
            for a, b in zip(HERE, THERE):
                to, source = (layer * SIZE // 2 + each * BLOCK for each in (b, a))
                expected[to : to + BLOCK] = pattern(1, 0)[source : source + BLOCK]
        self.assertEqual(self.there(0), expected)
        self.assertEqual(self.engine.poll_events(), [])
        threading.Timer(0.01, self.engine.close).start()
        self.assertEqual(self.engine.poll_events(None), [])
        with self.assertRaisesRegex(morikv.errors.NotFoundError, "engine none is not registered"):
            self.engine.peer("none")

    @unittest.skipUnless(ON_GPU, "launches are of GPUs")
    def test_thousands_of_pieces_cost_a_few_launches(self):
        """A long list starts while it is still posted (EARLY_START of mori_xgmi)."""
        calls = self.side.memory[0].hip.hipcpu_calls
        calls.restype = ctypes.c_ulong
        self.succeed(self.sessions[0].write(0, 0, 1, 1))  # the connection, and the kernel
        before = calls(b"hipModuleLaunchKernel")
        here = range(0, SIZE, 64)
        self.succeed(self.sessions[0].batch_write(here, [*here][::-1], 32, 2))
        self.assertGreater(len(here), 4000)
        self.assertIn(calls(b"hipModuleLaunchKernel") - before, range(1, 9))

    def test_errors_are_reported_by_the_status(self):
        session = self.sessions[0]
        self.succeed(session.write(0, 0, 1, 1))
        status = session.batch_write([0, 0], [0, SIZE], [1, 1], 2)
        self.assertTrue(status.Failed() and status.Quiet())
        self.assertEqual(status.Code(), StatusCode.ERR_INVALID_ARGS)
        self.assertIn("piece 1", status.Message())
        self.assertTrue(session.batch_read([0, 1], [0, 1, 2], [1, 1], 3).Failed())
        stale = MemoryDesc.unpack(self.remote[0].pack())
        object.__setattr__(stale, "instance", stale.instance + 1)
        with self.assertRaisesRegex(LookupError, "another engine"):
            self.engine.create_session(self.side.descs[0], stale)
        with self.assertRaisesRegex(LookupError, "not registered"):
            self.engine.create_session(self.remote[0], self.remote[0])

    def test_memory_that_comes_later_and_that_is_gone(self):
        late = MemoryDesc.unpack(bytes.fromhex(self.call("more")))
        self.succeed(self.engine.create_session(self.side.descs[0], late).write(0, 0, 9, 1))
        self.assertEqual(self.call("forget", 0), "forgotten")
        status = self.sessions[0].write(0, 0, 1, 2)
        self.assertNotEqual(status.WaitFor(LIMIT_MS), StatusCode.IN_PROGRESS)
        # the engine may have detected it before, or detects it soon
        self.assertIn(status.Code(), (StatusCode.ERR_NOT_FOUND, StatusCode.SUCCESS))
        self.engine.deregister_memory(self.side.descs[1])
        with self.assertRaises(LookupError):
            self.engine.deregister_memory(self.side.descs[1])

    def test_a_peer_that_died_is_a_failure_with_a_text(self):
        session = self.sessions[0]
        self.succeed(session.write(0, 0, 1, 1))
        self.assertTrue(session.alive())
        self.other.kill()
        self.other.wait()
        statuses = [session.batch_write(0, 0, SIZE, uid) for uid in range(2, 12)]
        while not statuses[-1].Failed():
            self.assertNotEqual(statuses[-1].WaitFor(LIMIT_MS), StatusCode.IN_PROGRESS)
            statuses.append(session.batch_write(0, 0, SIZE, 12))
        self.assertIn(self.remote_engine.key[:20], statuses[-1].Message())
        self.assertFalse(session.alive())
        end = time.monotonic() + LIMIT_MS / 1000  # reported after the errors that it caused
        while (failure := self.engine.pop_peer_failure()) is None and time.monotonic() < end:
            time.sleep(0.001)
        self.assertIsNotNone(failure)
        self.assertEqual(failure.remote_engine_key, self.remote_engine.key)
        self.assertIsNone(self.engine.pop_peer_failure())
        while held_of_peers() and time.monotonic() < end:
            time.sleep(0.001)
        self.assertEqual(held_of_peers(), [])  # it stays registered

    def wait_quiet(self, *statuses):
        end = time.monotonic() + LIMIT_MS / 1000
        while not all(status.Quiet() for status in statuses) and time.monotonic() < end:
            time.sleep(0.001)
        with self.engine._get_hub().lock:
            pass  # its thread has counted them

    def test_figures_are_there_for_prometheus(self):
        session = self.sessions[0]
        write = session.batch_write([0, 100, 200], [0, 100, 300], [100, 100, 7], 1)
        read = session.read(0, 0, 1000, 2)
        self.succeed(write, read)
        self.wait_quiet(write, read)  # it has been counted
        self.assertTrue(session.batch_write([0], [SIZE], [1], 3).Failed())
        with morikv.metrics.Endpoint(self.engine.metrics) as endpoint:
            address = f"http://127.0.0.1:{endpoint.port}"
            with urllib.request.urlopen(f"{address}/metrics") as reply:
                text = reply.read().decode()
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{address}/secrets").close()
            refused.exception.close()
        of = f'{{engine="{self.engine.key}"'
        figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
        for name, value in {
            "vllm:nixl_bytes_transferred_count" + of + "}": 2,
            "vllm:nixl_bytes_transferred_sum" + of + "}": 1207,
            "vllm:nixl_bytes_transferred_bucket" + of + ',le="2048.0"}': 2,
            "vllm:nixl_num_descriptors_sum" + of + "}": 4,  # as given: two of them are neighbours
            "vllm:nixl_num_failed_transfers_total" + of + "}": 1,
            "vllm:nixl_num_kv_expired_reqs_total" + of + "}": 0,
            "morikv_num_regions" + of + "}": TENSORS + 2,
        }.items():
            self.assertEqual(float(figures[name]), value, name)
        for name in "xfer", "post":  # neither bounds the other: the transfer may be done first
            seconds = float(figures[f"vllm:nixl_{name}_time_seconds_sum" + of + "}"])
            self.assertGreater(seconds, 0, name)
        self.assertEqual(figures["morikv_blocks_held" + of + "}"], "0")
        self.assertIn("morikv_event_to_poll_seconds_count" + of + "}", figures)
        self.assertIn("morikv_expose_to_done_seconds_bucket" + of + ',le="+Inf"}', figures)
        helped = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
        typed = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
        self.assertEqual(typed, helped)
        self.check_dashboards(typed)
        up = next(name for name in figures if name.startswith("morikv_peer_up"))
        self.assertNotIn("path", up)  # a text that grows would make a series of each length
        path = up.replace("_up{", "_path{")[:-1] + f',backend="{BACKEND.name.lower()}"}}'
        self.assertEqual(figures[path], "1")
        self.assertEqual(any(name.startswith("morikv_peer_slow") for name in figures), False)
        self.assertIn("put", session.path())

    @unittest.skipIf(prometheus_client is None, "prometheus_client is not installed")
    def test_a_registry_of_prometheus_client_has_the_same_figures(self):
        self.succeed(self.sessions[0].write(0, 0, 1000, 1))
        registry = prometheus_client.CollectorRegistry()
        morikv.metrics.Collector(self.engine.metric_families, registry)

        def samples(text):
            families = prometheus_client.parser.text_string_to_metric_families(text)
            return {
                family.name: (family.type, {(one.name, *sorted(one.labels.items())) for one in family.samples})
                for family in families
            }

        collected = samples(prometheus_client.generate_latest(registry).decode())
        self.assertIn("vllm:nixl_xfer_time_seconds", collected)
        self.assertEqual(collected, samples(self.engine.metrics()))

    def test_a_running_process_is_watched(self):
        with morikv.metrics.Endpoint(self.engine.metrics) as endpoint:
            address = f"http://127.0.0.1:{endpoint.port}/metrics"
            before = top.scrape(address)
            write = self.sessions[0].write(0, 0, 1000, 1)
            self.succeed(write)
            self.wait_quiet(write)
            (line,) = top.lines(before, top.scrape(address), 1e-6)
            self.assertEqual(line.split()[0], "1.000")
            self.assertEqual(line.split()[2:4], ["1", "0"])
            failed = {'vllm:nixl_num_failed_transfers_total{engine="e"}': 7.0}
            self.assertEqual(next(top.lines({}, failed, 1)).split()[3], "7")
            slow = {'morikv_peer_slow{engine="e",peer="B",reason="pid"}': 1.0}
            self.assertEqual(list(top.lines({}, slow, 1))[1:], ["peer B is slow: pid"])
            self.assertEqual(list(top.lines(slow, slow, 1))[1:], [])
            watched = subprocess.run(
                [sys.executable, "-m", "morikv", "top", address, "0.01", "2"], capture_output=True, text=True
            )
        self.assertEqual((watched.returncode, len(watched.stdout.splitlines())), (0, 3), watched.stderr)
        gone = subprocess.run(
            [sys.executable, "-m", "morikv", "top", address], capture_output=True, text=True
        )
        self.assertEqual(gone.returncode, 1)
        self.assertIn(f"{address}: ", gone.stderr)
        self.assertEqual(len(gone.stderr.splitlines()), 1)

    def check_dashboards(self, typed):
        """Each figure of the dashboard and of the alert rules is exported."""
        with open(os.path.join(METRICS, "dashboard.json"), encoding="utf-8") as file:
            dashboard = json.load(file)
        targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
        with open(os.path.join(METRICS, "alerts.yml"), encoding="utf-8") as file:
            rules = re.findall(r"^ +expr: (.+)$", file.read(), re.MULTILINE)
        self.assertGreater(min(len(targets), len(rules)), 3)
        exported = {re.sub("_total$", "", name) for name in typed}
        for expression in [target["expr"] for target in targets] + rules:
            for name in re.findall(r"\b(?:morikv_|vllm:)\w+", expression):
                self.assertIn(re.sub("_(total|bucket|sum|count)$", "", name), exported)

    def test_an_endpoint_serves_ipv6_and_an_engine_that_is_closed(self):
        def closed():
            raise morikv.errors.InvalidError(1, "the context is closed")

        with morikv.metrics.Endpoint(closed, host="::1") as endpoint:
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://[::1]:{endpoint.port}/metrics").close()
        self.assertEqual(refused.exception.code, 503)
        refused.exception.close()

    def test_a_call_may_have_a_deadline(self):
        refused = morikv.errors.InvalidError(1, "refused")
        with mock.patch("morikv.mori_io.hub.QuickPosts.post", side_effect=refused) as post:
            self.sessions[0].batch_write([0], [0], [1], 1, timeout_ms=1234)
            self.sessions[0].batch_read([0], [0], [1], 1)
        told = [call.args[4] for call in post.call_args_list]
        self.assertEqual(told, [1234, 0])

    def test_a_transfer_that_ends_in_its_call_has_succeeded_and_counts(self):
        with mock.patch("morikv.mori_io.hub.QuickPosts.post", return_value=None):
            status = self.sessions[0].batch_write([0, 64], [0, 64], [10, 20], 1)
        self.assertEqual(status.Code(), StatusCode.SUCCESS)
        self.assertTrue(status.Quiet())
        figures = self.engine.metrics()
        self.assertRegex(figures, r"bytes_transferred_sum{.*} 30.0\n")
        self.assertRegex(figures, r"num_descriptors_sum{.*} 2.0\n")

    def test_a_transfer_that_is_aborted_ends(self):
        status = self.sessions[0].write(0, 0, SIZE, 1)
        status.Abort()  # it may already be done
        self.assertNotEqual(status.WaitFor(LIMIT_MS), StatusCode.IN_PROGRESS)

    def test_an_engine_may_be_dropped_in_the_middle(self):
        statuses = [session.write(0, 0, SIZE, 1) for session in self.sessions]
        del self.engine, self.sessions, self.side.engine
        self._cleanups.pop()  # it holds the engine
        gc.collect()
        for status in statuses:
            self.assertNotEqual(status.WaitFor(LIMIT_MS), StatusCode.IN_PROGRESS)


class Alone(unittest.TestCase):
    def test_bytes_of_others_are_refused_with_a_reason(self):
        with self.assertRaisesRegex(ValueError, "no EngineDesc of morikv"):
            EngineDesc.unpack(b"\x86\xa3key")
        with self.assertRaisesRegex(ValueError, "damaged"):
            MemoryDesc.unpack(MemoryDesc._MAGIC + b"{}")

    def test_each_value_of_a_descriptor_is_checked(self):
        every = {EngineDesc("k", "n", "h", "0", 1, 2, 3, b"x"), MemoryDesc(loc=mori.cpp.CPU)}
        for desc in every:
            kind = type(desc)
            self.assertEqual(kind.unpack(desc.pack()), desc)
            values = json.loads(desc.pack()[len(kind._MAGIC) :])
            for name in values:
                for wrong in (None, [], {}, 1.5, -2, 1 << 64, "\u0661", True):
                    if type(wrong) is type(values[name]) and not isinstance(wrong, int):
                        continue
                    if wrong is True and isinstance(values[name], bool):
                        continue
                    text = json.dumps(values | {name: wrong}).encode()
                    with self.assertRaises(ValueError, msg=(name, wrong)):
                        kind.unpack(kind._MAGIC + text)
            with self.assertRaisesRegex(ValueError, "damaged"):
                kind.unpack(kind._MAGIC + b"[" * 100_000)

    def test_the_reason_of_a_failure_is_there_before_its_code(self):
        order = []

        class Watched(TransferStatus):
            def __setattr__(self, name, value):
                order.append(name)
                super().__setattr__(name, value)

        status = Watched()
        order.clear()
        status.Update(StatusCode.ERR_BAD_STATE, "why")
        self.assertEqual(order, ["_message", "_code"])

    def test_a_status_of_no_transfer(self):
        status = TransferStatus()
        self.assertTrue(status.Init() and not status.Failed() and not status.InProgress())
        self.assertEqual(status.Wait(), StatusCode.INIT)

    def test_a_backend_that_is_not_there_is_named(self):
        for kind in (BackendType.FABRIC, BackendType.OFI):
            with self.assertRaisesRegex(NotImplementedError, f"{kind.name}.*XGMI, RDMA"):
                IOEngine("x").create_backend(kind)
        self.assertEqual(mori.io.fabric_alloc(4096, 0), 0)
        mori.io.fabric_free(0)
        for call in (
            mori.io.fabric_torch_allocator,
            mori.io.use_fabric_torch_allocator,
            mori.io.make_fabric_mem_pool,
            mori.io.fabric_mem_pool().__enter__,
        ):
            self.assertRaises(NotImplementedError, call)

    def test_every_name_of_mori_is_there(self):
        for name in (
            *("XGMI", "RDMA", "TCP", "CPU", "GPU", "SUCCESS", "INIT", "IN_PROGRESS"),
            *("ERR_INVALID_ARGS", "ERR_NOT_FOUND", "ERR_RDMA_OP", "ERR_BAD_STATE", "ERR_GPU_OP"),
            *("BackendConfig", "TransferStatus", "PeerFailureEvent", "PeerFailureReason"),
        ):
            self.assertTrue(hasattr(mori.cpp, name), name)
        self.assertIs(mori.cpp.XGMI, BackendType.XGMI)
        self.assertEqual(int(BackendType.XGMI), 1)
        empty = MemoryDesc()
        self.assertEqual((empty.size, empty.numa_node, empty.ipc_handle), (0, -1, bytes(64)))

    def test_a_status_of_an_application(self):
        status = TransferStatus()
        status.SetCode(StatusCode.IN_PROGRESS)
        self.assertEqual(status.WaitFor(0), StatusCode.IN_PROGRESS)
        status.SetMessage("mine")
        status.SetCode(StatusCode.ERR_GPU_OP)
        status.SetCode(StatusCode.SUCCESS)
        self.assertEqual((status.WaitFor(), status.Message()), (StatusCode.SUCCESS, "mine"))

    def test_a_listener_may_end_before_it_is_woken(self):
        fd = os.eventfd(0)
        self.addCleanup(os.close, fd)
        listener = morikv.listener.Listener(mock.Mock(fileno=lambda: fd), lambda: 0, "busy")
        listener.start()
        wake = listener.wake
        listener.wake = lambda: (listener._thread.join(LIMIT_MS / 1000), wake())
        then = mock.Mock()
        self.assertTrue(listener.close(then))  # the thread may handle it first
        self.assertFalse(listener.close(then))
        then.assert_called_once_with()

    def test_the_folder_for_pythonpath_has_the_names(self):
        run = [sys.executable, "-m", "morikv", "names"]
        folder = subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()
        path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        program = "import mori.io; print(mori.io.IOEngine.__module__)"
        environment = os.environ | {"PYTHONPATH": path}
        run = [sys.executable, "-c", program]
        found = subprocess.run(run, check=True, capture_output=True, text=True, env=environment)
        self.assertEqual(found.stdout.strip(), "morikv.mori_io.engine")


class Defects(unittest.TestCase):
    """A fault of one event, peer or thread affects no other. The library's calls are replaced by
    ones that fail, in an engine with a peer in this process."""

    def setUp(self):
        self.engine, self.other = (IOEngine(f"defects-{side}") for side in "ab")
        self.buffers = [(ctypes.c_char * 64)() for _ in range(2)]
        self.descs = []
        for engine, buffer in zip((self.engine, self.other), self.buffers):
            engine.create_backend(BackendType.TCP)
            self.addCleanup(engine.close)
            self.descs.append(engine.register_torch_tensor(buffer))
        self.engine.register_remote_engine(self.other.get_engine_desc())
        self.hub = self.engine._get_hub()

    def fail_posts(self, kind):
        """Every post raises this from now on. :return: the posts that were made."""
        posts = mock.patch.object(self.hub._posts, "post", side_effect=kind(0, "on purpose"))
        self.addCleanup(posts.stop)
        return posts.start()

    def write(self, to=1):
        return self.engine.write(self.descs[0], 0, self.descs[to], 0, 8, 1)

    def test_an_event_that_cannot_be_handled_costs_no_other(self):
        events = [mock.Mock(type=EventType.MSG) for _ in range(3)]
        handled = mock.Mock(side_effect=RuntimeError("on purpose"))
        with self.hub.lock, mock.patch.object(self.hub, "_on_event", handled):
            with mock.patch.object(self.hub.context, "poll", return_value=events):
                with self.assertLogs("morikv.mori_io.hub", "ERROR"):
                    self.assertEqual(self.hub._round(), 0)
        self.assertEqual([call.args[0] for call in handled.mock_calls], events)

    def test_a_peer_that_takes_no_post_is_tried_once_a_round(self):
        with self.hub.lock:
            posts = self.fail_posts(morikv.errors.BusyError)
            statuses = [self.write() for _ in range(50)]
            posts.reset_mock()
            self.hub._retry()
            self.assertEqual(posts.call_count, 1)
        posts.return_value = None
        posts.side_effect = None  # last: from here on a post is done
        self.assertEqual(self.engine.wait_all(statuses, LIMIT_MS), StatusCode.SUCCESS)

    def test_the_last_of_many_that_wait_can_be_aborted(self):
        with self.hub.lock:
            posts = self.fail_posts(morikv.errors.BusyError)
            statuses = [self.write() for _ in range(5)]
            statuses[-1].Abort()
            self.hub._retry()
            self.assertEqual([status.Failed() for status in statuses], [False] * 4 + [True])
            self.assertIn("aborted", statuses[-1].Message())
        posts.return_value = None
        posts.side_effect = None  # last: from here on a post is done
        self.assertEqual(self.engine.wait_all(statuses[:4], LIMIT_MS), StatusCode.SUCCESS)

    def test_posts_that_wait_for_a_peer_that_is_closed_fail(self):
        with self.hub.lock:
            posts = self.fail_posts(morikv.errors.BusyError)
            statuses = [self.write() for _ in range(2)]
            posts.side_effect = morikv.errors.NotFoundError(0, "on purpose")
            closed = morikv.errors.InvalidError(-1, "the object is closed")
            with mock.patch.object(morikv.Peer, "query", side_effect=closed):
                self.hub._retry()
        for status in statuses:
            self.assertTrue(status.Failed())
            self.assertIn("is closed", status.Message())

    def test_a_result_that_cannot_be_read_is_a_failure(self):
        status = TransferStatus()
        operation = mock.Mock()
        operation.query.side_effect = morikv.errors.InvalidError(-1, "on purpose")
        event = mock.Mock(type=EventType.QUIET, operation=operation, value=0)
        with self.hub.lock:
            self.hub._running[operation] = status
            with self.assertRaises(morikv.errors.InvalidError):
                self.hub._on_event(event)
            self.assertNotIn(operation, self.hub._running)
        self.assertTrue(status.Failed())
        self.assertIn("on purpose", status.Message())

    def test_a_peer_that_is_closed_meanwhile_is_a_failure(self):
        self.fail_posts(morikv.errors.NotFoundError)
        closed = morikv.errors.InvalidError(-1, "the object is closed")
        with mock.patch.object(morikv.Peer, "query", side_effect=closed):
            status = self.write()
        self.assertTrue(status.Failed())
        self.assertIn("is closed", status.Message())

    def test_nothing_begins_in_an_engine_that_ends(self):
        self.fail_posts(morikv.errors.BusyError)
        waits = self.write()
        with mock.patch.object(self.hub.context, "close"):  # calls still reach the library
            self.engine.close()
        for status in (waits, self.write(), self.write(to=0)):
            self.assertTrue(status.Failed())
            self.assertIn("closed", status.Message())
        self.assertIsNone(self.hub._mirror)
        self.hub.context.close()

    def test_a_peer_that_is_closed_meanwhile_costs_no_figures(self):
        context = self.hub.context
        closed = mock.Mock(query=mock.Mock(side_effect=morikv.errors.InvalidError(-1, "closed")))
        with mock.patch.object(context, "peers", return_value=[closed, *context.peers()]):
            self.assertIn("defects-b", self.engine.metrics())

    def test_a_silent_client_of_an_endpoint_is_cut(self):
        with mock.patch("morikv.metrics._CLIENT_S", 0.1):
            endpoint = morikv.metrics.Endpoint(self.engine.metrics)
        with endpoint, socket.create_connection(("127.0.0.1", endpoint.port)) as client:
            client.settimeout(LIMIT_MS / 1000)
            self.assertEqual(client.recv(1), b"")

    def test_a_note_has_a_bound(self):
        note = mock.Mock(type=EventType.NOTE, data=bytes(4097), operation=None)
        with self.hub.lock, self.assertLogs("morikv.mori_io.hub", "WARNING"):
            self.hub._on_event(note)
        self.assertEqual(len(self.hub._notes), 0)
        with self.assertRaisesRegex(ValueError, "4097 bytes"):
            IOEngine("k" * 4097)


if __name__ == "__main__":
    if sys.argv[1:2] == ["target"]:
        target()
    else:
        unittest.main(verbosity=2)
