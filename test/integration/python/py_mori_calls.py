# SPDX-License-Identifier: BSD-3-Clause
"""Calls of mori.io in one process: the use of their arguments, and transfers inside one engine.
Every byte is compared.

The peer of most cases is a context without a thread: it answers only when a case lets it, so
that a transfer can be posted before the connection, or the peer's memory, is known.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.request
import weakref
from unittest import mock

import morikv
from morikv import EventType, Mode
from morikv._library import lib
from morikv.metrics import Endpoint
from morikv.mori_io import (
    BackendType,
    EngineDesc,
    IOEngine,
    IOEngineConfig,
    MemoryDesc,
    MemoryLocationType,
    RdmaBackendConfig,
    StatusCode,
    settings,
)
from py_forked import in_child

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


class Library:
    """libmorikv with other functions in place of some."""

    def __init__(self, **functions):
        self.__dict__ = functions

    def __getattr__(self, name):
        return getattr(lib, name)


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


def close(engine, step):
    """Its peer, without a thread of its own, has to answer meanwhile."""
    thread = threading.Thread(target=engine.close)
    thread.start()
    wait_for(lambda: not thread.is_alive(), step)


class WithSlow(unittest.TestCase):
    """An engine with a session to a peer that has not answered yet."""

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
        close(self.engine, self.slow.step)

    def end(self, *statuses):
        wait_for(lambda: not any(each.InProgress() for each in statuses), self.slow.step)
        return [each.Code() for each in statuses]


class Calls(WithSlow):
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
        self.assertFalse(engine._get_hub()._notifies)

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

    def test_memory_that_is_announced_during_a_request_is_found(self):
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

    def test_a_write_that_may_still_arrive_is_not_quiet(self):
        hub = self.engine._get_hub()
        on_event = hub._on_operation

        def arrives(event, operation):
            may_arrive = event.type == EventType.QUIET
            on_event(dataclasses.replace(event, value=int(may_arrive)), operation)

        for patched in (on_event, arrives):
            with mock.patch.object(hub, "_on_operation", patched):
                status = self.session.write(0, 0, SIZE, 1)
                wait_for(lambda: not hub._running and not status.InProgress(), self.slow.step)
            with hub.lock:
                pass  # its thread has handled the event
            self.assertEqual(status.Quiet(), patched is on_event)

    def test_events_of_the_operations_of_an_application_are_returned(self):
        self.end(self.session.write(0, 0, 1, 1))
        self.engine.poll_events()  # from here on they are kept
        peer, found = self.engine.peer("slow"), []
        operation = peer.post(Mode.WRITE, self.mine.id, self.theirs.id, 0, 0, SIZE)

        def step():
            self.slow.step()
            events = self.engine.poll_events()  # one may be the end of the connecting
            found.extend((each.type, each.operation) for each in events if each.operation)

        wait_for(lambda: len(found) == 2, step)
        self.assertEqual(found, [(EventType.DONE, operation), (EventType.QUIET, operation)])

    def test_a_session_of_an_engine_that_is_not_registered_any_more_is_not_alive(self):
        self.assertTrue(self.session.alive())
        self.engine.deregister_remote_engine(self.slow.desc)
        self.assertFalse(self.session.alive())


class Closed(WithSlow):
    """An engine that a thread closes while others use it."""

    def setUp(self):
        super().setUp()
        self.end(self.session.write(0, 0, 1, 1))
        self.running = self.session.write(0, 0, SIZE, 2)

    def test_statuses_can_be_read_during_the_close(self):
        is_closing, may_close = threading.Event(), threading.Event()
        self.addCleanup(may_close.set)

        def close(pointer):
            is_closing.set()
            may_close.wait()
            return lib.mkv_close(pointer)

        with mock.patch.object(morikv.context, "lib", Library(mkv_close=close)):
            thread = threading.Thread(target=self.engine.close)
            thread.start()
            is_closing.wait()
            self.assertEqual(self.running.WaitFor(0), StatusCode.IN_PROGRESS)
            self.running.Abort()
            self.assertFalse(self.session.alive())
            may_close.set()
            wait_for(lambda: not thread.is_alive(), self.slow.step)
        self.assertEqual(self.running.Wait(), StatusCode.ERR_BAD_STATE)
        self.assertFalse(self.session.alive())

    def test_an_interrupted_close_ends_the_statuses(self):
        context = self.engine.context
        self.addCleanup(close, context, self.slow.step)
        with mock.patch.object(context, "close", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                self.engine.close()
        self.assertEqual(self.running.Code(), StatusCode.ERR_BAD_STATE)
        self.assertFalse(self.running.Quiet())

    def test_a_handler_closes_it_while_a_call_waits(self):
        main, context, closed = threading.current_thread(), self.engine.context, []
        ended, returns = threading.Event(), threading.Event()

        def handler(*_arguments):
            self.engine.close()
            closed.append(not context.is_open)

        def interrupt():
            wait_for(lambda: ended._cond._waiters)
            with ended._cond:  # the call sleeps
                signal.pthread_kill(main.ident, signal.SIGUSR1)
            wait_for(returns.is_set, self.slow.step)

        self.running._ended = ended
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, handler))
        thread = threading.Thread(target=interrupt)
        thread.start()
        self.running.Wait()
        returns.set()
        thread.join()
        self.assertEqual(closed, [True])

    def test_a_handler_inside_of_a_call_has_it_closed_by_its_thread(self):
        thread = self.engine._get_hub()._listener._thread

        def interrupted(*arguments):
            self.engine.close()
            return lib.mkv_op_status(*arguments)

        with mock.patch.object(morikv.operation, "lib", Library(mkv_op_status=interrupted)):
            self.running.Code()
        wait_for(lambda: not thread.is_alive(), self.slow.step)
        self.assertNotEqual(self.running.Code(), StatusCode.IN_PROGRESS)

    def interrupt(self, thing, name):
        """Interrupt the close in the first call of this method by this thread."""
        context, thread, call = self.engine.context, threading.current_thread(), getattr(thing, name)
        self.addCleanup(close, context, self.slow.step)

        def interrupted():
            if threading.current_thread() is thread:
                raise KeyboardInterrupt
            call()

        with mock.patch.object(context, "close") as closes:
            with mock.patch.object(thing, name, interrupted):
                with self.assertRaises(KeyboardInterrupt):
                    self.engine.close()
        closes.assert_called_once_with()
        self.assertEqual(self.running.Code(), StatusCode.ERR_BAD_STATE)

    def test_an_interrupted_wait_for_the_thread_closes_the_engine(self):
        self.interrupt(self.engine._get_hub()._listener, "join")

    def test_an_interrupted_wait_for_the_lock_closes_the_engine(self):
        self.interrupt(self.engine._get_hub().changed, "notify_all")


class Collected(WithSlow):
    """An engine in a cycle that the collector finds inside of a call of the package."""

    def setUp(self):
        super().setUp()
        self.end(self.session.write(0, 0, 1, 1))
        self.running = self.session.write(0, 0, SIZE, 2)
        self.hub = self.engine._get_hub()
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        self.engine.itself = self.engine
        del self.engine, self.session

    def close(self):
        wait_for(lambda: not self.hub._listener._thread.is_alive(), self.slow.step)

    def collects(self, function, thread):
        """The function, with a collection inside of its calls in a thread."""

        def call(*arguments, **named):
            if threading.current_thread() is thread:
                gc.collect()
            return function(*arguments, **named)

        return call

    def check_closed(self):
        self.close()
        self.assertFalse(self.hub.context.is_open)
        self.assertNotEqual(self.running.Code(), StatusCode.IN_PROGRESS)

    def test_it_is_closed_from_its_own_thread(self):
        takes = self.collects(morikv.Event, self.hub._listener._thread)
        with mock.patch.object(morikv.context, "Event", takes):
            self.check_closed()

    def test_it_is_closed_when_a_status_is_read(self):
        queries = self.collects(lib.mkv_op_status, threading.current_thread())
        with mock.patch.object(morikv.operation, "lib", Library(mkv_op_status=queries)):
            self.running.Code()
        self.check_closed()

    def test_a_later_close_waits_for_its_thread(self):
        begins, may_end, ends = threading.Event(), threading.Event(), threading.Event()
        self.addCleanup(may_end.set)
        join = self.hub._listener.join

        def close_context(pointer):
            begins.set()
            may_end.wait()
            status = lib.mkv_close(pointer)
            ends.set()
            return status

        with mock.patch.object(morikv.context, "lib", Library(mkv_close=close_context)):
            queries = self.collects(lib.mkv_op_status, threading.current_thread())
            with mock.patch.object(morikv.operation, "lib", Library(mkv_op_status=queries)):
                self.running.Code()
            begins.wait()
            with mock.patch.object(self.hub._listener, "join", lambda: (may_end.set(), join())):
                close(self.hub, self.slow.step)
            self.assertTrue(ends.is_set())

    def test_it_is_closed_when_a_wait_begins(self):
        """The wait's own lock is held then."""
        ended = self.running._ended = threading.Event()
        waits = self.collects(ended._cond.wait, threading.current_thread())
        thread = threading.Thread(target=self.close)

        def wait(*arguments):
            thread.start()  # the peer makes no progress before it
            return waits(*arguments)

        ended._cond.wait = wait
        self.running.Wait()
        thread.join()
        self.check_closed()

    def test_it_is_closed_after_its_context(self):
        with self.hub.lock:  # the engine's thread takes no event of the end
            close(self.hub.context, self.slow.step)
        refuses = self.collects(morikv.errors.InvalidError, threading.current_thread())
        with mock.patch.object(morikv._handle, "InvalidError", refuses):
            self.running.Code()
        self.check_closed()


class Exit(unittest.TestCase):
    def test_it_waits_for_an_engine_that_is_collected_inside_of_a_call(self):
        done = subprocess.run(
            [sys.executable, __file__, "exit"],
            stdout=subprocess.PIPE,
            timeout=LIMIT_S,
            check=True,
        )
        self.assertEqual(done.stdout, b"closed\nended\n")


class Forked(WithSlow):
    """A child of fork() has the parent's locks as they were, and none of its threads."""

    REFUSED = "opened by process .* after the fork"

    def held(self, *locks):
        """Hold the locks in a thread, which a forked child lacks."""
        is_held, may_end = threading.Event(), threading.Event()

        def hold():
            with contextlib.ExitStack() as stack:
                for lock in locks:
                    stack.enter_context(lock)
                is_held.set()
                may_end.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        is_held.wait()
        self.addCleanup(holder.join)
        self.addCleanup(may_end.set)

    def test_calls_of_a_child_are_refused(self):
        running = self.session.write(0, 0, SIZE, 1)
        engine, hub, peer = self.engine, self.engine._get_hub(), self.engine.peer("slow")
        calls = {
            "write": lambda: self.session.write(0, 0, SIZE, 2),
            "batch_read": lambda: self.session.batch_read([0], [0], [1], 2),
            "batch_write": lambda: engine.batch_write(
                *([each] for each in (self.mine, 0, self.theirs, 0, 1, 3))
            ),
            "path": self.session.path,
            "alive": self.session.alive,
            "Code": running.Code,
            "Wait": running.Wait,
            "Quiet": running.Quiet,
            "Abort": running.Abort,
            "Update": lambda: running.Update(StatusCode.SUCCESS, ""),
            "SetCode": lambda: running.SetCode(StatusCode.SUCCESS),
            "wait_all": lambda: engine.wait_all([running]),
            "get_engine_desc": engine.get_engine_desc,
            "register_remote_engine": lambda: engine.register_remote_engine(self.slow.desc),
            "deregister_remote_engine": lambda: engine.deregister_remote_engine(self.slow.desc),
            "register_torch_tensor": lambda: engine.register_torch_tensor(bytearray(8)),
            "deregister_memory": lambda: engine.deregister_memory(self.mine),
            "create_session": lambda: engine.create_session(self.mine, self.theirs),
            "pop_inbound_transfer_status": lambda: engine.pop_inbound_transfer_status("slow", 1),
            "pop_peer_failure": engine.pop_peer_failure,
            "poll_events": lambda: engine.poll_events(None),
            "metrics": engine.metrics,
            "peer": lambda: engine.peer("slow"),
            "context": lambda: engine.context.commit(),
            "query": peer.query,
            "post": lambda: peer.post(Mode.WRITE, 1, 1, 0, 0, 1),
            "hub.deregister": lambda: hub.deregister(None, 0),
            "hub.poll_others": lambda: hub.poll_others(None),
            "wake": hub._listener.wake,
        }
        self.held(engine._lock, hub.lock, hub._listener._lock, running._lock, hub.figures._lock)
        for name, call in calls.items():
            with self.subTest(name):
                self.assertRegex(in_child(call), self.REFUSED)

    def test_a_child_drops_its_copies_without_a_lock(self):
        engine, hub = self.engine, self.engine._get_hub()
        peer, endpoint = engine.peer("slow"), Endpoint(lambda: "served\n")
        self.addCleanup(endpoint.close)
        self.held(engine._lock, hub.lock, hub._listener._lock)
        peer._handle.calls.append(None)  # a thread of the parent is in a call
        self.addCleanup(peer._handle.calls.pop)
        for name, call in {
            "engine": engine.close,
            "context": hub.context.close,
            "peer": lambda: peer.close(force=True),
            "endpoint": endpoint.close,
        }.items():
            with self.subTest(name):
                self.assertEqual(in_child(call), "None")
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics") as answer:
            self.assertEqual(answer.read(), b"served\n")

    def test_a_child_may_open_an_engine_when_a_thread_of_its_parent_opens_one(self):
        is_held, forks = threading.Event(), threading.Event()

        def hold():
            with settings._lock:
                is_held.set()
                forks.wait()

        def opened():
            engine = IOEngine("child", IOEngineConfig("127.0.0.1", 0))
            engine.create_backend(BackendType.TCP)
            key = engine.get_engine_desc().key
            engine.close()
            return key

        holder = threading.Thread(target=hold)
        holder.start()
        self.addCleanup(holder.join)
        is_held.wait()
        os.register_at_fork(before=forks.set)  # ahead of the hook of the lock
        self.assertEqual(in_child(opened), "child")


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

    def test_memory_that_ucx_fails_to_deregister_is_kept(self):
        class Memory(bytearray):
            """One that can be referenced weakly."""

        memory = Memory(SIZE)
        desc, here = self.engine.register_torch_tensor(memory), self.descs[0]
        kept = weakref.ref(memory)
        del memory
        self.assertEqual(self.engine.write(here, 0, desc, 0, 8, 1).Wait(), StatusCode.SUCCESS)

        def drop(*arguments):
            lib.mkv_regions_drop(*arguments)
            return lib.MKV_ERR_TRANSPORT

        with mock.patch.object(morikv.context, "lib", Library(mkv_regions_drop=drop)):
            with self.assertRaises(morikv.errors.TransportError):
                self.engine.deregister_memory(desc)
        with self.assertRaisesRegex(morikv.errors.NotFoundError, "is not registered here"):
            self.engine.deregister_memory(desc)
        self.assertEqual(self.engine._get_hub()._mirror[1]._regions, {})
        self.engine.close()
        gc.collect()
        self.assertIsNotNone(kept())

    def stepped(self):
        """Let the engine's second context make progress only in steps.

        :return: the hub, a session, the region on the other side, and a function for one step.
        """
        hub = self.engine._get_hub()
        hub._options = {**hub._options, "PROGRESS_THREADS": "0"}
        session = self.engine.create_session(*self.descs)
        mirror, region = hub._mirror[1]._context, self.engine._regions[self.descs[1].id]

        def step():
            with contextlib.suppress(morikv.errors.InvalidError):  # closed at the end
                mirror.progress()

        return hub, session, region, step

    def test_memory_of_the_other_side_is_taken_back_after_the_transfer(self):
        hub, session, region, step = self.stepped()

        def take_back(status):
            with self.assertRaisesRegex(morikv.errors.BusyError, "inside"):
                hub.deregister(region, 0)
            self.assertTrue(status.InProgress())

        self.addCleanup(close, self.engine, step)
        waits = session.write(0, 0, SIZE, 1)
        take_back(waits)
        wait_for(lambda: not waits.InProgress() and not hub._running, step)
        runs = session.read(0, 0, SIZE, 2)
        self.assertTrue(hub._running)
        take_back(runs)
        thread = threading.Thread(target=self.engine.deregister_memory, args=[self.descs[1]])
        thread.start()
        wait_for(lambda: not thread.is_alive(), step)
        self.assertEqual(runs.Code(), StatusCode.SUCCESS, runs)
        self.assertNotIn(self.descs[1].id, self.engine._regions)

    def test_nothing_is_taken_back_from_a_closed_engine(self):
        """Neither a call that waits during the close nor a later one waits for a transfer."""
        hub, session, region, step = self.stepped()

        def take_back():
            with self.assertRaises(morikv.errors.InvalidError):
                hub.deregister(region, None)
            ended.append(True)

        opens, ended = session.write(0, 0, SIZE, 1), []
        wait_for(lambda: not opens.InProgress() and not hub._running, step)
        session.read(0, 0, SIZE, 2)
        self.assertTrue(hub._running)
        thread = threading.Thread(target=take_back, daemon=True)
        thread.start()
        wait_for(lambda: hub.changed._waiters)
        close(self.engine, lambda: hub._is_closed and step())  # it runs until then
        wait_for(lambda: not thread.is_alive())
        with mock.patch.object(hub.changed, "wait", side_effect=AssertionError) as waits:
            take_back()
        waits.assert_not_called()
        self.assertEqual(ended, [True, True])


def at_exit():
    """The interpreter ends while the engine's thread closes it."""
    engine = IOEngine("left", IOEngineConfig("127.0.0.1", 0))
    context, engine.itself = engine.context, engine
    del engine
    atexit.register(print, "ended", flush=True)  # the last to be called
    ends = threading.Event()

    def stats(*arguments):
        gc.collect()
        return lib.mkv_stats(*arguments)

    def close(pointer):
        ends.wait()
        status = lib.mkv_close(pointer)
        print("closed", flush=True)
        return status

    morikv.context.lib = Library(mkv_stats=stats, mkv_close=close)
    context.stats()
    atexit.register(ends.set)  # the first to be called


if __name__ == "__main__":
    if sys.argv[1:2] == ["exit"]:
        at_exit()
    else:
        unittest.main(verbosity=2)
