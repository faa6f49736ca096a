# SPDX-License-Identifier: BSD-3-Clause
"""Calls of mori.io in one process: what becomes of their arguments, and transfers inside
one engine. Every byte is compared.

The peer of most cases is a context without a thread: it answers only when a case lets it, so
that a transfer can be posted before the connection, or the peer's memory, is known.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import unittest
import warnings
from unittest import mock

import morikv
from morikv.mori_io import (
    BackendType,
    EngineDesc,
    IOEngine,
    IOEngineConfig,
    MemoryDesc,
    MemoryLocationType,
    RdmaBackendConfig,
    StatusCode,
)

try:
    import numpy
except ImportError:
    numpy = None

SIZE, LIMIT_S = 1024, 600
CPU = MemoryLocationType.CPU


def pattern(seed):
    return bytes((seed + 37 * i) % 251 for i in range(SIZE))


def wait_for(condition, step=lambda: time.sleep(0.001)):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        step()


class Slow:
    """A peer that makes progress only in :meth:`step`."""

    def __init__(self):
        self.context = morikv.Context(name="slow", options={"PROGRESS_THREADS": "0"})
        self.memory, self.epoch = bytearray(SIZE), 0
        self.desc = EngineDesc("slow", "", "", "", 1, os.getpid(), 7, self.context.blob())

    def add(self):
        """Memory that peers do not know of before :meth:`commit`."""
        region = self.context.add_region(self.memory, layer=self.epoch, one_sided=True)
        self.epoch += 1
        place = (region.id, self.epoch, -1, "", region.memory.address, SIZE, CPU)
        return MemoryDesc("slow", 7, *place)

    def commit(self):
        self.context.commit()

    def step(self):
        self.context.progress()
        self.context.poll()


class Calls(unittest.TestCase):
    def setUp(self):
        self.slow = Slow()
        self.addCleanup(self.slow.context.close)
        self.engine = IOEngine("here", IOEngineConfig("127.0.0.1", 0))
        self.engine.create_backend(BackendType.TCP)
        self.addCleanup(self.close)
        self.memory = bytearray(pattern(1))
        self.mine = self.engine.register_torch_tensor(self.memory)
        self.theirs = self.slow.add()
        self.slow.commit()
        self.engine.register_remote_engine(self.slow.desc)
        self.session = self.engine.create_session(self.mine, self.theirs)

    def close(self):
        """The peer has to answer meanwhile, which it does in no thread of its own."""
        thread = threading.Thread(target=self.engine.close)
        thread.start()
        wait_for(lambda: not thread.is_alive(), self.slow.step)

    def end(self, *statuses):
        wait_for(lambda: not any(each.InProgress() for each in statuses), self.slow.step)
        return [each.Code() for each in statuses]

    def test_iterators_are_taken_in_the_call(self):
        offsets = range(0, SIZE, 64)
        status = self.session.batch_write(
            (each for each in offsets), map(int, offsets), (64 for _ in offsets), 1
        )
        self.assertTrue(status.InProgress())  # the peer has not answered yet
        self.assertEqual(self.end(status), [StatusCode.SUCCESS], status)
        self.assertEqual(self.slow.memory, self.memory)

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_an_array_may_be_used_again_after_the_call(self):
        offset, statuses = numpy.array([0]), []
        for offset[0] in range(0, SIZE, 256):
            statuses.append(self.session.batch_write(offset, offset, [256], 1))
        self.assertTrue(statuses[0].InProgress())
        self.assertEqual(set(self.end(*statuses)), {StatusCode.SUCCESS}, statuses)
        self.assertEqual(self.slow.memory, self.memory)

    def test_configurations_may_be_changed_after_the_call(self):
        config, place = RdmaBackendConfig(enable_notification=False), IOEngineConfig("a", 7)
        engine = IOEngine("copies", place)
        self.addCleanup(engine.close)
        engine.create_backend(BackendType.TCP, config)
        config.enable_notification, place.host = True, "b"
        self.assertEqual(engine.get_engine_desc().host, "a")
        self.assertIsNone(engine._get_hub()._note)

    def test_what_is_wrong_is_seen_in_the_call_also_before_the_connection(self):
        for bad in (
            ([0, SIZE], [0, 0], [1, 1]),
            ([0, 0], [0, SIZE - 1], [1, 2]),
            ([0], [0], [0]),
            ([0, 1], [0], [1]),
            ([-1], [0], [1]),
            ([0.5], [0], [1]),
        ):
            status = self.session.batch_read(*bad, 1)
            self.assertEqual(status.Code(), StatusCode.ERR_INVALID_ARGS, bad)
            self.assertNotEqual(status.Message(), "")
        for uid in (-1, 1 << 64, "x", 1.5, None):
            status = self.session.batch_write([0], [0], [1], uid)
            self.assertEqual(status.Code(), StatusCode.ERR_INVALID_ARGS, uid)
            self.assertIn("transfer_uid", status.Message())
        statuses = self.engine.batch_write(
            [self.mine] * 2, [[0]] * 2, [self.theirs] * 2, [[0]] * 2, [[1]] * 2, [-1, 5]
        )
        self.assertEqual(self.end(*statuses), [StatusCode.ERR_INVALID_ARGS, StatusCode.SUCCESS])

    def test_memory_that_is_announced_while_it_is_asked_for_is_found(self):
        """The peer's list of regions arrives after a post failed for the lack of it."""
        self.end(self.session.write(0, 0, 1, 1))
        late, query = self.slow.add(), morikv.Peer.query
        session = self.engine.create_session(self.mine, late)

        def arrives(peer):
            self.slow.commit()
            wait_for(lambda: query(peer).regions_epoch >= late.epoch, self.slow.step)
            return query(peer)

        with mock.patch.object(morikv.Peer, "query", arrives):
            status = session.write(0, 0, SIZE, 2)
        self.assertEqual(self.end(status), [StatusCode.SUCCESS], status)

    def test_memory_that_was_taken_back_is_named(self):
        self.end(self.session.write(0, 0, 1, 1))
        gone = self.slow.context._regions[self.theirs.id]
        self.slow.context.drop_regions([gone])
        self.slow.commit()
        peer = self.engine.peer("slow")
        wait_for(lambda: peer.query().num_regions == 0, self.slow.step)
        status = self.session.write(0, 0, 1, 2)
        self.assertEqual(status.Code(), StatusCode.ERR_NOT_FOUND)
        self.assertIn("deregistered", status.Message())

    def test_a_session_of_an_engine_that_is_not_registered_any_more_is_not_alive(self):
        self.assertTrue(self.session.alive())
        self.engine.deregister_remote_engine(self.slow.desc)
        self.assertFalse(self.session.alive())


class Forked(unittest.TestCase):
    """A child of fork() has the parent's locks as they were, and none of its threads."""

    def test_a_child_closes_its_copy_without_a_lock(self):
        engine = IOEngine("parent", IOEngineConfig("127.0.0.1", 0))
        engine.create_backend(BackendType.TCP)
        self.addCleanup(engine.close)
        hub = engine._get_hub()
        is_held, may_end = threading.Event(), threading.Event()

        def hold():
            with hub._listener._lock, hub.lock:
                is_held.set()
                may_end.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        is_held.wait()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this process has threads
            child = os.fork()
        if child == 0:
            signal.alarm(30)  # ends a hang
            engine.close()
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        may_end.set()
        holder.join()
        self.assertEqual(status, 0)


class Inside(unittest.TestCase):
    """Transfers between memories of one engine."""

    def setUp(self):
        self.engine = IOEngine("alone", IOEngineConfig("127.0.0.1", 0))
        self.engine.create_backend(BackendType.TCP)
        self.addCleanup(self.engine.close)
        self.memory = [bytearray(pattern(seed)) for seed in (1, 2)]
        self.descs = [self.engine.register_torch_tensor(each) for each in self.memory]

    def test_every_byte_of_writes_and_reads(self):
        expected = bytearray(pattern(2))
        expected[10:110] = pattern(1)[:100]
        session = self.engine.create_session(*self.descs)
        self.assertTrue(session.alive())
        self.assertEqual(session.batch_write([0, 50], [10, 60], 50, 1).Wait(), StatusCode.SUCCESS)
        self.assertEqual(self.memory[1], expected)
        back = self.engine.read(self.descs[0], 0, self.descs[1], 0, SIZE, 2)
        self.assertEqual(back.Wait(), StatusCode.SUCCESS)
        self.assertEqual(self.memory[0], expected)

    def test_it_may_be_registered_with_itself(self):
        desc = self.engine.get_engine_desc()
        self.engine.register_remote_engine(EngineDesc.unpack(desc.pack()))
        theirs = MemoryDesc.unpack(self.descs[1].pack())
        self.assertEqual(
            self.engine.write(self.descs[0], 0, theirs, 0, SIZE, 1).Wait(), StatusCode.SUCCESS
        )
        self.engine.deregister_remote_engine(desc)
        self.assertEqual(self.memory[1], pattern(1))

    def test_memory_that_was_taken_back_fails(self):
        session = self.engine.create_session(*self.descs)
        self.assertEqual(session.write(0, 0, 1, 1).Wait(), StatusCode.SUCCESS)
        self.engine.deregister_memory(self.descs[1])
        self.assertEqual(session.write(0, 0, 1, 2).Wait(), StatusCode.ERR_NOT_FOUND)


if __name__ == "__main__":
    unittest.main(verbosity=2)
