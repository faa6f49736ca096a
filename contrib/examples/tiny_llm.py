# SPDX-License-Identifier: BSD-3-Clause
"""A decoder-only transformer of 38 000 weights with its paged KV cache in a GPU's memory, for llm_pd.py.

Grouped-query attention, rotary positions, weights from a seed, greedy tokens; a token is a byte of
UTF-8. It is plain Python and computes on the host, but each key and value goes to the GPU when it
was computed, and comes back from there for attention: tokens depend on what the blocks hold.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import operator
import os
import random
from array import array

LAYERS = 3
HEADS = 4
KV_HEADS = 2  #: each serves HEADS / KV_HEADS of the queries
HEAD_DIM = 8
HIDDEN = HEADS * HEAD_DIM
INNER = 2 * HIDDEN
VOCABULARY = 256
KEYS, VALUES = PARTS = (0, 1)

BLOCK_TOKENS = 4
ENTRY_BYTES = KV_HEADS * HEAD_DIM * 4  #: keys or values of a token in a layer, of 4 bytes each
BLOCK_BYTES = BLOCK_TOKENS * ENTRY_BYTES


# ---- memory ----


class Gpu:
    """The first GPU that this process sees (HIP_VISIBLE_DEVICES), by the HIP runtime.

    Not for several threads: HIP's device is the calling thread's.
    """

    HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2

    def __init__(self):
        self.hip = self._runtime()
        self._call("hipSetDevice", 0)

    @staticmethod
    def _runtime():
        """The same that mori_xgmi takes."""
        named = os.environ.get("UCX_MORI_HIP_LIB")
        names = [named] if named else [f"libamdhip64.so.{major}" for major in (7, 6, 5)]
        errors = []
        for name in names:
            try:
                return ctypes.CDLL(name)
            except OSError as error:
                errors.append(str(error))
        raise OSError("no HIP runtime: " + "; ".join(errors))

    def _call(self, name, *arguments):
        status = getattr(self.hip, name)(*arguments)
        if status != 0:
            raise OSError(f"{name} failed: {status}")

    def allocate(self, size):
        """:return: the address of memory for the rest of the process' life."""
        pointer = ctypes.c_void_p()
        self._call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer.value

    def write(self, address, data):
        self._copy(ctypes.c_void_p(address), ctypes.c_char_p(data), len(data), self.HOST_TO_DEVICE)

    def read(self, address, size):
        buffer = ctypes.create_string_buffer(size)
        self._copy(buffer, ctypes.c_void_p(address), size, self.DEVICE_TO_HOST)
        return buffer.raw

    def _copy(self, dst, src, size, kind):
        self._call("hipMemcpy", dst, src, ctypes.c_size_t(size), kind)

    def synchronize(self):
        """Make written data visible to all readers: hipMemcpy may return earlier."""
        self._call("hipDeviceSynchronize")

    def bus_id(self):
        """PCI address on this host, as processes may number GPUs differently."""
        text = ctypes.create_string_buffer(64)
        self._call("hipDeviceGetPCIBusId", text, len(text), 0)
        return text.value.decode()


class PagedCache:
    """Blocks of all layers; the block table of a sequence is the list of its blocks' numbers.

    Keys and values of a layer are one allocation each, block after block.
    """

    def __init__(self, gpu, num_blocks, seed):
        self.gpu, self.num_blocks = gpu, num_blocks
        self.bases = {
            (layer, part): gpu.allocate(num_blocks * BLOCK_BYTES)
            for layer in range(LAYERS)
            for part in PARTS
        }
        # no two caches hand their blocks out in the same order, as after some requests
        self.free = random.Random(seed).sample(range(num_blocks), num_blocks)

    def allocate(self, num_tokens):
        """:return: a block table for so many tokens. MemoryError: there are too few free blocks."""
        count = blocks_of(num_tokens)
        if count > len(self.free):
            raise MemoryError(f"{count} blocks for {num_tokens} tokens, but {len(self.free)} are free")
        table, self.free = self.free[:count], self.free[count:]
        return table

    def release(self, table):
        self.free += table

    def write(self, layer, part, table, position, entry):
        block, slot = table[position // BLOCK_TOKENS], position % BLOCK_TOKENS
        address = self.bases[layer, part] + block * BLOCK_BYTES + slot * ENTRY_BYTES
        self.gpu.write(address, array("f", entry).tobytes())

    def read(self, layer, part, table, num_tokens):
        """:return: the entries of the first so many tokens."""
        base, numbers = self.bases[layer, part], array("f")
        for block in table[: blocks_of(num_tokens)]:
            numbers.frombytes(self.gpu.read(base + block * BLOCK_BYTES, BLOCK_BYTES))
        width = KV_HEADS * HEAD_DIM
        return [numbers[i * width : (i + 1) * width] for i in range(num_tokens)]


def blocks_of(num_tokens):
    return -(-num_tokens // BLOCK_TOKENS)


# ---- arithmetic: always in the same order, so that equal inputs give equal bits ----


def dot(a, b):
    return sum(map(operator.mul, a, b))


def times(matrix, vector):
    return [dot(row, vector) for row in matrix]


def plus(a, b):
    return list(map(operator.add, a, b))


def norm(vector):
    scale = 1 / math.sqrt(dot(vector, vector) / len(vector) + 1e-6)
    return [x * scale for x in vector]


@functools.cache
def angles(position):
    return [position / 100 ** (i / HEAD_DIM) for i in range(0, HEAD_DIM, 2)]


def rotate(vector, position):
    """Rotary positions: each pair of a head's numbers turns by an angle that grows with the position."""
    turned = []
    for i, angle in zip(range(0, len(vector), 2), itertools.cycle(angles(position))):
        sine, cosine = math.sin(angle), math.cos(angle)
        a, b = vector[i], vector[i + 1]
        turned += (a * cosine - b * sine, a * sine + b * cosine)
    return turned


def attend(query, keys, values):
    """Attention of one token to all that are given."""
    result = []
    for head in range(HEADS):
        own = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
        first = head * KV_HEADS // HEADS * HEAD_DIM
        shared = slice(first, first + HEAD_DIM)
        scores = [dot(query[own], key[shared]) / math.sqrt(HEAD_DIM) for key in keys]
        highest = max(scores)
        weights = [math.exp(score - highest) for score in scores]
        total = sum(weights)
        columns = zip(*(value[shared] for value in values))
        result += [dot(weights, column) / total for column in columns]
    return result


# ---- the model ----


class Layer:
    def __init__(self, matrix):
        self.queries = matrix(HIDDEN, HIDDEN)
        self.keys = matrix(KV_HEADS * HEAD_DIM, HIDDEN)
        self.values = matrix(KV_HEADS * HEAD_DIM, HIDDEN)
        self.out = matrix(HIDDEN, HIDDEN)
        self.up = matrix(INNER, HIDDEN)
        self.down = matrix(HIDDEN, INNER)

    def feed_forward(self, vector):
        return times(self.down, [max(x, 0.0) for x in times(self.up, norm(vector))])


class Model:
    """Equal seeds are equal models."""

    def __init__(self, seed=1):
        source = random.Random(seed)

        def matrix(rows, columns):
            # wide enough for attention to prefer some tokens, or no answer would depend on any
            width = 3 / math.sqrt(columns)
            return [[source.uniform(-width, width) for _ in range(columns)] for _ in range(rows)]

        self.embedding = matrix(VOCABULARY, HIDDEN)
        self.layers = [Layer(matrix) for _ in range(LAYERS)]
        self.head = matrix(VOCABULARY, HIDDEN)

    def forward(self, tokens, start, cache, table, computed=lambda layer: None):
        """The next token after these, which are at positions ``start`` and so on; the cache holds
        those before them, and on return these as well.

        :param computed: called when the cache holds keys and values of a layer.
        """
        hidden = [self.embedding[token] for token in tokens]
        for number, layer in enumerate(self.layers):
            for position, vector in enumerate(map(norm, hidden), start):
                cache.write(number, KEYS, table, position, times(layer.keys, vector))
                cache.write(number, VALUES, table, position, times(layer.values, vector))
            cache.gpu.synchronize()  # an engine has an event here, and a gate behind it
            computed(number)
            # Keys are rotated here and not in the cache. If the cache held rotated keys, swapped
            # entries would not change any token.
            keys = cache.read(number, KEYS, table, start + len(tokens))
            keys = [rotate(key, position) for position, key in enumerate(keys)]
            values = cache.read(number, VALUES, table, start + len(tokens))
            for i, vector in enumerate(hidden):
                end = start + i + 1
                query = rotate(times(layer.queries, norm(vector)), end - 1)
                vector = plus(vector, times(layer.out, attend(query, keys[:end], values[:end])))
                hidden[i] = plus(vector, layer.feed_forward(vector))
        scores = times(self.head, norm(hidden[-1]))
        return scores.index(max(scores))

    def decode(self, first, num_prompt, max_tokens, cache, table):
        """``max_tokens`` tokens, of which the first is known, behind a prompt that is in the cache."""
        made = [first]
        while len(made) < max_tokens:
            position = num_prompt + len(made) - 1
            made.append(self.forward(made[-1:], position, cache, table))
        return made

    def generate(self, tokens, max_tokens, cache):
        """Generate in one process: the expected answer."""
        table = cache.allocate(len(tokens) + max_tokens)
        first = self.forward(tokens, 0, cache, table)
        made = self.decode(first, len(tokens), max_tokens, cache, table)
        cache.release(table)
        return made
