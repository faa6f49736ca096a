# SPDX-License-Identifier: BSD-3-Clause
"""morikv.vllm without vLLM: prefill's and decode's workers in one process, every byte compared.

Names that do nothing (vllm_names.py) replace the package's imports of vLLM;
contrib/test engine runs it in vLLM itself.
"""

from __future__ import annotations

import ctypes
import time
import types
import unittest
from unittest import mock

BLOCKS, LAYERS, BLOCK_TOKENS, HEADS = 16, 3, 4, 2
SHAPE = (BLOCKS, HEADS, BLOCK_TOKENS, 8)  # heads, tokens of a block, numbers of 4 bytes
BLOCK_BYTES = 2 * BLOCK_TOKENS * 8 * 4
LIMIT_S = 600


import vllm_names
from py_forked import in_child
from vllm_names import FullAttentionSpec, RequestStatus, Tensor

vllm_names.install()
from morikv.vllm.caches import FULL, Group  # noqa: E402
from morikv.vllm.orders import PULL, PUSH, Load, Orders, Step  # noqa: E402
from morikv.vllm.scheduler import Scheduler  # noqa: E402
from morikv.vllm.worker import Worker  # noqa: E402


def wait_for(condition):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.001)  # a poll, as an engine does in each step
    raise AssertionError(f"not within {LIMIT_S} s")


class Side:
    def __init__(self, number, **extra):
        self.number = number
        self.buffers = [ctypes.create_string_buffer(BLOCKS * BLOCK_BYTES) for _ in range(LAYERS)]
        self.cache = {
            f"layers.{layer}": Tensor(ctypes.addressof(buffer), SHAPE)
            for layer, buffer in enumerate(self.buffers)
        }
        spec = FullAttentionSpec(block_size=BLOCK_TOKENS)
        config = vllm_names.cache_config(BLOCKS, [(spec, list(self.cache))])
        self.worker = Worker(vllm_names.config(f"engine-{number}", HEADS), config, extra)
        self.worker.register(self.cache)

    def fill(self, layer, block, request):
        """Fill a block like a model: its bytes are in no other place."""
        data = bytes([self.number, layer, block, request]) * (BLOCK_BYTES // 4)
        ctypes.memmove(ctypes.addressof(self.buffers[layer]) + block * BLOCK_BYTES, data, len(data))

    def block(self, layer, block):
        return self.buffers[layer].raw[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]

    def step(self, request_id, step, blocks, request=0):
        """Run a forward: these blocks of each layer are computed, and then reported."""
        self.worker.begin(Orders(steps={request_id: step}))
        for layer, (name, cache) in enumerate(self.cache.items()):
            for block in blocks:
                self.fill(layer, block, request)
            self.worker.on_layer(name, cache)
        self.worker.on_step_end()

    def results(self, kind, request_id):
        """Wait until the engine gets the result. :return: whether it has failed."""

        def has_result(results):
            return request_id in results[kind]

        results = wait_for(lambda: next(filter(has_result, [self.worker.take_results()]), None))
        return request_id in results[2]


SENT, RECEIVED = 0, 1


class TwoWorkers(unittest.TestCase):
    extra = {}

    def setUp(self):
        self.p, self.d = Side(1, **self.extra), Side(2)
        self.addCleanup(self.p.worker.close)
        self.addCleanup(self.d.worker.close)
        self.peers = [self.p.worker.blob()]

    def load(self, blocks, mode, id=7):
        load = Load(id, self.peers, mode, {0: blocks})
        self.d.worker.begin(Orders(loads={"d": load}))

    def has_moved(self, here, there, request=0):
        for layer in range(LAYERS):
            for source, to in zip(here, there):
                expected = bytes([1, layer, source, request]) * (BLOCK_BYTES // 4)
                self.assertEqual(self.d.block(layer, to), expected, (layer, source, to))
            for other in set(range(BLOCKS)) - set(there):
                self.assertEqual(self.d.block(layer, other), bytes(BLOCK_BYTES), (layer, other))

    def test_a_reader_gets_the_last_blocks_of_its_request(self):
        self.p.step("p", Step(7, {0: [3, 9, 4]}, True, 10, 10), [3, 9, 4])
        self.p.worker.begin(Orders(ended={"p": True}))
        self.load([11, 2], PULL)
        self.assertFalse(self.d.results(RECEIVED, "d"))
        self.assertFalse(self.p.results(SENT, "p"))
        self.has_moved([9, 4], [11, 2])
        stats = self.d.worker.take_stats()
        self.assertEqual(stats["bytes_transferred"], [2 * LAYERS * BLOCK_BYTES])

    def push(self, is_early):
        """Push chunks of 6, 5 and 3 tokens: a block is sent when it is full, or the last."""
        if is_early:
            self.load([11, 2, 0, 8], PUSH)
        self.p.step("p", Step(7, {0: [3, 9]}, True, 6, 14), [3, 9], request=1)
        self.p.step("p", Step(7, {0: [4]}, False, 11, 14), [9, 4], request=2)
        if not is_early:
            self.load([11, 2, 0, 8], PUSH)
        self.p.step("p", Step(7, {0: [5]}, False, 14, 14), [4, 5], request=3)
        self.p.worker.begin(Orders(ended={"p": True}))
        self.assertFalse(self.d.results(RECEIVED, "d"))
        self.assertFalse(self.p.results(SENT, "p"))
        for layer in range(LAYERS):
            for source, to, request in ((3, 11, 1), (9, 2, 2), (4, 0, 3), (5, 8, 3)):
                expected = bytes([1, layer, source, request]) * (BLOCK_BYTES // 4)
                self.assertEqual(self.d.block(layer, to), expected)

    def test_a_writer_sends_chunks_to_a_waiting_reader(self):
        self.push(is_early=True)

    def test_a_writer_sends_what_was_before_the_reader_came(self):
        self.push(is_early=False)

    def test_an_abort_of_prefill_fails_decode(self):
        self.load([11, 2], PUSH)
        self.p.step("p", Step(7, {0: [3, 9]}, True, 4, 8), [3])
        self.p.worker.begin(Orders(ended={"p": False}))
        self.p.results(SENT, "p")
        # it has come, or comes too late; then no reader comes, as after a router that gave up
        self.d.worker.begin(Orders(aborts=["d"]))
        self.assertTrue(self.d.results(RECEIVED, "d"))

    def test_a_forked_child_is_refused(self):
        worker = self.p.worker
        for call in (
            lambda: worker.begin(Orders()),
            worker.blob,
            lambda: worker.register(self.p.cache),
            worker.take_results,
            worker.take_stats,
        ):
            self.assertRegex(in_child(call), "^InvalidError: .*opened by process .* after the fork")
        self.assertEqual(in_child(worker.close), "None")

    def test_an_abort_of_decode_frees_prefill(self):
        self.load([11, 2], PUSH)
        self.p.step("p", Step(7, {0: [3, 9]}, True, 4, 8), [3])
        self.d.worker.begin(Orders(aborts=["d"]))
        self.assertTrue(self.d.results(RECEIVED, "d"))
        self.p.worker.begin(Orders(ended={"p": False}))
        self.p.results(SENT, "p")

    def test_a_preempted_request_is_sent_as_it_is_then(self):
        self.p.step("p", Step(7, {0: [3]}, True, 4, 8), [3], request=1)
        self.p.step("p", Step(7, {0: [5, 6]}, True, 8, 8), [5, 6])
        self.p.worker.begin(Orders(ended={"p": True}))
        self.load([11, 2], PULL)
        self.assertFalse(self.d.results(RECEIVED, "d"))
        self.has_moved([5, 6], [11, 2])

    def test_a_reader_that_has_left_does_no_harm(self):
        self.load([11, 2], PUSH)
        wait_for(lambda: self.p.worker._requests)
        self.d.worker.close()
        wait_for(lambda: not self.p.worker._context.peers())
        self.p.step("p", Step(7, {0: [3, 9]}, True, 8, 8), [3, 9])
        self.p.worker.begin(Orders(ended={"p": False}))
        self.p.results(SENT, "p")

    def test_an_interrupted_close_closes_the_context(self):
        worker = self.d.worker
        with mock.patch.object(worker._listener, "join", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                worker.close()
        self.assertFalse(worker._context.is_open)

    def test_an_abort_needs_no_connection(self):
        with mock.patch.object(self.d.worker, "_open"):
            self.load([11, 2], PULL)
        self.d.worker.begin(Orders(aborts=["d"]))
        self.assertTrue(self.d.results(RECEIVED, "d"))

    def test_a_request_that_waits_for_decode_is_kept_longer(self):
        self.p.step("p", Step(7, {0: [3]}, True, 4, 4), [3])
        self.p.worker.begin(Orders(ended={"p": True}))
        source = self.p.worker._sources["p"]
        before = source.deadline
        self.d.worker.begin(Orders(keeps=[(7, self.peers)]))
        wait_for(lambda: source.deadline > before)

    def test_what_decode_has_already_is_let_go(self):
        self.p.step("p", Step(7, {0: [3]}, True, 4, 4), [3])
        self.p.worker.begin(Orders(ended={"p": True}))
        self.d.worker.begin(Orders(releases=[(7, self.peers, 0)]))
        self.p.results(SENT, "p")

    def test_a_peer_that_is_none_fails_the_request(self):
        self.peers = ["00" * 40]
        self.load([1], PULL)
        self.assertTrue(self.d.results(RECEIVED, "d"))


class Expiring(TwoWorkers):
    extra = {"lease_s": 0.2}

    def test_a_late_request_is_refused(self):
        self.p.step("p", Step(7, {0: [3]}, True, 4, 4), [3])
        self.p.worker.begin(Orders(ended={"p": True}))
        self.p.results(SENT, "p")
        self.load([11], PULL)
        self.assertTrue(self.d.results(RECEIVED, "d"))
        self.assertEqual(self.d.block(0, 11), bytes(BLOCK_BYTES))
        self.assertEqual(self.p.worker.take_stats()["num_kv_expired_reqs"], [1])


def load_tests(loader, _tests, _pattern):
    """Expiring has the others' set-up, and not their cases."""
    cases = [loader.loadTestsFromTestCase(TwoWorkers), loader.loadTestsFromTestCase(Schedulers)]
    cases.append(Expiring("test_a_late_request_is_refused"))
    return unittest.TestSuite(cases)


def request(name, prompt, **params):
    return types.SimpleNamespace(
        request_id=name,
        num_prompt_tokens=prompt,
        kv_transfer_params=params,
        status=RequestStatus.FINISHED_LENGTH_CAPPED,
    )


def output(new=(), cached=(), tokens=None, preempted=None):
    names = ("req_ids", "new_block_ids", "num_computed_tokens")
    data = dict(zip(names, zip(*cached))) if cached else dict.fromkeys(names, ())
    return types.SimpleNamespace(
        scheduled_new_reqs=[
            types.SimpleNamespace(req_id=id, block_ids=(blocks,), num_computed_tokens=done)
            for id, blocks, done in new
        ],
        scheduled_cached_reqs=types.SimpleNamespace(**data, resumed_req_ids=set()),
        num_scheduled_tokens=tokens or {},
        preempted_req_ids=preempted,
    )


class Schedulers(unittest.TestCase):
    def setUp(self):
        self.scheduler = Scheduler([Group(0, FULL, BLOCK_TOKENS, ("layers.0",))], {})
        self.scheduler.peers = ["ab"]

    def test_prefill_reports_each_step_and_keeps_the_blocks(self):
        asked = request("p", 10, do_remote_decode=True, id=5)
        self.scheduler.on_new_request(asked)
        first = self.scheduler.take_orders(output([("p", [3, 9], 0)], tokens={"p": 6}))
        self.assertEqual(first.steps, {"p": Step(5, {0: [3, 9]}, True, 6, 10)})
        more = output(cached=[("p", ([4],), 6)], tokens={"p": 4})
        self.assertEqual(self.scheduler.take_orders(more).steps, {"p": Step(5, {0: [4]}, False, 10, 10)})
        keeps, answer = self.scheduler.on_finished(asked, ([3, 9, 4],))
        self.assertTrue(keeps)
        expected = {"do_remote_prefill": True, "id": 5, "mode": "pull", "peers": ["ab"]}
        self.assertEqual(answer, expected)
        self.assertEqual(self.scheduler.take_orders(output()).ended, {"p": True})

    def test_decode_requests_its_missing_blocks_once(self):
        asked = request("d", 10, do_remote_prefill=True, id=5, peers=["cd"])
        self.scheduler.on_new_request(asked)
        self.assertEqual(self.scheduler.take_orders(output()).keeps, [(5, ["cd"])])
        self.assertEqual(self.scheduler.num_remote_tokens(asked, 4), (6, True))
        self.scheduler.on_blocks(asked, ([7, 8, 1, 2],), 6)
        self.scheduler.on_blocks(asked, ([7, 8, 1, 2],), 0)
        orders = self.scheduler.take_orders(output())
        self.assertEqual(orders.loads, {"d": Load(5, ["cd"], PULL, {0: [8, 1]})})
        self.assertEqual((orders.keeps, orders.releases), ([], []))
        self.scheduler.on_finished(asked, ([7, 8, 1, 2],))  # aborted while it loads
        self.assertEqual(self.scheduler.take_orders(output()).aborts, ["d"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
