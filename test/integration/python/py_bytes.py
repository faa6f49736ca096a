# SPDX-License-Identifier: BSD-3-Clause
"""Tests of morikv's one-sided operations, plans of bytes and gates, between two contexts of a
process; host memory, every byte compared."""

from __future__ import annotations

import sys
import threading
import unittest
from array import array
from unittest import mock

import morikv
import morikv.context
import morikv.transfer
from morikv import Bytes, EventType, Mode, Role, errors, memory
from morikv.pieces import Pieces, numbers

try:
    import numpy
except ImportError:
    numpy = None

SIZE = 1 << 16
LIMIT_S = 600


def pattern(seed):
    return bytes((seed + 131 * i + (i >> 8)) % 251 for i in range(SIZE))


class Side:
    """A context with a stretch of memory without blocks."""

    def __init__(self, seed, one_sided=True):
        # closing one needs the other's answer, in the same process
        self.context = morikv.Context(name=f"side{seed}", options={"PROGRESS_THREADS": "1"})
        self.memory = bytearray(pattern(seed))
        self.region = self.context.add_region(self.memory, one_sided=one_sided)
        self.context.commit()
        self.events = []


class TwoContexts(unittest.TestCase):
    def setUp(self):
        self.sides = Side(1), Side(2)
        for side in self.sides:
            self.addCleanup(side.context.close)
        here, there = self.sides
        self.peer = here.context.add_peer(there.context.blob())
        self.until(here, EventType.PEER_READY)
        self.back = self.until(there, EventType.PEER_READY).peer

    def until(self, side, kind, **wanted):
        """The next event of a kind at one side; others wait for their turn."""

        def fits(event):
            return event.type == kind and all(getattr(event, k) == v for k, v in wanted.items())

        while not any(map(fits, side.events)):
            event = next(side.context.events(timeout=LIMIT_S), None)
            self.assertIsNotNone(event, f"no {kind.name}, but {side.events}")
            side.events.append(event)
        found = next(filter(fits, side.events))
        side.events.remove(found)
        return found

    def move(self, mode, local, remote, lengths, **options):
        here, there = self.sides
        operation = self.peer.post(
            mode, here.region, there.region.id, local, remote, lengths, **options
        )
        self.until(here, EventType.QUIET, operation=operation)
        self.assertEqual(operation.status, 0, operation.query().error)
        return operation

    def test_every_byte_of_a_write_with_a_note(self):
        here, there = self.sides
        expected = bytearray(pattern(2))
        local, remote, lengths = [0, 500, 40000, 7], [60000, 300, 301 + 64, 9000], [100, 64, 1, 4096]
        for a, b, n in zip(local, remote, lengths):
            expected[b : b + n] = pattern(1)[a : a + n]
        done = self.move(Mode.WRITE, local, array("Q", remote), lengths, id=7, note=b"here")
        note = self.until(there, EventType.NOTE)
        self.assertEqual((note.id, note.data, note.status), (7, b"here", 0))
        self.assertEqual(there.memory, expected)
        self.assertEqual((done.query().pieces, done.query().bytes), (4, sum(lengths)))
        done.close()
        done.close()

    def test_every_byte_of_a_read_and_neighbours_merge(self):
        here, _there = self.sides
        expected = bytearray(pattern(1))
        expected[256:1280] = pattern(2)[512:1536]
        done = self.move(Mode.READ, range(256, 1280, 64), range(512, 1536, 64), 64)
        self.assertEqual(here.memory, expected)
        self.assertEqual(done.query().pieces, 1)

    @unittest.skipUnless(numpy, "no NumPy")
    def test_arrays_of_numpy_of_any_integer_type(self):
        here, there = self.sides
        for kind in (numpy.int64, numpy.uint64, numpy.int32, numpy.uint16):
            order = numpy.arange(15, dtype=kind)[::-2]
            there.memory[:] = pattern(2)
            expected = bytearray(pattern(2))
            for i in order.tolist():
                expected[i * 128 : i * 128 + 100] = pattern(1)[i * 256 : i * 256 + 100]
            self.move(Mode.WRITE, order * 256, order * 128, numpy.int64(100))
            self.assertEqual(there.memory, expected)

    def test_what_is_refused_names_the_piece(self):
        here, there = self.sides
        post = self.peer.post
        ids = here.region, there.region.id
        with self.assertRaisesRegex(errors.BoundsError, "piece 1.*peer's"):
            post(Mode.WRITE, *ids, [0, 0], [0, SIZE - 1], 2)
        with self.assertRaisesRegex(errors.InvalidError, "piece 0 has no bytes"):
            post(Mode.WRITE, *ids, 0, 0, 0)
        with self.assertRaisesRegex(errors.NotFoundError, "no region 99"):
            post(Mode.READ, here.region, 99, 0, 0, 1)
        with self.assertRaisesRegex(ValueError, "2 local offsets, 3 remote offsets"):
            post(Mode.READ, *ids, [0, 0], [0, 0, 0], 1)
        with self.assertRaisesRegex(ValueError, "lengths"):
            post(Mode.READ, *ids, [0], [0], [-1])
        with self.assertRaisesRegex(ValueError, "format 'd'"):
            post(Mode.READ, *ids, array("d", [0.5]), 0, 1)

    def test_memory_that_was_not_opened_is_refused(self):
        here, there = self.sides
        closed = there.context.add_region(bytearray(64), layer=1)
        there.context.commit()
        self.until(here, EventType.PEER_REGIONS)
        with self.assertRaisesRegex(errors.InvalidError, "ONE_SIDED"):
            self.peer.post(Mode.WRITE, here.region, closed.id, 0, 0, 1)

    def test_an_operation_that_is_aborted_gets_quiet(self):
        here, there = self.sides
        operation = self.peer.post(Mode.WRITE, here.region, there.region.id, 0, 0, SIZE)
        operation.abort()  # it may have been done by then
        self.until(here, EventType.QUIET, operation=operation)
        self.assertTrue(operation.is_quiet)
        self.assertEqual("aborted" in operation.query().error, operation.status != 0)
        operation.close()

    def test_no_pieces_and_a_note_are_a_message(self):
        _here, there = self.sides
        self.move(Mode.WRITE, [], [], [], note=b"")
        self.assertEqual(self.until(there, EventType.NOTE).data, b"")

    def test_a_plan_of_bytes_behind_a_gate(self):
        here, there = self.sides
        write = here.context.transfer(5, [self.peer.map()], Mode.WRITE, Role.SRC)
        shown = there.context.transfer(
            5, [self.back.map()], Mode.WRITE, Role.DST, expect_bytes={0: 4 * 30 + 8}
        )
        shown.expose({0: [0]})
        self.until(here, EventType.EXPOSED)
        pairs = write.maps[0]
        slices = Bytes(100, [1000, 50000], [30, 2], [4, 4], [64, 2], [32, 2])
        plan = pairs.plan_bytes([slices])
        self.assertEqual(plan.bytes, 4 * 30 + 8)
        write.post(plan, gate_id=9, gate_value=2)
        write.seal()
        here.context.signal(9)
        here.context.progress()
        self.assertEqual(write.query().num_ucp_calls, 0)
        here.context.signal(9, 2)
        self.until(there, EventType.DONE)
        self.until(there, EventType.QUIET)
        self.until(here, EventType.QUIET)
        expected = bytearray(pattern(2))
        for i in range(4):
            a, b = 100 + 64 * i, 1000 + 32 * i
            expected[b : b + 30] = pattern(1)[a : a + 30]
        expected[50000:50008] = pattern(1)[100:108]
        self.assertEqual(there.memory, expected)
        with self.assertRaises(errors.BoundsError):
            pairs.plan_bytes([Bytes([0], [SIZE], [1])])
        with self.assertRaises(errors.PairingError):
            pairs.plan_bytes([Bytes([0], [0], [1], layer=3)])


class Meanwhile(unittest.TestCase):
    """What another thread does while results of the library are read waits until they are."""

    BRIEF_S = 0.3  # a call that waits for no lock has ended within
    setUp, until = TwoContexts.setUp, TwoContexts.until

    def beside(self, call):
        """:return: a function that makes the call in another thread, which must not end."""

        def begin(*_arguments, **_options):
            if self.thread is None:
                self.thread = threading.Thread(target=call)
                self.thread.start()
                self.thread.join(self.BRIEF_S)
                self.is_waiting = self.thread.is_alive()

        self.thread, self.is_waiting = None, False
        return begin

    def has_waited(self):
        self.assertTrue(self.is_waiting)
        self.thread.join(LIMIT_S)
        self.assertFalse(self.thread.is_alive())

    def before(self, place, name, call):
        """Make a call in another thread before a function of the package runs."""
        function, begin = getattr(place, name), self.beside(call)

        def both(*arguments, **options):
            begin()
            return function(*arguments, **options)

        return mock.patch.object(place, name, both)

    def test_events_are_read_before_the_next_poll_frees_them(self):
        here, there = self.sides
        self.peer.send(5, 6, b"header")
        with self.before(morikv.context, "EventType", there.context.poll):
            event = self.until(there, morikv.EventType.MSG)
        self.assertEqual((event.id, event.header), (5, b"header"))
        self.has_waited()

    def test_a_peer_is_closed_when_its_events_are_read(self):
        here, there = self.sides
        self.peer.send(5, 6)
        with self.before(morikv.context, "EventType", lambda: self.back.close(force=True)):
            self.assertIs(self.until(there, morikv.EventType.MSG).peer, self.back)
        self.has_waited()
        self.assertNotIn(self.back, there.context.peers())

    def test_a_map_is_closed_when_its_components_are_read(self):
        map = self.peer.map(intersect=True)
        with self.before(morikv.transfer, "MapInfo", map.close):
            self.assertEqual(list(map.query()), [0])
        self.has_waited()
        with self.assertRaises(morikv.errors.InvalidError):
            map.query()


class Numbers(unittest.TestCase):
    def test_records_without_and_with_numpy_are_the_same(self):
        given = (3, [4, 5], [10, 20], 30, array("Q", [1, 2]))
        for modules in ({}, {"numpy": None}):
            with mock.patch.dict(sys.modules, modules):
                found = self.rows(Pieces(*given))
            self.assertEqual(found, [(3, 4, 10, 30, 1), (3, 5, 20, 30, 2)])

    def test_few_pieces_are_packed_as_many_are(self):
        given = [([1, 2], [3, 4], [5, 6]), (1, 2, 3), ([1], 2, [3]), ([1, 2], (3, 4), 5)]
        if numpy is not None:
            given.append(([1, 2], numpy.array([3, 4]), numpy.array([5, 6], "uint8")))
        for columns in given:
            few = self.rows(Pieces(7, 8, *columns))
            size = Pieces(7, 8, *columns).size()
            with mock.patch("morikv.pieces._short_table", return_value=None):
                self.assertEqual(few, self.rows(Pieces(7, 8, *columns)), columns)
                self.assertEqual(size, Pieces(7, 8, *columns).size(), columns)
        for bad in (([1, 2], [3], [4, 5]), ([-1], [0], [1]), ([1.5], [0], [1]), (0, 2**64, 1)):
            with self.assertRaises(ValueError, msg=bad):
                Pieces(7, 8, *bad)

    def rows(self, pieces):
        return [
            (p.local, p.remote, p.local_offset, p.remote_offset, p.length)
            for p in (pieces.pointer[i] for i in range(pieces.count))
        ]

    def test_pieces_keep_nothing_of_what_they_were_made_of(self):
        offsets = array("Q", [10, 20])
        pieces = Pieces(3, 4, offsets, iter(offsets), offsets)
        offsets[0] = 99
        self.assertEqual(self.rows(pieces), [(3, 4, 10, 10, 10), (3, 4, 20, 20, 20)])

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_arrays_of_any_layout_are_read_in_their_own_order_or_refused(self):
        table = numpy.arange(6).reshape(2, 3)
        narrow = table.astype("int32")
        for given in (table.T, narrow.T, numpy.asfortranarray(table).T, narrow[:, ::-1].T):
            self.assertEqual(list(numbers(given, "x")), given.ravel().tolist(), given.strides)
        self.assertEqual(list(numbers(numpy.array([], "int64"), "x")), [])
        for bad in (table.astype(object), table.astype(float), table.astype(">i8")):
            with self.assertRaisesRegex(ValueError, "x: a buffer of format"):
                numbers(bad, "x")

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_memory_of_python_objects_or_of_transposed_numbers_is_refused(self):
        table = numpy.zeros((2, 3))
        self.assertEqual(memory.of(table).length, 48)
        for bad, why in (
            (table.astype(object), "Python objects"),
            (table.T, "not contiguous"),
        ):
            with self.assertRaisesRegex(ValueError, why):
                memory.of(bad)
        self.assertEqual(memory.device_of(table), -1)

    def test_buffers_of_narrow_and_of_strided_numbers(self):
        self.assertEqual(list(numbers(array("i", [1, 2]), "x")), [1, 2])
        self.assertEqual(list(numbers(memoryview(array("Q", range(6)))[::2], "x")), [0, 2, 4])
        with self.assertRaises(ValueError):
            numbers(array("i", [-1]), "x")


if __name__ == "__main__":
    unittest.main(verbosity=2)
