# SPDX-License-Identifier: BSD-3-Clause
"""A KV connector for vLLM: ``kv_connector_module_path`` is ``morikv.vllm``.

    vllm serve MODEL --kv-transfer-config '{"kv_connector": "MorikvConnector",
        "kv_connector_module_path": "morikv.vllm", "kv_role": "kv_producer"}'

Prefill's answer has the ``kv_transfer_params`` for decode, which then pulls. In push mode
(``kv_connector_extra_config`` of prefill has ``push``) both get a request at once, under one
``id``, and prefill writes layer by layer. docs/vllm.md describes both, and the limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorRole,
    KVConnectorTransferResults,
    SupportsHMA,
)
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.stats import (
    NixlKVConnectorStats,
    NixlPromMetrics,
)

from .caches import groups_of
from .orders import Orders, Place
from .scheduler import Scheduler
from .worker import Worker

if TYPE_CHECKING:
    import torch

__all__ = ["MorikvConnector"]


class MorikvConnector(KVConnectorBase_V1, SupportsHMA):
    """Moves blocks of requests between engines; blocks are freed when libmorikv reports quiet."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        extra = self._kv_transfer_config.kv_connector_extra_config
        if role == KVConnectorRole.SCHEDULER:
            self._scheduler = Scheduler(groups_of(kv_cache_config), extra)
        else:
            self._worker = Worker(vllm_config, kv_cache_config, extra)

    # ---- scheduler ----

    def set_xfer_handshake_metadata(
        self, metadata: dict[int, KVConnectorHandshakeMetadata]
    ) -> None:
        places = cast("dict[int, Place]", metadata)  # result of get_handshake_metadata()
        self._scheduler.peers = [places[rank].blob for rank in sorted(places)]

    def on_new_request(self, request: Any) -> None:
        self._scheduler.on_new_request(request)

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int, bool]:
        return self._scheduler.num_remote_tokens(request, num_computed_tokens)

    def update_state_after_alloc(
        self, request: Any, blocks: Any, num_external_tokens: int
    ) -> None:
        self._scheduler.on_blocks(request, blocks.get_block_ids(), num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> Orders:
        return self._scheduler.take_orders(scheduler_output)

    def update_connector_output(self, connector_output: Any) -> None:
        self._scheduler.on_received(connector_output.finished_recving or ())
        self._scheduler.on_sent(connector_output.finished_sending or ())

    def request_finished(
        self, request: Any, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self._scheduler.on_finished(request, (block_ids,))

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self._scheduler.on_finished(request, block_ids)

    # ---- worker ----

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        self._worker.register(kv_caches)

    def get_handshake_metadata(self) -> Place:
        return Place(self._worker.blob())

    def handle_preemptions(self, kv_connector_metadata: Any) -> None:
        self._worker.preempt(kv_connector_metadata)

    def bind_connector_metadata(self, connector_metadata: Any) -> None:
        super().bind_connector_metadata(connector_metadata)
        self._worker.begin(connector_metadata)

    def start_load_kv(self, forward_context: Any, **_kwargs: Any) -> None:
        """Loads were begun by :meth:`bind_connector_metadata`; they are asynchronous."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Requests are scheduled when all of their layers are there."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any, **_kwargs: Any
    ) -> None:
        self._worker.on_layer(layer_name, kv_layer)

    def wait_for_save(self) -> None:
        self._worker.on_step_end()

    def get_transfer_results(self, finished_req_ids: set[str]) -> KVConnectorTransferResults:
        sent, received, failed = self._worker.take_results()
        return KVConnectorTransferResults(sent, received, failed)

    def get_kv_connector_stats(self) -> NixlKVConnectorStats | None:
        if self._role == KVConnectorRole.SCHEDULER:
            return None
        data = self._worker.take_stats()
        return NixlKVConnectorStats(data=data) if any(data.values()) else None

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> Any:
        return NixlKVConnectorStats(data=data) if data is not None else NixlKVConnectorStats()

    @classmethod
    def build_prom_metrics(cls, *args: Any) -> NixlPromMetrics:
        """Metrics, under the names that dashboards for NixlConnector use."""
        return NixlPromMetrics(*args)

    def shutdown(self) -> None:
        if self._role == KVConnectorRole.WORKER:
            self._worker.close()
