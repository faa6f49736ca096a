# SPDX-License-Identifier: BSD-3-Clause
"""morikv.vllm and its clients: parameters of any kind, ids that are used twice, several samples
of a prompt, and requests that end in any order. No object may be left.

Schedulers and workers of prefill and decode are in one process, without vLLM, as in py_vllm.py.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import types
import unittest
from threading import get_ident
from unittest import mock

import py_vllm
from py_vllm import BLOCK_TOKENS, LAYERS, Side, output, wait_for
from vllm_names import RequestStatus

from morikv import Mode
from morikv.errors import MorikvError
from morikv.vllm.caches import FULL, Group
from morikv.vllm.orders import PULL, PUSH, Load, Orders, Step
from morikv.vllm.scheduler import Scheduler
from morikv.vllm.sides import Target

PROMPT = 2 * BLOCK_TOKENS
BLOB = "ab" * 40
BAD = (
    {"do_remote_prefill": True},
    {"do_remote_prefill": True, "id": 7},
    *(
        {"do_remote_prefill": True, "id": id, "peers": [BLOB]}
        for id in ("abc", -1, 1 << 64, 7.5, True, None, [1], {})
    ),
    *(
        {"do_remote_prefill": True, "id": 7, "peers": peers}
        for peers in (5, None, [], [5], ["zz"], ["a"], [""], "ab", [None], {"0": BLOB}, [BLOB] * 2000)
    ),
    *(
        {"do_remote_prefill": True, "id": 7, "peers": [BLOB], "mode": mode}
        for mode in ("nonsense", 5, None, [PULL], {})
    ),
)
BAD_IDS = ("abc", -1, 1 << 64, 7.5, False, [1], {}, "")


def request(name, params):
    return types.SimpleNamespace(
        request_id=name,
        num_prompt_tokens=PROMPT,
        prompt_token_ids=list(range(PROMPT)),
        _all_token_ids=list(range(PROMPT)),
        kv_transfer_params=params,
        status=RequestStatus.FINISHED_LENGTH_CAPPED,
    )


class Engine:
    """A scheduler's side and a worker, and vLLM's part between them."""

    def __init__(self, number, **extra):
        self.side = Side(number, **extra)
        self.scheduler = Scheduler([Group(0, FULL, BLOCK_TOKENS, tuple(self.side.cache))], extra)
        self.scheduler.peers = [self.side.worker.blob()]
        #: Requests whose blocks vLLM keeps until they are reported.
        self.held = set()
        self.sent, self.received, self.failed = [], [], []

    def step(self, new=(), cached=(), tokens=None, request_byte=0, preempted=None):
        orders = self.scheduler.take_orders(output(new, cached, tokens, preempted))
        self.side.worker.preempt(orders)
        self.side.worker.begin(orders)
        for layer, (name, cache) in enumerate(self.side.cache.items()):
            for _request_id, blocks, _done in new:
                for block in blocks:
                    self.side.fill(layer, block, request_byte)
            self.side.worker.on_layer(name, cache)
        self.side.worker.on_step_end()
        self.look()

    def look(self):
        sent, received, failed = self.side.worker.take_results()
        self.scheduler.on_sent(sent)
        self.scheduler.on_received(received)
        assert sent <= self.held, f"{sent - self.held} is reported, and not known any more"
        self.held -= sent
        self.sent += sent
        self.received += received
        self.failed += failed

    def compute(self, asked, blocks, request_byte=0):
        self.scheduler.on_new_request(asked)
        new = [(asked.request_id, blocks, 0)]
        self.step(new, tokens={asked.request_id: PROMPT}, request_byte=request_byte)

    def finish(self, asked, blocks):
        keeps, answer = self.scheduler.on_finished(asked, (blocks,))
        if keeps:
            self.held.add(asked.request_id)
        return answer

    def schedule_new(self, asked, blocks, num_external=None):
        """:return: how many tokens come from elsewhere."""
        count, _is_async = self.scheduler.num_remote_tokens(asked, 0)
        self.scheduler.on_blocks(
            asked, (blocks,), count if num_external is None else num_external
        )
        return count

    def left(self):
        """Objects still kept for requests."""
        worker, scheduler = self.side.worker, self.scheduler
        with worker._lock:
            found = {
                "sources": list(worker._sources),
                "ids": list(worker._by_id),
                "readers": len(worker._readers),
                "targets": list(worker._targets),
                "asked": list(worker._requests),
                "writers": worker._has_writers,
                "transfers": worker._context.stats()["xfers_open"],
            }
        for name in ("_sending", "_ids", "_shortened", "_loading", "_waiting", "_bad"):
            found[name] = list(getattr(scheduler, name))
        found["held"] = list(self.held)
        return {name: value for name, value in found.items() if value}


class Clients(unittest.TestCase):
    def engines(self, **extra):
        self.p, self.d = Engine(1, **extra), Engine(2, **extra)
        for each in (self.p, self.d):
            self.addCleanup(each.side.worker.close)

    def setUp(self):
        self.engines()

    def until(self, condition):
        def looked():
            for engine in (self.p, self.d):
                engine.step()
            return condition()

        wait_for(looked)

    def nothing_is_left(self):
        try:
            self.until(lambda: not self.p.left() and not self.d.left())
        except AssertionError:
            self.fail(f"left at prefill {self.p.left()}, at decode {self.d.left()}")

    def prefill(self, name="p", id=7, blocks=(3, 9), request_byte=1):
        asked = request(name, {"do_remote_decode": True, "id": id})
        self.p.compute(asked, list(blocks), request_byte)
        return self.p.finish(asked, list(blocks))

    def has(self, blocks, there, request_byte):
        for layer in range(LAYERS):
            for block, source in zip(blocks, there):
                expected = bytes([1, layer, source, request_byte])
                self.assertEqual(self.d.side.block(layer, block)[:4], expected)

    def test_a_bad_request_for_a_cache_fails_alone_with_a_line(self):
        for number, params in enumerate(BAD):
            asked = request(f"bad{number}", dict(params))
            with self.assertLogs("vllm.morikv", "WARNING") as logs:
                self.d.scheduler.on_new_request(asked)
            self.assertIn(f"request bad{number}: kv_transfer_params", logs.output[0], params)
            self.assertEqual(self.d.schedule_new(asked, [1, 2]), PROMPT, params)
        good = request("good", self.prefill())
        self.d.scheduler.on_new_request(good)
        self.d.schedule_new(good, [11, 12])
        self.until(lambda: len(self.d.received) == len(BAD) + 1)
        self.assertEqual(set(self.d.failed), {f"bad{number}" for number in range(len(BAD))})
        self.has([11, 12], [3, 9], 1)
        self.nothing_is_left()

    def test_a_bad_request_to_be_sent_is_an_ordinary_one(self):
        for number, id in enumerate(BAD_IDS):
            asked = request(f"bad{number}", {"do_remote_decode": True, "id": id})
            with self.assertLogs("vllm.morikv", "WARNING"):
                self.p.compute(asked, [1, 2])
            self.assertIsNone(self.p.finish(asked, [1, 2]))
        for params in (5, "x", [1], {"do_remote_decode": False}, {}, None):
            asked = request("other", params)
            self.p.scheduler.on_new_request(asked)
            self.assertEqual(self.p.schedule_new(asked, [1]), 0)
            self.assertIsNone(self.p.finish(asked, [1]))
        self.nothing_is_left()

    def test_a_request_for_addresses_requests_nothing_else(self):
        peers = self.p.scheduler.peers
        for params in (
            {"do_remote_decode": True, "id": 7},
            {"do_remote_prefill": True, "id": 7, "peers": peers},
            {"do_remote_prefill": True, "id": "bad"},
        ):
            asked = request("p", params | {"get_peers": True})
            self.p.compute(asked, [3, 9])
            self.assertEqual(self.p.schedule_new(asked, [3, 9]), 0)
            keeps, answer = self.p.scheduler.on_finished(asked, ([3, 9],))
            self.assertEqual((keeps, answer), (False, {"peers": peers}))
        self.assertEqual(self.p.left(), {})

    def test_a_blob_of_no_worker_fails_its_request_alone(self):
        params = [{"do_remote_prefill": True, "id": 7, "peers": [BLOB]}, self.prefill()]
        for number, each in enumerate(params):
            asked = request(f"d{number}", each)
            self.d.scheduler.on_new_request(asked)
            self.d.schedule_new(asked, [2 * number, 2 * number + 1])
        self.until(lambda: len(self.d.received) == 2)
        self.assertEqual(self.d.failed, ["d0"])
        self.nothing_is_left()

    def load(self, name, params, blocks, there):
        asked = request(name, params)
        self.d.scheduler.on_new_request(asked)
        self.d.schedule_new(asked, blocks)
        self.until(lambda: name in self.d.received)
        self.assertEqual(self.d.failed, [])
        for layer in range(LAYERS):
            for block, source in zip(blocks, there):
                here = self.d.side.block(layer, block)[:4]
                self.assertEqual(here, self.p.side.block(layer, source)[:4])

    def test_engines_load_from_each_other(self):
        self.load("d", self.prefill("p"), [11, 12], [3, 9])
        self.p, self.d = self.d, self.p  # which has connected to the other one already
        self.load("p", self.prefill("d", id=8, blocks=(4, 10)), [13, 14], [4, 10])
        self.nothing_is_left()

    def test_a_worker_has_one_link_whatever_its_digits_look_like(self):
        self.load("d", self.prefill("p"), [11, 12], [3, 9])
        again = self.prefill("q", id=8)
        again["peers"] = [f" {blob.upper()}" for blob in again["peers"]]
        self.load("e", again, [13, 14], [3, 9])
        self.assertEqual(len(self.d.side.worker._links), 1)
        self.nothing_is_left()

    def test_values_of_any_depth_are_refused(self):
        deep = []
        for _ in range(100000):
            deep = [deep]
        for params in ({"do_remote_prefill": True, "id": deep}, [deep]):
            asked = request("deep", params)
            with self.assertLogs("vllm.morikv", "WARNING"):
                self.p.scheduler.on_new_request(asked)
            self.p.scheduler.on_finished(asked, ())
        self.nothing_is_left()

    def test_a_second_request_of_an_id_is_refused(self):
        answer = self.prefill("alice", request_byte=0xA1)
        with self.assertLogs("vllm.morikv", "WARNING") as logs:
            self.assertIsNone(self.prefill("bob", blocks=(5, 6), request_byte=0xB0))
        self.assertIn("id 7 is that of request alice", logs.output[0])
        asked = request("d", answer)
        self.d.scheduler.on_new_request(asked)
        self.d.schedule_new(asked, [11, 12])
        self.until(lambda: self.d.received)
        self.assertEqual(self.d.failed, [])
        self.has([11, 12], [3, 9], 0xA1)
        self.nothing_is_left()
        self.assertIsNotNone(self.prefill("carol"))  # the id is free again

    def test_a_worker_refuses_a_second_request_of_an_id_as_well(self):
        steps = {name: Step(7, {0: [block]}, True, 4, 4) for name, block in (("a", 3), ("b", 5))}
        worker = self.p.side.worker
        with self.assertLogs("vllm.morikv", "WARNING"):
            worker.begin(Orders(steps=steps))
        worker.on_step_end()
        self.assertEqual(worker._by_id[7].request_id, "a")
        worker.begin(Orders(ended={"a": False, "b": True}))
        self.p.held |= {"a", "b"}
        self.nothing_is_left()

    def samples(self, count, end):
        """:param end: of each sample but the first, before it is scheduled."""
        answer = self.prefill()
        asked = [request(f"{i}_d", dict(answer)) for i in range(count)]
        for each in asked:
            self.d.scheduler.on_new_request(each)
        for i, each in enumerate(asked):
            if i > 0 and end == "aborted":
                each.status = RequestStatus.FINISHED_ABORTED
                self.d.finish(each, [])
            else:
                hit = i > 0 and end == "hit"
                self.d.schedule_new(each, [4 + 2 * i, 5 + 2 * i], 0 if hit else None)
            self.d.step()
        expected = 1 if end else count
        self.until(lambda: len(self.d.received) == expected)
        self.assertEqual(self.d.failed, [])
        for i in range(expected):
            self.has([4 + 2 * i, 5 + 2 * i], [3, 9], 1)
        self.nothing_is_left()

    def test_each_sample_of_a_prompt_gets_the_cache(self):
        self.samples(3, None)

    def test_a_sample_that_hits_what_another_loaded_does_not_end_that(self):
        self.samples(3, "hit")

    def test_a_sample_that_is_aborted_does_not_end_another(self):
        self.samples(2, "aborted")

    def early_load(self):
        """Decode requests the cache of p before that has ended."""
        load = Load(7, [self.p.side.worker.blob()], PUSH, {0: [11, 12]})
        self.d.side.worker.begin(Orders(loads={"d": load}))

    def test_blocks_of_a_preempted_request_are_not_sent(self):
        sent = request("p", {"do_remote_decode": True, "id": 7})
        self.p.compute(sent, [3, 9], request_byte=1)
        self.p.step([("other", [3, 9], 0)], preempted={"p"}, request_byte=2)
        self.early_load()
        self.until(lambda: self.p.side.worker._requests or self.d.received)
        self.p.step([("p", [4, 10], 0)], tokens={"p": PROMPT}, request_byte=3)
        self.p.finish(sent, [4, 10])
        self.until(lambda: self.d.received)
        self.assertEqual(self.d.failed, [])
        self.has([11, 12], [4, 10], 3)
        self.nothing_is_left()

    def test_a_preemption_ends_readers_that_have_come(self):
        sent = request("p", {"do_remote_decode": True, "id": 7})
        self.p.scheduler.on_new_request(sent)
        self.early_load()
        self.p.step([("p", [3, 9], 0)], tokens={"p": BLOCK_TOKENS})
        wait_for(lambda: self.p.side.worker._readers)
        self.p.step(preempted={"p"})
        self.assertTrue(self.p.side.worker._sources["p"].error)
        self.until(lambda: self.d.failed == ["d"])
        self.p.step([("p", [4, 10], 0)], tokens={"p": PROMPT})
        self.p.finish(sent, [4, 10])
        self.nothing_is_left()

    def test_a_preempted_request_that_is_aborted_leaves_nothing(self):
        asked = request("p", {"do_remote_decode": True, "id": 77})
        self.p.compute(asked, [3, 9])
        self.d.side.worker.begin(
            Orders(loads={"d": Load(77, [self.p.side.worker.blob()], PUSH, {0: [1, 2]})})
        )
        asked.status = RequestStatus.FINISHED_ABORTED
        self.assertIsNone(self.p.finish(asked, []))
        self.until(lambda: self.d.received)
        self.nothing_is_left()
        self.assertEqual(self.p.sent, [])

    def test_pull_costs_nothing_a_layer(self):
        worker = self.p.side.worker
        asked = request("p", {"do_remote_decode": True})
        self.p.scheduler.on_new_request(asked)
        worker.begin(self.p.scheduler.take_orders(output([("p", [3, 9], 0)], (), {"p": PROMPT})))
        lock, takers = worker._lock, []
        watched = mock.MagicMock()
        watched.__enter__.side_effect = lambda *_: takers.append(get_ident()) or lock.__enter__()
        watched.__exit__.side_effect = lambda *_: lock.__exit__(None, None, None)
        with mock.patch("morikv.vllm.worker._gate_of") as gate, mock.patch.object(worker, "_lock", watched):
            for name, cache in self.p.side.cache.items():
                worker.on_layer(name, cache)
            self.assertEqual(gate.mock_calls, [])
            self.assertNotIn(get_ident(), takers)  # the worker's thread may take it
        worker.on_step_end()
        self.p.held.add("p")
        worker.begin(Orders(ended={"p": False}))

    def fails_one_request_alone(self, error):
        """:return: the log."""
        answer, opened = self.prefill(), self.d.side.worker._open

        def fails_once(target):
            if target.request_id == "d0":
                raise error
            opened(target)

        asked = [request(f"d{number}", dict(answer)) for number in range(2)]
        for each in asked:
            self.d.scheduler.on_new_request(each)
        with mock.patch.object(self.d.side.worker, "_open", side_effect=fails_once):
            for number, each in enumerate(asked):
                self.d.schedule_new(each, [2 * number, 2 * number + 1])
            with self.assertLogs("vllm.morikv", "WARNING") as logs:
                self.d.step()
            self.until(lambda: len(self.d.received) == 2)
        self.assertEqual(self.d.failed, ["d0"])
        self.has([2, 3], [3, 9], 1)
        return logs.output

    def test_what_is_not_expected_fails_one_request_alone(self):
        logs = self.fails_one_request_alone(RuntimeError("unexpected"))
        self.assertEqual(logs[1:], ["WARNING:vllm.morikv:morikv: request d0: unexpected"])

    def test_an_error_without_a_text_is_an_error(self):
        logs = self.fails_one_request_alone(MemoryError())
        self.assertEqual(logs[1:], ["WARNING:vllm.morikv:morikv: request d0: MemoryError()"])
        target = Target("d", Load(7, [], PULL, {}))
        target.fail("")
        self.assertTrue(target.error)

    def test_a_reader_that_left_keeps_no_other_out(self):
        answer, worker = self.prefill(), self.p.side.worker
        asked = request("d", dict(answer))
        self.d.scheduler.on_new_request(asked)
        left = MorikvError(-5, "the peer has left")
        with mock.patch.object(worker, "_map", side_effect=left):
            self.d.schedule_new(asked, [11, 12])
            self.until(lambda: self.d.failed == ["d"])
        self.d = Engine(3)
        self.addCleanup(self.d.side.worker.close)
        self.load("d", dict(answer), [11, 12], [3, 9])
        self.nothing_is_left()

    def load_early(self, count):
        """Loads of one id that no prefill computes."""
        peers = [self.p.side.worker.blob()]
        loads = {f"d{i}": Load(77, peers, PUSH, {0: [i]}, i) for i in range(count)}
        self.d.side.worker.begin(Orders(loads=loads))

    def test_early_readers_have_a_bound_whatever_their_id(self):
        with mock.patch("morikv.vllm.worker._MAX_REQUESTS", 4):
            self.load_early(10)
            self.until(lambda: len(self.d.failed) == 6)
        self.assertEqual(len(self.p.side.worker._requests), 4)
        self.prefill(id=77)  # for one of them; the others are refused
        self.until(lambda: len(self.d.received) == 10)
        self.assertEqual(len(self.d.failed), 9)
        self.nothing_is_left()

    def test_early_readers_of_one_peer_keep_no_other_out(self):
        worker = self.p.side.worker
        quiet, loud = object(), object()
        events = [mock.Mock(id=i, value=Mode.WRITE, peer=quiet if i == 0 else loud) for i in range(8)]
        with mock.patch("morikv.vllm.worker._MAX_REQUESTS", 4), mock.patch.object(worker, "_refuse") as refuse:
            for event in events:
                worker._on_incoming(event)
        self.assertEqual([call.args[0] for call in refuse.mock_calls], events[1:5])
        self.assertEqual([event for _end, event in worker._requests], [events[0], *events[5:]])
        worker._requests.clear()

    def test_early_readers_go_with_their_peer(self):
        self.load_early(3)
        self.until(lambda: len(self.p.side.worker._requests) == 3)
        self.d.side.worker.close()
        wait_for(lambda: not self.p.side.worker._requests)


class AnyOrder(Clients):
    """Calls of engines for requests, in random orders."""

    def actions(self, chance, kind):
        """A request of prefill and one or two of decode, step by step."""
        name = f"{kind}{chance.random()}"
        id = chance.randrange(1, 1 << 63)
        sent = request(name, {"do_remote_decode": True, "id": id})
        blocks = [2 * kind, 2 * kind + 1]
        peers = self.p.scheduler.peers
        mode = chance.choice((PULL, PUSH))
        params = {"do_remote_prefill": True, "id": id, "peers": peers, "mode": mode}
        reads = [request(f"{i}_{name}", dict(params)) for i in range(chance.choice((0, 1, 1, 2)))]

        def prefill():
            self.p.scheduler.on_new_request(sent)
            yield
            if chance.random() < 0.1:
                sent.status = RequestStatus.FINISHED_ABORTED
                self.p.finish(sent, [])
                return
            self.p.step([(name, blocks, 0)], tokens={name: BLOCK_TOKENS})
            yield
            if chance.random() < 0.3:
                self.p.step(preempted={name})
                yield
                if chance.random() < 0.5:
                    sent.status = RequestStatus.FINISHED_ABORTED
                    self.p.finish(sent, [])
                    return
                self.p.step([(name, blocks, 0)], tokens={name: BLOCK_TOKENS})
                yield
            self.p.step(cached=[(name, None, BLOCK_TOKENS)], tokens={name: BLOCK_TOKENS})
            yield
            kinds = (*RequestStatus, RequestStatus.FINISHED_STOPPED)
            sent.status = chance.choice(kinds)
            self.p.finish(sent, blocks)

        def decode(asked, place):
            self.d.scheduler.on_new_request(asked)
            yield
            end = chance.choice(("load", "load", "hit", "never", "abort"))
            if end != "never":
                self.d.schedule_new(asked, place, 0 if end == "hit" else None)
                self.d.step()
                yield
            if end in ("never", "abort"):
                asked.status = RequestStatus.FINISHED_ABORTED
            self.d.finish(asked, place if end != "never" else [])

        yield prefill()
        for i, each in enumerate(reads):
            yield decode(each, [(4 * kind + 2 * i) % 16, (4 * kind + 2 * i + 1) % 16])

    def test_nothing_is_left_in_any_order(self):
        self.engines(lease_s=0.3, options={"BIND_TIMEOUT": "2s"})
        rounds = int(os.environ.get("PY_VLLM_ROUNDS", "6"))
        seed = int(os.environ.get("PY_VLLM_SEED", random.randrange(1 << 32)))
        for number in range(seed, seed + rounds):
            chance = random.Random(number)
            running = [action for kind in range(4) for action in self.actions(chance, kind)]
            with self.subTest(seed=number):
                while running:
                    action = chance.choice(running)
                    if next(action, self) is self:
                        running.remove(action)
                    if chance.random() < 0.3:
                        self.p.step()
                        self.d.step()
                self.nothing_is_left()


class Exit(unittest.TestCase):
    def test_a_worker_that_ends_without_shutdown_ends_quietly(self):
        folder = os.path.dirname(os.path.abspath(py_vllm.__file__))
        program = "import sys; sys.path.insert(0, sys.argv[1]); import py_vllm; py_vllm.Side(1); sys.exit(3)"
        run = [sys.executable, "-c", program, folder]
        done = subprocess.run(run, capture_output=True, text=True, timeout=600)
        self.assertEqual((done.returncode, done.stderr), (3, ""))


def load_tests(loader, _tests, _pattern):
    """AnyOrder has Clients' set-up, and not its cases."""
    cases = [loader.loadTestsFromTestCase(each) for each in (Clients, Exit)]
    cases.append(AnyOrder("test_nothing_is_left_in_any_order"))
    return unittest.TestSuite(cases)


if __name__ == "__main__":
    unittest.main(verbosity=2)
