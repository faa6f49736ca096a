# SPDX-License-Identifier: BSD-3-Clause
# PY-01
"""The toy of contrib/examples: prefill, decode and a router, started in the wrong order. Their
answers must equal those of one process. A decode instance is killed and comes back."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

TOY = os.path.join(os.path.dirname(__file__), "../../../contrib/examples/toy_pd.py")
#: with sanitizers, and once more with another UCX, fewer
PROMPTS = 100 if os.environ.get("MKV_TEST_FEWER") else 1000
_spec = importlib.util.spec_from_file_location("toy_pd", TOY)
toy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(toy)


def prompt(number):
    source = random.Random(number)
    return [source.randrange(50000) for _ in range(source.randrange(1, 200))]


class Toy(unittest.TestCase):
    def setUp(self):
        self.port = toy.keep_port()

    def start(self, *arguments, **environment):
        process = subprocess.Popen(
            [sys.executable, TOY, *arguments], env={**os.environ, **environment}
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_all(self, **environment):
        self.start("prefill", "p", str(self.port))
        decode = self.start("decode", "d", str(self.port), **environment)
        self.start("router", str(self.port))  # the instances have waited for it
        toy.wait_until_healthy(self.port)
        return decode

    def generate(self, number):
        request = {"tokens": prompt(number), "max_tokens": 5}
        return toy.call(self.port, "/generate", request)

    def test_answers_are_those_of_one_process(self):
        self.start_all()
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(self.generate, range(PROMPTS)))
        for number, (status, answer) in enumerate(answers):
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["tokens"], toy.generate(prompt(number), 5))

    def test_caches_that_are_not_used_are_noticed(self):
        self.start_all(TOY_FORGET="1")
        answer = self.generate(1)[1]["tokens"]
        right = toy.generate(prompt(1), 5)
        self.assertEqual(answer[0], right[0])  # it came with DONE
        self.assertNotEqual(answer[1:], right[1:])

    def test_a_killed_peer_is_removed_and_comes_back(self):
        decode = self.start_all()
        self.assertEqual(self.generate(1)[0], 200)
        decode.kill()
        decode.wait()
        status, answer = self.generate(2)
        self.assertNotEqual(status, 200)
        self.assertIn("error", answer)
        end = time.monotonic() + 600
        while toy.call(self.port, "/health")[0] != 503:  # its last beat may be handled late
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        self.start("decode", "d", str(self.port))
        toy.wait_until_healthy(self.port)
        self.assertEqual(self.generate(3)[1].get("tokens"), toy.generate(prompt(3), 5))

    def test_the_benchmark_prints_mean_and_spread(self):
        out = subprocess.run(
            [sys.executable, TOY, "bench", "tcp"], env={**os.environ, "TOY_PROMPTS": "8"},
            stdout=subprocess.PIPE, text=True, timeout=120,
        )  # fmt: skip
        self.assertEqual(out.returncode, 0)
        told = r"tcp \| TTFT ms [0-9.]+ \+- [0-9.]+ \| tokens/s [0-9.]+ \+- [0-9.]+\n$"
        self.assertRegex(out.stdout, told)


if __name__ == "__main__":
    unittest.main(verbosity=2)
