# SPDX-License-Identifier: BSD-3-Clause
"""Transfers inside one engine: a second context of this process stands for the engine as its
own peer, because libmorikv connects contexts. It is made by the first such transfer, and
registers only the memory that transfers name as remote.
"""

from __future__ import annotations

import logging

from .. import errors
from ..context import Context, Peer, Region
from ..memory import Memory

logger = logging.getLogger(__name__)


class Mirror:
    """The hub's lock guards it."""

    def __init__(self, context: Context, mirror: Context) -> None:
        """:param mirror: is closed by :meth:`close`."""
        self._context = mirror
        self.peer: Peer = context.add_peer(mirror.blob())
        self._regions: dict[int, tuple[Region, int]] = {}

    def place(self, region: Region, allocation: Memory | None) -> tuple[int, int]:
        """Register the memory of an engine's region here as well, once.

        :return: number of the mirror's region, and the epoch that has it.
        :raises MorikvError: UCX cannot register it.
        """
        if region.id not in self._regions:
            layer = region.id + 1  # the names differ, and no map uses them
            added = self._context.add_region(
                region.memory, layer=layer, one_sided=True, allocation=allocation
            )
            try:
                self._regions[region.id] = added, self._context.commit()
            except Exception:
                self._context.drop_regions([added])
                raise
        added, epoch = self._regions[region.id]
        return added.id, epoch

    def drop(self, region: Region) -> None:
        """Harmless if it is not registered here."""
        added = self._regions.pop(region.id, None)
        if added is not None:
            self._context.drop_regions([added[0]])

    def close(self) -> None:
        try:
            self._context.close()
        except errors.MorikvError as error:
            logger.warning("mori.io: %s", error)
