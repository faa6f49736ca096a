# SPDX-License-Identifier: BSD-3-Clause
"""The LLM of contrib/examples: prefill and decode on two GPUs make the tokens of one process, and do not where a
block is exchanged or the transfer is left out.

py_llm.py runs all tests; py_llm.py FAULT decode|prefill .. is an instance with a fault.
"""

from __future__ import annotations

import os
import sys
import unittest
import urllib.error
from functools import cache

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../contrib/examples")
sys.path.insert(0, EXAMPLES)

import llm_pd  # noqa: E402
import tiny_llm  # noqa: E402
from morikv import Bytes, Mode  # noqa: E402
from morikv.transfer import Map  # noqa: E402

EXAMPLE = os.path.join(EXAMPLES, "llm_pd.py")
TOKENS = 16
#: less than a block, a whole one, one more than that, and many
PROMPTS = ("a", "four", "fives", "Zwölf Boxkämpfer jagen Viktor", *llm_pd.PROMPTS)
SMALL = 4  #: blocks of a prefill instance that refuses prompts

# ---- instances with a fault ----


def exchange_blocks():
    """The first two blocks of what is moved go to each other's place."""
    plan = Map.plan

    def exchanged(self, units):
        here, there = units[0]
        here = list(here)
        here[:2] = here[1::-1]
        return plan(self, {0: (here, there)})

    Map.plan = exchanged


def leave_transfer_out():
    """Move a single number, as an empty plan would be refused."""

    def left_out(self, units):
        here, there = (blocks[0] * tiny_llm.BLOCK_BYTES for blocks in units[0])
        return self.plan_bytes([Bytes([here], [there], [4])], unchecked=True)

    Map.plan = left_out


def have_few_blocks():
    llm_pd.BLOCKS = SMALL


FAULTS = {fault.__name__: fault for fault in (exchange_blocks, leave_transfer_out, have_few_blocks)}


def with_fault(fault):
    return [os.path.abspath(__file__), fault.__name__]


# ---- the tests ----


@cache
def alone(prompt):
    """The tokens of one process, by caches in the memory of one GPU."""
    blocks = tiny_llm.PagedCache(tiny_llm.Gpu(), llm_pd.BLOCKS, seed=0)
    return tiny_llm.Model().generate(list(prompt.encode()), TOKENS, blocks)


class TwoGpus(unittest.TestCase):
    def test_tokens_are_those_of_one_process(self):
        with llm_pd.deployment() as url:
            for mode in Mode:
                for prompt in PROMPTS:
                    answer = llm_pd.generate(url, prompt, TOKENS, mode.name)
                    self.assertEqual(len(answer["tokens"]), TOKENS)
                    self.assertEqual(answer["tokens"], alone(prompt), (mode, prompt))
                    self.assertTrue(answer["text"])
        prefill, decode = (name.split(" on ")[1] for name in answer["instances"])
        self.assertNotEqual(prefill, decode, "two GPUs are needed")
        self.assertEqual(answer["backend"], "XGMI")
        for path, kind in zip(answer["paths"], ("put", "get"), strict=True):
            self.assertIn(f"{kind} rocm>rocm: ", path)
            for told in path.split("; "):
                self.assertIn(" mori_xgmi/", told)
        print(f"{' and '.join(answer['instances'])}: {answer['paths']}")

    def test_the_demo_compares(self):
        self.assertEqual(llm_pd.demo(["KV"]), 0)

    def check_that_caches_differ(self, fault):
        prompt = llm_pd.PROMPTS[-1]
        with llm_pd.deployment(prefill=with_fault(fault), decode=with_fault(fault)) as url:
            for mode in Mode:
                tokens = llm_pd.generate(url, prompt, TOKENS, mode.name)["tokens"]
                self.assertEqual(tokens[0], alone(prompt)[0], "it comes beside the caches")
                self.assertNotEqual(tokens[1:], alone(prompt)[1:], mode)

    def test_an_exchanged_block_is_noticed(self):
        self.check_that_caches_differ(exchange_blocks)

    def test_a_transfer_that_is_left_out_is_noticed(self):
        self.check_that_caches_differ(leave_transfer_out)

    def test_what_is_no_request_is_an_error_of_its_own(self):
        with llm_pd.deployment() as url:
            for prompt, tokens, mode in ("", 1, "READ"), ("a", 0, "READ"), ("a", 1, "PULL"), ("a", 999, "READ"):
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    llm_pd.generate(url, prompt, tokens, mode)
                refused.exception.close()
                self.assertEqual(refused.exception.code, 500)
            self.assertEqual(llm_pd.generate(url, "a", TOKENS)["tokens"], alone("a"))

    def test_what_prefill_refuses_is_an_error_of_that_request(self):
        with llm_pd.deployment(prefill=with_fault(have_few_blocks)) as url:
            for mode in Mode:
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    llm_pd.generate(url, PROMPTS[-1], TOKENS, mode.name)
                with refused.exception as answer:
                    self.assertIn(f"but {SMALL} are free", answer.read().decode())
                self.assertEqual(llm_pd.generate(url, "a", TOKENS)["tokens"], alone("a"))


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in FAULTS:
        FAULTS[sys.argv[1]]()
        sys.exit(llm_pd.main(*sys.argv[2:]))
    unittest.main(verbosity=2)
