# SPDX-License-Identifier: BSD-3-Clause
"""The names of mori.io for memory of a UALink fabric, with the results of a machine without one."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

logger = logging.getLogger(__name__)


def fabric_alloc(size: int, device: int) -> int:
    """:return: 0: nothing was allocated."""
    logger.warning("mori.io: fabric_alloc(%d, device %d): no fabric here", size, device)
    return 0


def fabric_free(ptr: int) -> None:
    """Harmless for the address 0 of :func:`fabric_alloc`."""
    if ptr != 0:
        logger.warning("mori.io: fabric_free(%#x): not allocated by fabric_alloc()", ptr)


def fabric_torch_allocator() -> Any:
    """:raises NotImplementedError: always."""
    raise NotImplementedError("no allocator of fabric memory; expected PyTorch's own")


def use_fabric_torch_allocator() -> None:
    """:raises NotImplementedError: always."""
    fabric_torch_allocator()


def make_fabric_mem_pool() -> Any:
    """:raises NotImplementedError: always."""
    return fabric_torch_allocator()


@contextlib.contextmanager
def fabric_mem_pool() -> Iterator[Any]:
    """:raises NotImplementedError: always."""
    yield make_fabric_mem_pool()
