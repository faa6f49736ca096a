# SPDX-License-Identifier: BSD-3-Clause
"""morikv.vllm between engines of unequal TP, with a model of four groups of KV caches: full
attention and sliding windows that share memory, states of Mamba2, latents. Every byte.

vLLM is replaced as in py_vllm.py. The test computes each place from the numbers of the whole
model, token by token, and not from libmorikv's layout.
"""

from __future__ import annotations

import ctypes
import functools
import random
import time
import types
import unittest
from unittest import mock

import vllm_names
from vllm_names import FullAttentionSpec, MambaSpec, MLAAttentionSpec, SlidingWindowSpec
from vllm_names import Tensor, UniformTypeKVCacheSpecs

vllm_names.install()

from morikv.vllm import MorikvConnector  # noqa: E402
from morikv.vllm.caches import Group, backoff, data_types, groups_of  # noqa: E402
from morikv.vllm.orders import PULL, PUSH, Load, Orders, Step  # noqa: E402
from morikv.vllm.scheduler import Scheduler  # noqa: E402
from morikv.vllm.sides import Progress  # noqa: E402

LIMIT_S = 600
BLOCKS, BLOCK_TOKENS, HEADS, HEAD_BYTES, LATENT = 16, 4, 2, 16, 24
WINDOW = 5
#: Channels of a convolution by projection, and its rows; heads of a state and their numbers.
PROJECTIONS, ROWS, STATE_HEADS, STATE = (16, 8, 8), 3, 4, (4, 2)
FULL, WINDOWS, STATES, LATENTS = range(4)
LAYERS = {FULL: ["f0", "f1"], WINDOWS: ["w0", "w1"], STATES: ["s0"], LATENTS: ["l0"]}
TOTAL = 14  # tokens

#: Blocks of the request: the window's first ones have been released (block 0 is unused).
HERE = {FULL: [3, 9, 4, 5], WINDOWS: [0, 0, 2, 8], LATENTS: [10, 11, 12, 13]}
STATES_HERE = [6, 1, 1]  # and scratch of speculation
#: Decode has the first block already.
THERE = {FULL: [11, 2, 7], WINDOWS: [1, 14], STATES: [5], LATENTS: [3, 4, 15]}


def data(*what):
    """Bytes that are in no other place."""
    size = what[-1]
    return random.Random(repr(what)).randbytes(size)


def share(count, rank, size):
    """Share of a rank in so many elements; with more ranks, neighbours have the same one."""
    if size > count:
        return [rank * count // size]
    return range(rank * count // size, (rank + 1) * count // size)


def specs(size):
    heads = max(1, STATE_HEADS // size)
    channels = sum(PROJECTIONS) // size
    shapes = ((channels, ROWS), (heads, *STATE))
    if not vllm_names.layout.is_dim_first:
        shapes = ((ROWS, channels), (heads, *STATE))
    dtypes = (types.SimpleNamespace(itemsize=2), types.SimpleNamespace(itemsize=4))
    kind = types.SimpleNamespace(name="MAMBA2")
    page = channels * ROWS * 2 + heads * STATE[0] * STATE[1] * 4 + 40  # padded
    return {
        FULL: FullAttentionSpec(BLOCK_TOKENS),
        WINDOWS: SlidingWindowSpec(BLOCK_TOKENS, sliding_window=WINDOW),
        STATES: MambaSpec(64, 0, shapes, dtypes, page, kind, num_speculative_blocks=2),
        LATENTS: MLAAttentionSpec(BLOCK_TOKENS),
    }


def cache_config(size):
    return vllm_names.cache_config(
        BLOCKS, [(spec, LAYERS[group]) for group, spec in specs(size).items()]
    )


class Rank:
    """A worker and its memory."""

    def __init__(self, name, rank, size, **extra):
        self.rank, self.size = rank, size
        self.heads = share(HEADS, rank, size)
        self.page = len(self.heads) * BLOCK_TOKENS * HEAD_BYTES
        self.state_page = specs(size)[STATES].page_size_bytes + 24
        pool = [vllm_names.memory(BLOCKS * self.page) for _ in LAYERS[FULL]]
        self.memory = dict(zip(LAYERS[FULL], pool)) | dict(zip(LAYERS[WINDOWS], pool))
        self.memory["s0"] = vllm_names.memory(BLOCKS * self.state_page)
        self.memory["l0"] = vllm_names.memory(BLOCKS * BLOCK_TOKENS * LATENT)
        shape = (BLOCKS, len(self.heads), BLOCK_TOKENS, HEAD_BYTES // 4)
        n, c = BLOCK_TOKENS, HEAD_BYTES // 4
        heads_first = (self.page // 4, n * c, c, 1)
        tokens_first = (self.page // 4, c, len(self.heads) * c, 1)
        caches = {name: self._tensor(name, shape, heads_first) for name in LAYERS[FULL]}
        caches |= {name: self._tensor(name, shape, tokens_first) for name in LAYERS[WINDOWS]}
        shape = (BLOCKS, 1, 1, self.state_page - 24)  # and a gap
        caches["s0"] = self._tensor("s0", shape, (self.state_page, 1, 1, 1), 1)
        caches["l0"] = self._tensor("l0", (BLOCKS, 1, BLOCK_TOKENS, LATENT), None, 1)
        self.caches = caches
        config = vllm_names.config(name, HEADS, rank, size, **extra)
        role = vllm_names.KVConnectorRole.WORKER
        self.connector = MorikvConnector(config, role, cache_config(size))
        self.worker = self.connector._worker
        self.worker.register(caches)

    def _tensor(self, name, shape, strides, itemsize=4):
        return Tensor(ctypes.addressof(self.memory[name]), shape, strides, itemsize)

    def pieces(self, group, layer, position, block, seed):
        """Places of a block's bytes, and the bytes."""
        name = LAYERS[group][layer]
        tokens = range(position * BLOCK_TOKENS, (position + 1) * BLOCK_TOKENS)
        if group == STATES:
            yield from self._state(name, block, seed)
        elif group == LATENTS:
            for t, token in enumerate(tokens):
                at = (block * BLOCK_TOKENS + t) * LATENT
                yield name, at, data(seed, name, token, LATENT)
        else:
            for h, head in enumerate(self.heads):
                for t, token in enumerate(tokens):
                    at = t * len(self.heads) + h if group == WINDOWS else h * BLOCK_TOKENS + t
                    at = block * self.page + at * HEAD_BYTES
                    yield name, at, data(seed, name, head, token, HEAD_BYTES)

    def _state(self, name, block, seed):
        at = block * self.state_page
        mine = [(i, c) for i, n in enumerate(PROJECTIONS) for c in share(n, self.rank, self.size)]
        for row in range(ROWS):
            for i, channel in enumerate(mine):
                place = row * len(mine) + i
                if vllm_names.layout.is_dim_first:
                    place = i * ROWS + row
                yield name, at + place * 2, data(seed, name, channel, row, 2)
        at += len(mine) * ROWS * 2
        size = STATE[0] * STATE[1] * 4
        for i, head in enumerate(share(STATE_HEADS, self.rank, self.size)):
            yield name, at + i * size, data(seed, name, head, size)

    def fill(self, group, layer, position, block, seed=0):
        for name, at, value in self.pieces(group, layer, position, block, seed):
            ctypes.memmove(ctypes.addressof(self.memory[name]) + at, value, len(value))

    def step(self, new, tokens, positions, is_fresh=False, seed=0):
        """Run a forward: these blocks of each layer are computed, and then reported."""
        self.worker.begin(Orders(steps={"p": Step(7, new, is_fresh, tokens, TOTAL)}))
        if tokens == TOTAL:
            self.fill(STATES, 0, 3, STATES_HERE[0], seed)
        for group in (FULL, WINDOWS, LATENTS):
            for layer, name in enumerate(LAYERS[group]):
                for position in positions:
                    if HERE[group][position] != 0:
                        self.fill(group, layer, position, HERE[group][position], seed)
                self.worker.on_layer(name, self.caches[name])
        self.worker.on_step_end()

    def chunk(self, low, high, seed=0):
        """The forward of these tokens."""
        first, last = -(-low // BLOCK_TOKENS), -(-high // BLOCK_TOKENS)
        new = {group: blocks[first:last] for group, blocks in HERE.items()}
        new[STATES] = STATES_HERE if low == 0 else []
        self.step(new, high, range(low // BLOCK_TOKENS, last), low == 0, seed)

    def holds(self, group, position, seed=0):
        """Whether a block has come, in all layers."""
        block = THERE[group][position - 4]
        return all(
            self.memory[name].raw[at : at + len(value)] == value
            for layer in range(len(LAYERS[group]))
            for name, at, value in self.pieces(group, layer, position, block, seed)
        )

    def expected(self, seed=0):
        """Check all of the memory: the request has come, and nothing else has changed."""
        result = {id(memory): bytearray(len(memory)) for memory in self.memory.values()}
        for group, blocks in THERE.items():
            for layer in range(len(LAYERS[group])):
                for i, block in enumerate(blocks):
                    position = 4 - len(blocks) + i
                    for name, at, value in self.pieces(group, layer, position, block, seed):
                        result[id(self.memory[name])][at : at + len(value)] = value
        return result

    def is_right(self, seed=0):
        expected = self.expected(seed)
        return all(memory.raw == expected[id(memory)] for memory in self.memory.values())


def wait_for(condition):
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {LIMIT_S} s")
        time.sleep(0.001)  # a poll: the worker's thread gets the event


def results(worker, kind, request_id):
    """Wait until the engine gets the result. :return: whether it has failed."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        told = worker.take_results()
        if request_id in told[kind]:
            return request_id in told[2]
        time.sleep(0.001)  # a poll, as an engine does in each step
    raise AssertionError(f"not within {LIMIT_S} s")


SENT, RECEIVED = 0, 1


class Engines(unittest.TestCase):
    def start(self, prefill, decode, **extra):
        self.p = [Rank("p", rank, prefill, **extra) for rank in range(prefill)]
        self.d = [Rank("d", rank, decode) for rank in range(decode)]
        for rank in self.p + self.d:
            self.addCleanup(rank.worker.close)

    def load(self, mode):
        peers = [rank.worker.blob() for rank in self.p]
        for rank in self.d:
            rank.worker.begin(Orders(loads={"d": Load(7, peers, mode, THERE)}))

    def step(self, new, tokens, positions, is_fresh=False):
        for rank in self.p:
            rank.step(new, tokens, positions, is_fresh)

    def compute(self):
        """Compute chunks of 6, 5 and 3 tokens."""
        for low, high in ((0, 6), (6, 11), (11, TOTAL)):
            for rank in self.p:
                rank.chunk(low, high)

    def prefill(self):
        self.compute()
        for rank in self.p:
            rank.worker.begin(Orders(ended={"p": True}))

    def finish(self):
        for rank in self.d:
            self.assertFalse(results(rank.worker, RECEIVED, "d"))
        for rank in self.p:
            self.assertFalse(results(rank.worker, SENT, "p"))
        for rank in self.d:
            self.assertTrue(rank.is_right(), rank.rank)
            self.assertFalse(rank.is_right(seed=1), rank.rank)

    def move(self, prefill, decode, mode, is_early=False):
        self.start(prefill, decode)
        self.assertFalse(any(rank.is_right() for rank in self.d))
        if is_early:
            self.load(mode)
        self.prefill()
        if not is_early:
            self.load(mode)
        self.finish()

    def test_all_groups_are_read(self):
        self.move(1, 1, PULL)

    def test_all_groups_are_written_to_a_waiting_reader(self):
        self.move(1, 1, PUSH, is_early=True)

    def test_all_groups_are_written_to_a_late_reader(self):
        self.move(1, 1, PUSH)

    def test_groups_without_a_layer_wait_for_the_step(self):
        is_done, gates = [], []

        def gate(_cache):
            gates.append(mock.Mock(side_effect=lambda: bool(is_done)))
            return gates[-1]

        self.start(1, 1)
        self.load(PUSH)
        low = {group: blocks[:2] for group, blocks in HERE.items()} | {STATES: STATES_HERE}
        high = {group: blocks[2:] for group, blocks in HERE.items()} | {STATES: []}
        with mock.patch("morikv.vllm.worker._gate_of", gate):
            self.step(low, 6, (0, 1), True)
            source = self.p[0].worker._sources["p"]
            wait_for(lambda: any(reader._remote for reader in source.readers))
            self.step(high, TOTAL, (1, 2, 3))
        self.p[0].worker.begin(Orders(ended={"p": True}))
        self.assertFalse(self.d[0].is_right())
        is_done.append(True)
        self.finish()
        self.assertTrue(gates[-1].called)

    def come_while_it_is_computed(self, mode):
        """A reader arrives after all layers were launched and before one is computed."""
        is_done = []
        gate = mock.Mock(side_effect=lambda: bool(is_done))
        self.start(1, 1)
        with mock.patch("morikv.vllm.worker._gate_of", lambda _cache: gate):
            self.prefill()
        self.assertFalse(gate.called)
        self.load(mode)
        wait_for(lambda: gate.called)
        with self.p[0].worker._lock:
            (reader,) = self.p[0].worker._sources["p"].readers
            self.assertEqual(reader.is_waiting, mode == PULL)
            self.assertEqual(reader.transfer.query().bytes, 0)
        is_done.append(True)
        self.finish()

    def test_an_early_request_is_written_after_the_step(self):
        self.come_while_it_is_computed(PUSH)

    def test_an_early_request_reads_after_the_step(self):
        self.come_while_it_is_computed(PULL)

    def test_as_many_ranks_read_each_its_own(self):
        self.move(2, 2, PULL)
        self.assertEqual([len(rank.worker._context.peers()) for rank in self.p], [1, 1])

    def test_one_rank_reads_two(self):
        self.move(2, 1, PULL)

    def test_one_rank_reads_four_of_which_pairs_hold_the_same_heads(self):
        self.move(4, 1, PULL)

    def test_four_ranks_read_one(self):
        self.move(1, 4, PULL)

    def test_two_ranks_are_written_by_four(self):
        self.move(4, 2, PUSH, is_early=True)

    def test_four_ranks_are_written_by_two(self):
        self.move(2, 4, PUSH, is_early=True)

    def test_states_with_channels_inside(self):
        self.addCleanup(setattr, vllm_names.layout, "is_dim_first", True)
        vllm_names.layout.is_dim_first = False
        self.move(2, 1, PULL)

    def test_a_rank_without_a_request_holds_no_blocks_for_ever(self):
        self.start(1, 2, lease_s=0)
        self.d.pop().worker.close()
        self.compute()
        self.load(PULL)
        source = self.p[0].worker._sources["p"]
        wait_for(lambda: source.readers)
        self.p[0].worker.begin(Orders(ended={"p": True}))  # it expires, and is read
        self.finish()
        self.assertEqual(self.p[0].worker.take_stats()["num_kv_expired_reqs"], [1])

    def test_vllm_reports_a_preemption_before_blocks_are_written(self):
        self.start(1, 0)
        self.compute()
        orders = Orders(preempted=["p"])
        self.p[0].connector.handle_preemptions(orders)
        self.assertEqual(self.p[0].worker._sources, {})

    def test_an_abort_of_decode_frees_all_ranks(self):
        self.start(2, 1)
        self.load(PUSH)
        new = {group: blocks[:2] for group, blocks in HERE.items()} | {STATES: STATES_HERE}
        self.step(new, 6, (0, 1), True)
        self.d[0].worker.begin(Orders(aborts=["d"]))
        self.assertTrue(results(self.d[0].worker, RECEIVED, "d"))
        for rank in self.p:
            rank.worker.begin(Orders(ended={"p": False}))
            results(rank.worker, SENT, "p")

    def test_maps_of_all_sources_hold_each_byte_once(self):
        self.move(4, 1, PULL)
        worker = self.d[0].worker
        maps = [map.query() for map in worker._maps.values()]
        for group in LAYERS:
            held = sum(map[group].bytes_per_unit for map in maps)
            self.assertEqual({held}, {map[group].dst_bytes_per_unit for map in maps}, group)
        self.assertEqual({map[FULL].num_sources for map in maps}, {2})
        self.assertEqual([map[LATENTS].num_pairs > 0 for map in maps].count(True), 1)

    def test_a_second_engine_is_refused(self):
        self.start(1, 1)
        self.load(PUSH)
        new = {group: blocks[:2] for group, blocks in HERE.items()} | {STATES: STATES_HERE}
        self.step(new, 6, (0, 1), True)
        source = self.p[0].worker._sources["p"]
        wait_for(lambda: source.readers)
        self.d.append(Rank("e", 0, 1))
        self.addCleanup(self.d[1].worker.close)
        peers = [self.p[0].worker.blob()]
        self.d[1].worker.begin(Orders(loads={"e": Load(7, peers, PUSH, THERE)}))
        self.assertTrue(results(self.d[1].worker, RECEIVED, "e"))

    def refusal(self, name, value):
        """:return: the text of decode's engine, which has another value of a global name."""
        self.start(1, 0)
        with mock.patch(f"{__name__}.{name}", value):
            self.d = [Rank("d", 0, 1)]
        self.addCleanup(self.d[0].worker.close)
        there = {group: blocks[:2] for group, blocks in THERE.items()}
        peers = [self.p[0].worker.blob()]
        with self.assertLogs("vllm.morikv", "WARNING") as logs:
            self.d[0].worker.begin(Orders(loads={"d": Load(7, peers, PUSH, there)}))
            self.assertTrue(results(self.d[0].worker, RECEIVED, "d"))
        return logs.output[0]

    def test_blocks_of_other_sizes_are_refused(self):
        self.assertIn("tokens per page", self.refusal("BLOCK_TOKENS", 2 * BLOCK_TOKENS))

    def test_numbers_of_other_types_are_refused(self):
        of_ints = functools.partial(MLAAttentionSpec, dtype="torch.int32")
        text = self.refusal("MLAAttentionSpec", of_ints)
        self.assertRegex(text, "data type is .* there")
        self.assertRegex(text, "torch.int32 in group .*; .*--kv-cache-dtype.* --mamba-ssm-cache-dtype")

    def test_engines_of_other_models_do_not_meet(self):
        layers, LAYERS[LATENTS] = LAYERS[LATENTS], ["l0", "l0"]
        self.addCleanup(LAYERS.__setitem__, LATENTS, layers)
        self.start(1, 0)
        LAYERS[LATENTS] = layers
        self.d = [Rank("d", 0, 1)]
        self.addCleanup(self.d[0].worker.close)
        self.prefill()
        self.load(PULL)
        self.assertTrue(results(self.d[0].worker, RECEIVED, "d"))


class Schedulers(unittest.TestCase):
    def setUp(self):
        self.groups = groups_of(cache_config(1))
        self.scheduler = Scheduler(self.groups, {})
        self.scheduler.peers = ["ab"]

    def request(self, name, prompt, **params):
        tokens = list(range(prompt))
        return types.SimpleNamespace(
            request_id=name,
            num_prompt_tokens=prompt,
            prompt_token_ids=tokens,
            _all_token_ids=list(tokens),
            max_tokens=16,
            kv_transfer_params=params,
            status=vllm_names.RequestStatus.FINISHED_LENGTH_CAPPED,
        )

    def test_prefill_leaves_the_last_token_to_decode_once(self):
        asked = self.request("p", 15, do_remote_decode=True, id=5)
        for _ in range(2):
            self.scheduler.on_new_request(asked)
        self.assertEqual(asked.num_prompt_tokens, TOTAL)
        self.assertEqual(asked.prompt_token_ids, list(range(TOTAL)))
        self.assertEqual(asked._all_token_ids, list(range(TOTAL)))

    def test_prefill_generates_one_token(self):
        sent = self.request("p", 15, do_remote_decode=True, id=5)
        read = self.request("d", 15, do_remote_prefill=True, id=5, peers=["cd"])
        for asked in (sent, read):
            self.scheduler.on_new_request(asked)
        self.assertEqual((sent.max_tokens, read.max_tokens), (1, 16))

    def test_a_model_of_full_attention_is_prefilled_whole(self):
        self.assertEqual(backoff(self.groups[:1] + self.groups[3:]), 0)

    def test_decode_requests_windows_and_states(self):
        asked = self.request("d", 16, do_remote_prefill=True, id=5, peers=["cd"])
        self.scheduler.on_new_request(asked)
        self.assertEqual(self.scheduler.num_remote_tokens(asked, 4), (11, True))
        blocks = ([8, *THERE[FULL]], [0, 0, *THERE[WINDOWS]], [5, 1, 1], [9, *THERE[LATENTS]])
        self.scheduler.on_blocks(asked, blocks, 11)
        self.assertEqual(self.scheduler._orders.loads, {"d": Load(5, ["cd"], PULL, THERE)})

    def test_a_window_begins_where_the_next_token_looks(self):
        group = Group(0, "window", 4, (), window=5)
        spans = [group.span(total) for total in (1, 4, 7, 8, 11, 12)]
        self.assertEqual([span.start for span in spans], [0, 0, 0, 1, 1, 2])
        self.assertEqual([span.stop for span in spans], [1, 1, 2, 2, 3, 3])

    def test_other_kinds_of_caches_are_refused(self):
        spec = vllm_names.ChunkedLocalAttentionSpec(4)
        with self.assertRaisesRegex(NotImplementedError, "ChunkedLocalAttentionSpec"):
            groups_of(vllm_names.cache_config(BLOCKS, [(spec, ["c0"])]))
        spec = MambaSpec(64, mamba_cache_mode="align")
        with self.assertRaisesRegex(NotImplementedError, "--no-enable-prefix-caching"):
            groups_of(vllm_names.cache_config(BLOCKS, [(spec, ["s0"])]))

    def types(self, cache_dtype, *specs):
        groups = [(spec, [f"l{number}"]) for number, spec in enumerate(specs)]
        return data_types(vllm_names.cache_config(BLOCKS, groups), cache_dtype)

    def test_settings_of_one_data_type_are_equal(self):
        halves = FullAttentionSpec(4, dtype="torch.float16")
        for name in ("auto", "half", "float16"):
            self.assertEqual(self.types(name, halves), "torch.float16 in group 0")
        for name in ("auto", "fp8", "fp8_e4m3"):
            fp8 = FullAttentionSpec(4, dtype="torch.uint8", kv_quant_mode=1)
            self.assertEqual(self.types(name, fp8), "fp8_e4m3 in group 0")
        many = UniformTypeKVCacheSpecs(4, kv_cache_specs={"l0": halves})
        self.assertEqual(self.types("auto", many), "torch.float16 in group 0")

    def test_formats_of_bytes_differ(self):
        fp8 = FullAttentionSpec(4, dtype="torch.uint8", kv_quant_mode=1)
        self.assertEqual(self.types("fp8_e5m2", fp8), "fp8_e5m2 in group 0")
        latents = MLAAttentionSpec(4, 0, "torch.uint8", 1, "fp8_ds_mla")
        self.assertEqual(self.types("fp8", latents), "fp8_ds_mla in group 0")
        with mock.patch.object(vllm_names.platform, "is_fp8_fnuz", lambda: True):
            self.assertEqual(self.types("fp8", fp8), "fp8_e4m3fnuz in group 0")
            int8 = self.types("int8_per_token_head", fp8)
            self.assertEqual(int8, "int8_per_token_head in group 0")

    def test_bytes_of_an_indexer_have_the_fp8_of_their_gpu(self):
        for dtype in ("torch.uint8", "torch.float8_e4m3fn", "torch.float16"):
            cache = MLAAttentionSpec(4, dtype=dtype)
            here = self.types("auto", cache)
            with mock.patch.object(vllm_names.platform, "is_fp8_fnuz", lambda: True):
                there = self.types("auto", cache)
            self.assertEqual(here == there, dtype == "torch.float16")

    def test_layers_and_parts_of_a_state_have_a_type_each(self):
        one, other = "torch.bfloat16", "torch.float16"
        orders = {
            self.types("auto", FullAttentionSpec(4, dtype=dtype), MambaSpec(4, dtypes=parts))
            for dtype in (one, other)
            for parts in ((one, other), (other, one), (one, one), (other, other))
        }
        self.assertEqual(len(orders), 8)

    def test_no_block_in_front_of_a_window_is_shown(self):
        progress = Progress(self.groups[WINDOWS], Step(7, HERE, True, TOTAL, TOTAL))
        self.assertEqual(progress.last, [2, 8])


if __name__ == "__main__":
    unittest.main(verbosity=2)
