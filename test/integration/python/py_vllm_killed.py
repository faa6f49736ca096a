# SPDX-License-Identifier: BSD-3-Clause
"""morikv.vllm when prefill is killed in mid-transfer. Prefill pushes the model of four groups
of py_vllm_ranks.py, windows among them, in chunks, or decode reads it. Every later byte is
compared.

py_vllm_killed.py runs all tests; py_vllm_killed.py prefill RANK SIZE SEED is a rank of prefill,
which reads the tokens to compute from its standard input.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import types
import unittest
from unittest import mock

import py_vllm_ranks as ranks
import vllm_names
from py_vllm_ranks import FULL, HERE, LATENTS, STATES, THERE, TOTAL, WINDOWS, wait_for

from morikv import EventType
from morikv.vllm import MorikvConnector
from morikv.vllm.orders import PULL, PUSH, Orders
from morikv.vllm.sides import Target

#: Tokens whose chunk fills the first block of the window that decode needs, and not the last.
FILLED = 12
#: Blocks of the request in decode; the first one of each is cached there.
BLOCKS = ([8, *THERE[FULL]], [0, 0, *THERE[WINDOWS]], [*THERE[STATES], 1, 1], [9, *THERE[LATENTS]])
CACHED = ranks.BLOCK_TOKENS


def prefill(rank, size, seed):
    mine = ranks.Rank("p", rank, size)
    print(mine.worker.blob(), flush=True)
    for line in sys.stdin:
        low, high = map(int, line.split())
        mine.chunk(low, high, seed)
        if high == TOTAL:
            mine.worker.begin(Orders(ended={"p": True}))
        print(high, flush=True)


class Prefill:
    """A rank of prefill, in a process of its own."""

    def __init__(self, case, rank=0, size=1, seed=0):
        order = [sys.executable, __file__, "prefill", str(rank), str(size), str(seed)]
        self.process = subprocess.Popen(
            order, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        case.addCleanup(self.process.__exit__, None, None, None)  # closes pipes, and waits
        case.addCleanup(self.process.kill)
        self.blob = self.process.stdout.readline().strip()

    def compute(self, low, high):
        self.process.stdin.write(f"{low} {high}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"{high}\n"

    def compute_all(self):
        for low, high in ((0, 6), (6, 11), (11, TOTAL)):
            self.compute(low, high)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)  # all of its threads stand still

    def kill(self):
        self.process.kill()
        self.process.wait()


class Decode:
    """An engine of one rank, as a connector sees it. It rejects the same cases as vLLM 0.32's
    scheduler: load errors of blocks when there are several groups, a failed request that is not
    received, a request that is reported twice."""

    def __init__(self):
        self.rank = ranks.Rank("d", 0, 1)
        role = vllm_names.KVConnectorRole.SCHEDULER
        config = vllm_names.config("d", ranks.HEADS)
        self.scheduler = MorikvConnector(config, role, ranks.cache_config(1))
        self.loading = {}

    def add_request(self, request_id, peers, mode):
        """Add a request with a cache on these ranks."""
        params = {"do_remote_prefill": True, "id": 7, "mode": mode, "peers": peers}
        request = types.SimpleNamespace(
            request_id=request_id,
            num_prompt_tokens=TOTAL + 1,
            kv_transfer_params=params,
            status=None,
        )
        self.scheduler.on_new_request(request)
        self.schedule(request, CACHED, TOTAL - CACHED)
        self.loading[request_id] = request
        return request

    def schedule(self, request, num_cached, num_loaded):
        got, _is_async = self.scheduler.get_num_new_matched_tokens(request, num_cached)
        assert got == num_loaded, (got, num_loaded)
        blocks = types.SimpleNamespace(get_block_ids=lambda: BLOCKS)
        self.scheduler.update_state_after_alloc(request, blocks, got)

    def abort(self, request):
        keeps, _answer = self.scheduler.request_finished_all_groups(request, BLOCKS)
        assert not keeps  # they are reported as received

    def step(self):
        """:return: requests whose blocks are free or to be used, and those that have failed."""
        output = types.SimpleNamespace(
            scheduled_new_reqs=[],
            scheduled_cached_reqs=types.SimpleNamespace(req_ids=[]),
            num_scheduled_tokens={},
            preempted_req_ids=None,
        )
        worker = self.rank.connector
        worker.bind_connector_metadata(self.scheduler.build_connector_meta(output))
        told = worker.get_transfer_results(set())
        assert not worker.get_block_ids_with_load_errors()
        assert told.failed_recving <= told.finished_recving <= set(self.loading), told
        for request_id in told.finished_recving:
            del self.loading[request_id]
        self.scheduler.update_connector_output(told)
        return told.finished_recving, told.failed_recving

    def settle(self):
        """Run steps until all requests are reported. :return: those that have failed."""
        failed = set()
        end = time.monotonic() + ranks.LIMIT_S
        while self.loading:
            assert time.monotonic() < end, f"{[*self.loading]} not within {ranks.LIMIT_S} s"
            failed |= self.step()[1]
            time.sleep(0.001)  # a poll, as an engine does in each step
        return failed

    def has(self, tokens):
        """Whether the computed part of so many tokens has come, and is not the whole request."""
        last = tokens // ranks.BLOCK_TOKENS
        return all(
            self.rank.holds(group, position) == (position < last)
            for group in (FULL, WINDOWS, LATENTS)
            for position in range(len(HERE[group]) - len(THERE[group]), len(HERE[group]))
        )


class Killed(unittest.TestCase):
    def setUp(self):
        self.decode = Decode()
        self.worker = self.decode.rank.worker
        self.addCleanup(self.worker.close)

    def add_request(self, request_id, peers, mode=PUSH):
        request = self.decode.add_request(request_id, peers, mode)
        self.decode.step()
        return request

    def push_half(self):
        """A window's first block has come, and its last one has not when prefill is killed."""
        p = Prefill(self)
        request = self.add_request("d", [p.blob])
        p.compute(0, FILLED)
        wait_for(lambda: self.decode.has(FILLED))
        self.assertEqual(self.decode.step(), (set(), set()))
        p.kill()
        return request

    def push_whole(self):
        """Another prefill writes other bytes into the same blocks."""
        p = Prefill(self, seed=1)
        self.add_request("e", [p.blob])
        p.compute_all()
        self.assertEqual(self.decode.settle(), set())
        self.assertTrue(self.decode.rank.is_right(seed=1))

    def test_its_request_fails_and_the_next_one_is_served(self):
        request = self.push_half()
        self.assertEqual(self.decode.settle(), {"d"})
        self.assertEqual(self.worker.take_stats()["num_failed_transfers"], [1])
        self.decode.schedule(request, 0, 0)  # the repeated computation needs no prefill
        self.assertFalse(self.decode.step()[0])
        self.push_whole()

    def test_no_block_is_free_before_it_is_quiet(self):
        on_event, held = self.worker._on_event, []

        def hold(event):
            if event.type == EventType.QUIET:
                held.append(event)
            else:
                on_event(event)

        with mock.patch.object(self.worker, "_on_event", hold):
            request = self.push_half()
            wait_for(lambda: held)  # it has failed before
            self.assertEqual(self.decode.step(), (set(), set()))
            self.decode.abort(request)  # its client has left meanwhile
            for _ in range(2):
                self.assertEqual(self.decode.step(), (set(), set()))
        with self.worker._lock:
            on_event(held.pop())
        self.assertEqual(self.decode.settle(), {"d"})
        self.push_whole()

    def test_a_rank_of_two_takes_the_request_with_it(self):
        killed, other = Prefill(self, 0, 2), ranks.Rank("p", 1, 2)
        self.addCleanup(other.worker.close)
        self.add_request("d", [killed.blob, other.worker.blob()])
        killed.compute(0, FILLED)
        other.chunk(0, FILLED)
        wait_for(lambda: self.decode.has(FILLED))
        killed.kill()
        self.assertEqual(self.decode.settle(), {"d"})
        other.worker.begin(Orders(ended={"p": False}))
        ranks.results(other.worker, ranks.SENT, "p")
        self.push_whole()


    def pull_half(self, killed, peers):
        """Reads from one rank are in flight when that is killed; those from the others have
        ended."""
        read, targets = Target.on_exposed, []

        def stop_and_read(target, event):
            if event.leg == len(peers) - 1:
                killed.stop()  # before it can answer
            read(target, event)
            targets.append(target)

        with mock.patch.object(Target, "on_exposed", stop_and_read):
            request = self.add_request("d", peers, PULL)
            wait_for(lambda: len(targets) == len(peers))
        if len(peers) > 1:
            wait_for(lambda: targets[0].transfer.query().bytes > 0)
        self.assertEqual(self.decode.step(), (set(), set()))
        killed.kill()
        return request

    def pull_whole(self):
        p = Prefill(self, seed=1)
        p.compute_all()
        self.add_request("e", [p.blob], PULL)
        self.assertEqual(self.decode.settle(), set())
        self.assertTrue(self.decode.rank.is_right(seed=1))

    def test_what_is_read_fails_and_the_next_one_is_served(self):
        p = Prefill(self)
        p.compute_all()
        self.pull_half(p, [p.blob])
        self.assertEqual(self.decode.settle(), {"d"})
        self.assertEqual(self.worker.take_stats()["num_failed_transfers"], [1])
        self.assertFalse(self.decode.rank.is_right())
        self.pull_whole()

    def test_a_rank_of_two_that_is_read_takes_the_request_with_it(self):
        ranks_of_p = [Prefill(self, rank, 2) for rank in range(2)]
        for rank in ranks_of_p:
            rank.compute_all()
        self.pull_half(ranks_of_p[1], [rank.blob for rank in ranks_of_p])
        self.assertEqual(self.decode.settle(), {"d"})
        self.assertFalse(self.decode.rank.is_right())
        self.pull_whole()


if __name__ == "__main__":
    if sys.argv[1:2] == ["prefill"]:
        prefill(*map(int, sys.argv[2:]))
    else:
        unittest.main(verbosity=2)
