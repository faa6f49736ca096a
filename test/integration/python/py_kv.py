# SPDX-License-Identifier: BSD-3-Clause
"""morikv between two processes: every byte compared, errors, lifetimes, asyncio.

py_kv.py runs all tests; py_kv.py decode is the other process, at the end of a pipe.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import re
import subprocess
import sys
import threading
import unittest
from array import array
from unittest import mock

import morikv
from morikv import EventType, Mode, Role, errors
from morikv._handle import Handle

LAYERS, BLOCKS, BLOCK_BYTES = 3, 64, 1024
HERE = [3, 4, 5, 40, 17, 63]
THERE = [7, 8, 30, 31, 2, 60]
LIMIT_S = 600


class HostCache:
    """A layer's blocks in host memory."""

    def __init__(self) -> None:
        self.layers = [bytearray(BLOCKS * BLOCK_BYTES) for _ in range(LAYERS)]

    def source(self, layer):
        return self.layers[layer]

    def fill(self, layer, data):
        self.layers[layer][:] = data

    def read(self, layer):
        return bytes(self.layers[layer])


class GpuCache:
    """The same in memory of a GPU, through the HIP runtime that HIP_LIBRARY names."""

    def __init__(self) -> None:
        self.hip = ctypes.CDLL(os.environ["HIP_LIBRARY"])
        self.layers = []
        for _ in range(LAYERS):
            pointer = ctypes.c_void_p()
            if self.hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(BLOCKS * BLOCK_BYTES)):
                raise MemoryError("hipMalloc")
            self.layers.append(pointer)

    def source(self, layer):
        return morikv.Memory(self.layers[layer].value, BLOCKS * BLOCK_BYTES, morikv.memory.ROCM)

    def _copy(self, dst, src):
        if self.hip.hipMemcpy(dst, src, ctypes.c_size_t(BLOCKS * BLOCK_BYTES), 4):
            raise RuntimeError("hipMemcpy")

    def fill(self, layer, data):
        self._copy(self.layers[layer], data)

    def read(self, layer):
        buffer = ctypes.create_string_buffer(BLOCKS * BLOCK_BYTES)
        self._copy(buffer, self.layers[layer])
        return buffer.raw


def pattern(layer, side):
    """Bytes of a layer: each block differs from all others, here and there."""
    return b"".join(
        bytes([side, layer, block, (block * 7 + layer) % 251]) * (BLOCK_BYTES // 4)
        for block in range(BLOCKS)
    )


def make_cache(side):
    cache = GpuCache() if os.environ.get("KV_MEMORY") == "gpu" else HostCache()
    for layer in range(LAYERS):
        cache.fill(layer, pattern(layer, side))
    return cache


def open_cache(side, **kwargs):
    context = morikv.Context(**kwargs)
    cache = make_cache(side)
    for layer in range(LAYERS):
        context.add_region(cache.source(layer), layer=layer, unit_bytes=BLOCK_BYTES)
    context.commit()
    return context, cache


def wait(context, kind, transfer=None):
    for event in context.events(timeout=LIMIT_S):
        if event.type in (EventType.FAILED, EventType.ABORTED, EventType.PEER_FAILED):
            raise AssertionError(event.text)
        if event.type == kind and transfer in (None, event.transfer):
            return event
    raise AssertionError(f"no {kind.name} within {LIMIT_S} s")


def values_and_end(context, kind, transfer):
    """Values of the events of this kind before the end, and that."""
    values = []
    for event in context.events(timeout=LIMIT_S):
        if event.type == kind and event.transfer == transfer:
            values.append(event.value)
        if event.type in (EventType.DONE, EventType.FAILED, EventType.ABORTED):
            return values, event
    raise AssertionError(f"no end within {LIMIT_S} s")


def expected(layer, side, moved, other_side, other_blocks):
    """A layer in which blocks were overwritten by the other side's."""
    mine, other = pattern(layer, side), pattern(layer, other_side)
    blocks = [mine[i * BLOCK_BYTES : (i + 1) * BLOCK_BYTES] for i in range(BLOCKS)]
    for to, source in zip(moved, other_blocks):
        blocks[to] = other[source * BLOCK_BYTES : (source + 1) * BLOCK_BYTES]
    return b"".join(blocks)


# ---- the other process: destination of a WRITE, then source of a READ ----


def decode(is_once):
    context, cache = open_cache(2, name="decode")
    sys.stdout.buffer.write(len(context.blob()).to_bytes(4, "little") + context.blob())
    sys.stdout.buffer.flush()
    peer = wait(context, EventType.PEER_READY).peer
    pairs = peer.map()
    with_bytes = context.transfer(1, [pairs], Mode.WRITE, Role.DST)
    with_bytes.expose({0: THERE}, meta=b"first")
    arrived, end = values_and_end(context, EventType.ARRIVED, with_bytes)
    wait(context, EventType.QUIET, with_bytes)
    for layer in range(LAYERS):
        if cache.read(layer) != expected(layer, 2, THERE, 1, HERE):
            sys.exit(f"layer {layer} is wrong after the WRITE")
    if with_bytes.done_data(0) != end.data:
        sys.exit("the bytes of the seal and of DONE differ")
    with_bytes.close()
    if is_once:
        return

    read = context.transfer(2, [pairs], Mode.READ, Role.SRC)
    read.expose({0: array("I", THERE)})
    wait(context, EventType.QUIET, read)
    read.close()
    peer.send(9, 4, b"head" + end.data, bytes(arrived))
    for event in context.events(timeout=LIMIT_S):
        if event.type in (EventType.PEER_CLOSED, EventType.PEER_FAILED):
            break
    context.close()


class TwoProcesses(unittest.TestCase):
    def setUp(self):
        self.other = subprocess.Popen(
            [sys.executable, __file__, "decode"],
            stdout=subprocess.PIPE,
            stderr=None if self._testMethodName.startswith("test_every") else subprocess.DEVNULL,
        )
        self.addCleanup(self.other.stdout.close)
        self.addCleanup(self.other.wait)
        self.addCleanup(self.other.kill)
        self.context, self.cache = open_cache(1, name="prefill")
        self.addCleanup(self.context.close)

    def connect(self):
        size = int.from_bytes(self.other.stdout.read(4), "little")
        peer = self.context.add_peer(self.other.stdout.read(size), "decode")
        wait(self.context, EventType.PEER_READY)
        return peer

    def test_every_byte_of_a_write_and_a_read(self):
        peer = self.connect()
        pairs = peer.map()
        write = self.context.transfer(
            1, [pairs], Mode.WRITE, Role.SRC, priority=morikv.Priority.HIGH
        )
        exposed = wait(self.context, EventType.EXPOSED, write)
        self.assertEqual(list(exposed.units[0].remote), THERE)
        self.assertEqual(exposed.data, b"first")
        plan = pairs.plan({0: (HERE, exposed.units[0].remote)})
        self.assertEqual(plan.bytes, LAYERS * len(HERE) * BLOCK_BYTES)
        opened = threading.Event()
        for layer in range(LAYERS):
            write.post(plan, layers=(layer, layer + 1), ready=opened.is_set, notify=layer)
        self.assertRaises(errors.BusyError, write.declare_dead)
        write.seal(data=b"token")
        self.context.progress()
        self.assertEqual(write.query().num_ucp_calls, 0)
        opened.set()
        values, end = values_and_end(self.context, EventType.LOCAL_DONE, write)
        self.assertEqual((sorted(values), end.type), (list(range(LAYERS)), EventType.DONE))
        wait(self.context, EventType.QUIET, write)
        self.assertEqual(write.state, morikv.State.DONE)
        write.close()

        read = self.context.transfer(2, [pairs], Mode.READ, Role.DST)
        units = wait(self.context, EventType.EXPOSED, read).units[0]
        self.assertEqual(list(units.remote), THERE)
        read.post(pairs.plan({0: (HERE, units.remote)}))
        read.seal()
        wait(self.context, EventType.QUIET, read)
        read.close()
        for layer in range(LAYERS):
            # the peer's blocks were written from here before
            self.assertEqual(self.cache.read(layer), pattern(layer, 1))
        self.assertEqual(self.context.stats()["xfers_done"], 2)

        message = wait(self.context, EventType.MSG)
        self.assertEqual((message.id, message.value), (9, 4))
        self.assertEqual(message.header, b"headtoken", "which came with its DONE")
        self.assertEqual(sorted(message.data), list(range(LAYERS)), "reported at the other side")
        backend = "XGMI" if os.environ.get("KV_MEMORY") == "gpu" else "TCP"
        self.assertEqual(peer.query().backend.name, backend)
        self.context.close()
        self.assertEqual(self.other.wait(LIMIT_S), 0)

    def test_log_lines_and_the_state_as_text(self):
        lines = []
        self.context.close()
        options = {"LOG_LEVEL": "info"}
        self.context, self.cache = open_cache(
            1, options=options, log=lambda level, line: lines.append((level, line))
        )
        self.connect()
        self.assertIn("decode", self.context.dump())
        self.assertTrue(any("decode" in line and "ready" in line for _, line in lines), lines)
        self.context.close()

    def test_a_gate_that_was_forgotten_is_closed_again(self):
        peer = self.connect()
        pairs = peer.map()
        write = self.context.transfer(1, [pairs], Mode.WRITE, Role.SRC)
        wait(self.context, EventType.EXPOSED, write)
        self.context.signal(5, 1)
        self.context.forget_gate(5)
        write.post(pairs.plan({0: (HERE, THERE)}), gate_id=5)
        self.context.progress()
        self.assertEqual(write.query().num_ucp_calls, 0)
        self.other.kill()
        self.other.wait()
        peer.declare_dead()
        for event in self.context.events(timeout=LIMIT_S):
            if event.type == EventType.QUIET:
                break
        self.assertEqual(write.query().status, morikv._library.lib.MKV_ERR_PEER)
        write.close()

    def test_blocks_outside_a_region_are_named(self):
        pairs = self.connect().map()
        with self.assertRaisesRegex(errors.BoundsError, str(BLOCKS)):
            pairs.plan({0: ([BLOCKS], [0])})
        with self.assertRaises(errors.LengthError):
            pairs.plan({0: ([1, 2], [0])})

    def test_an_event_that_is_polled_before_the_open_returns_is_the_transfers(self):
        pairs = self.connect().map()
        polled = []

        class Library:
            """A library in which a second thread polls the event before the open returns."""

            def __getattr__(_, name):
                return getattr(library, name)

            def mkv_xfer_open(_, *arguments):
                status = library.mkv_xfer_open(*arguments)
                polled.append(wait(self.context, EventType.EXPOSED))
                return status

        library = morikv.transfer.lib
        with mock.patch.object(morikv.transfer, "lib", Library()):
            write = self.context.transfer(1, [pairs], Mode.WRITE, Role.SRC)
        self.assertIs(polled[0].transfer, write)
        self.assertEqual(write.query_leg(0).status, 1)
        with self.assertRaises(errors.InvalidError):
            write.query_leg(1)
        write.abort_leg(0, "enough")
        leg = write.query_leg(0)
        self.assertEqual(leg.status, write.query().status)
        self.assertIn("enough", leg.error)
        self.assertIs(leg.peer, polled[0].peer)
        for event in self.context.events(timeout=LIMIT_S):
            if event.type == EventType.QUIET:
                self.assertIs(event.transfer, write)
                break
        write.close()

    def test_objects_die_in_any_order(self):
        peer = self.connect()
        pairs = peer.map()
        write = self.context.transfer(1, [pairs], Mode.WRITE, Role.SRC)
        exposed = wait(self.context, EventType.EXPOSED, write)
        write.post(pairs.plan({0: (HERE, exposed.units[0].remote)}))
        write.seal()
        with self.assertRaises(errors.BusyError):
            pairs.close()
        del pairs, write, exposed
        gc.collect()
        # it ends without further calls, and is freed
        for event in self.context.events(timeout=LIMIT_S):
            if event.type == EventType.QUIET:
                break
        while self.context.stats()["xfers_open"] > 0:
            self.context.progress()
        self.context.close()
        self.context.close()
        peer.close()
        with self.assertRaisesRegex(errors.InvalidError, "closed"):
            self.context.progress()

    def test_a_mistake_is_named_in_the_words_of_python(self):
        peer = self.connect()
        pairs = peer.map()
        with self.assertRaisesRegex(TypeError, "blob is 'host:1234'; expected the bytes"):
            self.context.add_peer("host:1234")
        with self.assertRaises(errors.ProtocolError):
            self.context.add_peer(self.context.blob()[:-3])
        with self.assertRaisesRegex(TypeError, r"units is \[0, 1\]; expected component: "):
            pairs.plan([0, 1])
        with self.assertRaisesRegex(ValueError, "mode is 'WRITE'; expected Mode.WRITE, Mode.READ"):
            self.context.transfer(9, [pairs], "WRITE", Role.SRC)
        with self.assertRaisesRegex(ValueError, "unit_bytes is 9; expected at most the memory's 8 bytes"):
            self.context.add_region(bytearray(8), unit_bytes=9)
        with self.assertRaisesRegex(TypeError, "layer is '0'; expected an integer"):
            self.context.add_region(bytearray(8), layer="0", unit_bytes=8)
        self.assertEqual(f"{Mode.WRITE} {peer.query().state}", "Mode.WRITE PeerState.READY")
        self.assertRegex(repr(peer), "^<morikv.Peer '.*' READY by ")
        self.assertRegex(repr(self.context), "^<morikv.Context '.*' 1 peers>$")
        pairs.close()
        self.assertRegex(repr(pairs), "^<morikv.Map to <morikv.Peer ")

    def test_a_fork_may_not_use_its_parents_context(self):
        self.connect()
        child = os.fork()
        if child == 0:
            try:
                self.context.progress()
            except errors.InvalidError as error:
                os._exit(0 if "open another context after the fork" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_events_in_asyncio(self):
        size = int.from_bytes(self.other.stdout.read(4), "little")
        blob = self.other.stdout.read(size)

        async def add_peer():
            for _ in range(3):
                await asyncio.sleep(0)
            self.context.add_peer(blob)

        async def ready():
            # an event can only come when this task runs during the iteration
            task = asyncio.ensure_future(add_peer())
            async for event in morikv.aio.events(self.context):
                if event.type == EventType.PEER_READY:
                    await task
                    return True
            return False

        self.assertTrue(asyncio.run(asyncio.wait_for(ready(), LIMIT_S)))


class Readme(unittest.TestCase):
    def test_the_example_moves_every_byte(self):
        folder = os.path.dirname(os.path.dirname(os.path.abspath(morikv.__file__)))
        with open(os.path.join(folder, "README.md"), encoding="utf-8") as readme:
            program = re.search(r"```python\n(.*?)```", readme.read(), re.DOTALL).group(1)
        names = {}
        exec(compile(program, "README.md", "exec"), names)  # its own definitions
        with subprocess.Popen(
            [sys.executable, __file__, "decode", "once"], stdout=subprocess.PIPE
        ) as other:
            size = int.from_bytes(other.stdout.read(4), "little")
            cache = [bytearray(BLOCKS * BLOCK_BYTES) for _ in range(LAYERS)]

            def compute(layer):
                cache[layer][:] = pattern(layer, 1)

            names["prefill"](other.stdout.read(size), cache, compute, HERE)
            self.assertEqual(other.wait(LIMIT_S), 0)


class Tensor:
    """An array of 16-bit numbers with an address by DLPack, 64 bytes behind data."""

    def __init__(self, device, data, shape, strides=None) -> None:
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        # DLManagedTensor: the tensor, manager_ctx, deleter
        self.fields = morikv.memory._DLTensor(
            data,
            morikv.memory._DLDevice(device, 0),
            len(shape),
            morikv.memory._DLDataType(2, 16, 1),
            self.shape,
            self.strides,
            64,
        )

    def __dlpack__(self, stream=None):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.fields), b"dltensor", None)


class Alone(unittest.TestCase):
    def test_an_option_that_does_not_exist_is_named(self):
        with self.assertRaisesRegex(errors.NotFoundError, "NO_SUCH"):
            morikv.Context(options={"NO_SUCH": "1"})
        with self.assertRaisesRegex(errors.InvalidError, "BACKEND"):
            morikv.Context(options={"BACKEND": "carrier pigeon"})

    def test_a_request_is_received_and_refused_with_a_text(self):
        threads = {"PROGRESS_THREADS": "1"}  # each closes while the other one moves
        asks, _ = open_cache(1, options=threads)
        refuses, _ = open_cache(2, options=threads)

        def next_event(context, kind):
            return next(event for event in context.events(LIMIT_S) if event.type == kind)

        with asks, refuses:
            asks.add_peer(refuses.blob())
            pairs = next_event(asks, EventType.PEER_READY).peer.map()
            read = asks.transfer(7, [pairs], Mode.READ, Role.DST, epoch=3, expect={0: 2})
            read.request(b"two of them")
            asked = next_event(refuses, EventType.INCOMING)
            self.assertEqual((asked.id, asked.epoch, asked.value), (7, 3, Mode.READ))
            self.assertEqual(asked.data, b"two of them")
            asked.peer.refuse(7, 3, "gone since noon")
            with self.assertRaises(errors.NotFoundError):
                asked.peer.refuse(7, 3)
            self.assertIn("gone since noon", next_event(asks, EventType.FAILED).text)
            self.assertIs(next_event(asks, EventType.QUIET).transfer, read)
            read.close()

    def test_memory_that_cannot_be_moved_is_refused(self):
        with self.assertRaises(ValueError):
            morikv.memory.of(b"read-only")
        with self.assertRaises(TypeError):
            morikv.memory.of(17)
        with self.assertRaises(ValueError):
            morikv.memory.of(memoryview(bytearray(64))[::2])

    def test_arrays_of_other_libraries(self):
        memory = morikv.memory.of(Tensor(10, 4096, (8, 4)))
        self.assertEqual((memory.address, memory.length), (4096 + 64, 8 * 4 * 2))
        self.assertEqual(memory.mem_type, morikv.memory.ROCM)
        with self.assertRaisesRegex(ValueError, "device type 7"):
            morikv.memory.of(Tensor(7, 4096, (8, 4)))
        with self.assertRaisesRegex(ValueError, "contiguous"):
            morikv.memory.of(Tensor(10, 4096, (8, 4), strides=(8, 1)))

    def test_block_ids_that_are_none_are_refused(self):
        from morikv.model import block_array

        with self.assertRaises(ValueError):
            block_array([-1])
        with self.assertRaises(ValueError):
            block_array(array("H", [1]))
        pointer, count, _keep = block_array(range(5))
        self.assertEqual([pointer[i] for i in range(count)], list(range(5)))

    def test_a_context_may_be_left_open_at_exit(self):
        program = "import morikv; keep = morikv.Context(); keep.cycle = keep"
        subprocess.run([sys.executable, "-c", program], check=True, timeout=LIMIT_S)

    def test_objects_may_be_made_during_a_close(self):
        """Each check of a handle makes another one, as a thread may at that point."""
        context, is_closed = morikv.Context(), Handle.is_closed.fget
        made = [Handle(context._owner, None, lambda _: 0) for _ in range(2)]

        def check(handle):
            if len(made) < 9:
                made.append(Handle(context._owner, None, lambda _: 0))
            return is_closed(handle)

        with mock.patch.object(Handle, "is_closed", property(check)):
            context.close()
        self.assertFalse(context.is_open)

    def test_contexts_may_be_opened_at_the_exit(self):
        with morikv.Context(), morikv.Context():
            contexts = iter(morikv.context._contexts)
            next(contexts)
            with morikv.Context() as opened:
                self.assertNotIn(opened, list(contexts))

    def test_a_thread_runs_while_the_library_waits(self):
        # close() waits for the drain time of a transfer without an answer
        context, _cache = open_cache(1, options={"DRAIN_TIMEOUT": "200ms"})
        counted = []
        done = threading.Event()

        def count():
            while not done.is_set():
                counted.append(None)

        thread = threading.Thread(target=count)
        thread.start()
        before = len(counted)
        while len(counted) == before:
            context.progress()
        done.set()
        thread.join()
        context.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["decode"]:
        decode(is_once="once" in sys.argv)
    else:
        unittest.main(verbosity=2)
