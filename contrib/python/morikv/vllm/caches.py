# SPDX-License-Identifier: BSD-3-Clause
"""Caches of a model: groups of layers for the scheduler, regions of memory for the workers.

A group is a component of libmorikv, with block lists of its own. Groups may share memory: a
block of it belongs to one of them at a time.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vllm.model_executor.layers.mamba.mamba_utils import is_conv_state_dim_first
from vllm.platforms import current_platform
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)

from morikv import Axis

FULL, WINDOW, STATE = "full", "window", "state"
_KINDS = {
    FullAttentionSpec: FULL,
    MLAAttentionSpec: FULL,
    SlidingWindowSpec: WINDOW,
    SlidingWindowMLASpec: WINDOW,
    MambaSpec: STATE,
}

Blocks = dict[int, list[int]]
"""Of each group, by :attr:`Group.component`."""


@dataclass(frozen=True)
class Group:
    component: int
    """Its place among the model's groups, and in the engine's tuples of block lists."""
    kind: str
    block_size: int
    """Tokens."""
    layers: tuple[str, ...]
    window: int = 0
    """Tokens that a token sees, itself among them."""
    scratch: int = 0
    """Blocks of a request behind the one that has the state."""

    def span(self, total: int) -> range:
        """Blocks of a request that the token after the first ``total`` needs."""
        if self.kind == STATE:
            return range(min(total, 1))
        low = max(0, total + 1 - self.window) if self.kind == WINDOW else 0
        return range(low // self.block_size, -(-total // self.block_size))

    def state(self, blocks: Sequence[int]) -> list[int]:
        """Block of a request that holds its state."""
        kept = max(1, len(blocks) - self.scratch)
        return list(blocks[:kept][-1:])


def _spec(group: Any) -> Any:
    spec = group.kv_cache_spec
    return next(iter(spec.kv_cache_specs.values())) if _is_many(spec) else spec


def _is_many(spec: Any) -> bool:
    return isinstance(spec, UniformTypeKVCacheSpecs)


def groups_of(config: Any) -> list[Group]:
    """Groups of a KVCacheConfig that are moved. :raises NotImplementedError: unknown kind.
    """
    groups = []
    for component, group in enumerate(config.kv_cache_groups):
        if not group.enable_kv_transfer:
            continue
        spec = _spec(group)
        kind = _KINDS.get(type(spec))
        if kind is None or spec.prefix_replay_tokens > 0 or group.host_resident:
            raise NotImplementedError(
                f"group {component} of KV caches: {type(spec).__name__}; MorikvConnector "
                "moves full attention, sliding windows and states"
            )
        if kind == STATE and spec.mamba_cache_mode != "none":
            raise NotImplementedError(
                f"group {component} of KV caches: states at '{spec.mamba_cache_mode}' "
                "positions; MorikvConnector moves the last one: --no-enable-prefix-caching"
            )
        groups.append(
            Group(
                component,
                kind,
                group.kv_cache_spec.block_size,
                tuple(group.layer_names),
                window=spec.sliding_window if kind == WINDOW else 0,
                scratch=spec.num_speculative_blocks if kind == STATE else 0,
            )
        )
    return groups


def backoff(groups: Iterable[Group]) -> int:
    """Tokens at the end of a prompt that decode computes, and prefill does not. Decode always
    computes the last one; windows and states are those before that token."""
    return int(any(group.kind != FULL for group in groups))


def fingerprint(groups: Iterable[Group]) -> int:
    """Text that differs where layers of two engines would not pair."""
    layers = [(group.component, group.kind, group.window, group.layers) for group in groups]
    return 1 << 32 | zlib.crc32(repr(layers).encode())


def data_types(config: Any, cache_dtype: str) -> str:
    """Types of the numbers in each group of a KVCacheConfig that is moved; of a state, in the
    order of its parts.

    :param cache_dtype: vLLM's resolved setting. Layers with a format of bytes have it, and their
        specifications do not name it.
    """
    found = {
        (component, "+".join(map(_with_format, _types_of(spec, cache_dtype))))
        for component, group in enumerate(config.kv_cache_groups)
        if group.enable_kv_transfer
        for spec in _layers_of(group).values()
    }
    return ", ".join(f"{types} in group {component}" for component, types in sorted(found))


def _types_of(spec: Any, cache_dtype: str) -> list[str]:
    if isinstance(spec, MambaSpec):
        return [str(dtype) for dtype in spec.dtypes]
    if not spec.kv_quant_mode:
        return [str(spec.dtype)]
    name = getattr(spec, "cache_dtype_str", None) or cache_dtype
    if name in ("auto", "fp8"):  # a checkpoint's FP8, and vLLM's short name
        name = "fp8_e4m3"
    return [name]


def _with_format(name: str) -> str:
    """vLLM also has FP8 in caches of plain bytes, such as an indexer's."""
    is_fp8 = name.startswith(("fp8", "torch.float8", "torch.uint8"))
    return f"{name}fnuz" if is_fp8 and current_platform.is_fp8_fnuz() else name


def _layers_of(group: Any) -> dict[str, Any]:
    """Specification of each layer."""
    spec, names = group.kv_cache_spec, group.layer_names
    return {name: spec.kv_cache_specs[name] if _is_many(spec) else spec for name in names}


@dataclass(frozen=True)
class Part:
    """A region of a layer: the part of each block that is moved."""

    offset: int
    """From the layer's first byte."""
    unit_bytes: int
    unit_stride: int
    tokens: int
    axis: Axis | None


class Layout:
    """Regions of a worker.

    :param num_blocks: of the pool that all groups share.
    :param heads: of keys and values, over all ranks.
    """

    def __init__(self, config: Any, num_blocks: int, heads: int, rank: int, size: int) -> None:
        self._num_blocks, self._heads = num_blocks, heads
        self._rank, self._size = rank, size
        self._specs: dict[str, Any] = {}
        for group in config.kv_cache_groups:
            self._specs |= _layers_of(group)

    def parts(self, name: str, cache: Any) -> list[Part]:
        """:raises NotImplementedError: the cache is not made of dense blocks."""
        spec = self._specs[name]
        if isinstance(spec, MambaSpec):
            return list(self._states(spec, cache))
        return [self._attention(name, spec, cache)]

    def _attention(self, name: str, spec: Any, cache: Any) -> Part:
        """A cache's dimensions are blocks, heads, tokens, bytes of both keys and values."""
        block, rest = cache[0], cache.shape[0] % self._num_blocks
        parts = cache.shape[0] // self._num_blocks  # the kernel's blocks in one of vLLM's
        span = sum((size - 1) * step for size, step in zip(block.shape, block.stride())) + 1
        stride = cache.stride(0) * cache.element_size()
        if rest or span != block.numel() or (parts > 1 and stride != block.nbytes):
            raise NotImplementedError(
                f"{name}: a cache of {tuple(cache.shape)} with strides {cache.stride()}; "
                f"expected {self._num_blocks} dense blocks"
            )
        tokens, axis = self._heads_of(spec, cache, parts)
        return Part(0, block.nbytes * parts, stride * parts, tokens, axis)

    def _heads_of(self, spec: Any, cache: Any, parts: int) -> tuple[int, Axis | None]:
        """Tokens of a block, and the division of its heads among ranks."""
        if isinstance(spec, (MLAAttentionSpec, SlidingWindowMLASpec)):
            return spec.block_size, Axis(is_replicated=True)
        if len(cache.shape) != 4:
            return 0, None
        heads, tokens, numbers = cache.shape[1:]
        total = self._heads if max(1, self._heads // self._size) == heads else heads * self._size
        is_first = cache.stride(1) > cache.stride(2)
        axis = Axis(
            groups=(total,),
            inner_bytes=numbers * cache.element_size(),
            outer=parts if is_first else 1,
            is_first=is_first,
        )
        return (tokens if is_first else tokens * parts), axis

    def _states(self, spec: Any, cache: Any) -> Iterator[Part]:
        """A block has one state of each shape, one behind the other."""
        stride = spec.page_size_bytes
        if len(cache.shape) > 1:
            stride = cache.stride(0) * cache.element_size()
        offset = 0
        for index, (shape, dtype) in enumerate(zip(spec.shapes, spec.dtypes)):
            length = math.prod(shape) * dtype.itemsize
            axis = self._channels(spec, shape, dtype.itemsize) if index == 0 else None
            if index == 1:
                axis = Axis((shape[0] * self._size,), length // shape[0])
            if spec.tp_replicated:
                axis = Axis(is_replicated=True)
            yield Part(offset, length, stride, 0, axis)
            offset += length

    def _channels(self, spec: Any, shape: Sequence[int], itemsize: int) -> Axis | None:
        """Axis of a convolution: vLLM has several projections in one dimension."""
        if len(shape) != 2 or len(spec.shapes) != 2:
            return None
        is_first = is_conv_state_dim_first()
        channels, rows = shape if is_first else shape[::-1]
        values = math.prod(spec.shapes[1][:2])
        others = (channels - values) // 2
        kinds = {
            "MAMBA1": (channels,),
            "MAMBA2": (values, others, others),
            "GDN_ATTN": (others, others, values),
        }
        groups = kinds.get(spec.mamba_type.name)
        if groups is None or min(groups) <= 0 or sum(groups) != channels:
            return None
        every = tuple(size * self._size for size in groups)
        if is_first:
            return Axis(every, itemsize * rows)
        return Axis(every, itemsize, outer=rows)
