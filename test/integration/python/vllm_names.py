# SPDX-License-Identifier: BSD-3-Clause
"""Names of vLLM for tests of morikv.vllm without it: empty names, vLLM's specifications of
caches, the base class of connectors, and tensors in host memory."""

from __future__ import annotations

import ctypes
import enum
import itertools
import math
import sys
import types
from dataclasses import dataclass, field
from typing import Any


class RequestStatus(enum.Enum):
    FINISHED_STOPPED = 1
    FINISHED_LENGTH_CAPPED = 2
    FINISHED_ABORTED = 3


@dataclass(frozen=True)
class _Spec:
    block_size: int
    prefix_replay_tokens: int = 0


@dataclass(frozen=True)
class _AttentionSpec(_Spec):
    dtype: str = "torch.float32"
    kv_quant_mode: int = 0
    """Of an enumeration; 0: none."""


@dataclass(frozen=True)
class FullAttentionSpec(_AttentionSpec):
    pass


@dataclass(frozen=True)
class MLAAttentionSpec(FullAttentionSpec):
    cache_dtype_str: str | None = None


@dataclass(frozen=True)
class SlidingWindowSpec(_AttentionSpec):
    sliding_window: int = 0


@dataclass(frozen=True)
class SlidingWindowMLASpec(SlidingWindowSpec):
    cache_dtype_str: str | None = None


@dataclass(frozen=True)
class ChunkedLocalAttentionSpec(_AttentionSpec):
    pass


@dataclass(frozen=True)
class MambaSpec(_Spec):
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[Any, ...] = ()
    page_size_bytes: int = 0
    mamba_type: Any = None
    mamba_cache_mode: str = "none"
    num_speculative_blocks: int = 0
    tp_replicated: bool = False


@dataclass(frozen=True)
class UniformTypeKVCacheSpecs(_Spec):
    kv_cache_specs: dict[str, Any] = field(default_factory=dict)


_SPECS = (FullAttentionSpec, MLAAttentionSpec, SlidingWindowSpec, SlidingWindowMLASpec)
_SPECS += (MambaSpec, UniformTypeKVCacheSpecs)


class KVConnectorRole(enum.Enum):
    SCHEDULER = 0
    WORKER = 1


class KVConnectorBase_V1:
    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        self._kv_transfer_config = vllm_config.kv_transfer_config
        self._role = role

    def bind_connector_metadata(self, connector_metadata: Any) -> None:
        pass

    def handle_preemptions(self, kv_connector_metadata: Any) -> None:
        pass

    def get_block_ids_with_load_errors(self) -> set[int]:
        return set()


@dataclass
class KVConnectorTransferResults:
    finished_sending: set[str]
    finished_recving: set[str]
    failed_recving: set[str]


_V1 = "vllm.distributed.kv_transfer.kv_connector.v1"
_BASE = (KVConnectorBase_V1, KVConnectorRole, KVConnectorTransferResults)
_NAMES = ("KVConnectorHandshakeMetadata", "KVConnectorMetadata", "SupportsHMA")

#: Whether channels are the outer dimension of a convolution's state, as vLLM is configured.
layout = types.SimpleNamespace(is_dim_first=True)
platform = types.SimpleNamespace(is_fp8_fnuz=lambda: False)


def _stand_in(path: str, **names: Any) -> None:
    for end in itertools.accumulate(path.split("."), lambda head, tail: f"{head}.{tail}"):
        sys.modules.setdefault(end, types.ModuleType(end))
    vars(sys.modules[path]).update(names)


def install() -> None:
    _stand_in(f"{_V1}.base", **{name: type(name, (), {}) for name in _NAMES})
    _stand_in(f"{_V1}.base", **{base.__name__: base for base in _BASE})
    _stand_in(f"{_V1}.nixl.stats", NixlKVConnectorStats=object, NixlPromMetrics=object)
    _stand_in("vllm.platforms", current_platform=platform)
    _stand_in("vllm.v1.request", RequestStatus=RequestStatus)
    _stand_in("vllm.v1.kv_cache_interface", **{spec.__name__: spec for spec in _SPECS})
    _stand_in(
        "vllm.model_executor.layers.mamba.mamba_utils",
        is_conv_state_dim_first=lambda: layout.is_dim_first,
    )


def cache_config(num_blocks: int, groups: list[tuple[Any, list[str]]]) -> Any:
    """KVCacheConfig, of specifications and the names of their layers."""
    return types.SimpleNamespace(
        num_blocks=num_blocks,
        kv_cache_groups=[
            types.SimpleNamespace(
                kv_cache_spec=spec,
                layer_names=names,
                enable_kv_transfer=True,
                host_resident=False,
            )
            for spec, names in groups
        ],
    )


def config(engine: str, heads: int, rank: int = 0, size: int = 1, **extra: Any) -> Any:
    """VllmConfig."""
    return types.SimpleNamespace(
        parallel_config=types.SimpleNamespace(
            rank=rank,
            tensor_parallel_size=size,
            pipeline_parallel_size=1,
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
        ),
        kv_transfer_config=types.SimpleNamespace(
            engine_id=engine, kv_connector_extra_config=extra
        ),
        model_config=types.SimpleNamespace(get_total_num_kv_heads=lambda: heads),
        cache_config=types.SimpleNamespace(cache_dtype="auto"),
    )


class Tensor:
    """The part of torch.Tensor that the worker uses, over host memory."""

    device = types.SimpleNamespace(type="cpu")

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        itemsize: int = 4,
    ) -> None:
        self.address, self.shape, self.itemsize = address, shape, itemsize
        dense = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        self.strides = strides or dense

    def data_ptr(self) -> int:
        return self.address

    def element_size(self) -> int:
        return self.itemsize

    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.itemsize * self.numel()

    def stride(self, dim: int | None = None) -> Any:
        return self.strides if dim is None else self.strides[dim]

    def __getitem__(self, index: int) -> Tensor:
        address = self.address + index * self.strides[0] * self.itemsize
        return Tensor(address, self.shape[1:], self.strides[1:], self.itemsize)

    def new_empty(self, count: int) -> Tensor:
        return Tensor(self.address, (count,), itemsize=self.itemsize)

    def is_contiguous(self) -> bool:
        return True


def memory(size: int) -> Any:
    """Bytes, all zero."""
    return ctypes.create_string_buffer(size)
