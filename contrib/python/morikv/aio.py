# SPDX-License-Identifier: BSD-3-Clause
"""Events of a context in an asyncio program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from .context import Context
from .model import Event


async def events(context: Context) -> AsyncIterator[Event]:
    """Progress, and yield events; the loop is free in between. The iteration may be ended and
    started again: no event is lost. One task at a time iterates over a context's events.
    """
    loop = asyncio.get_running_loop()
    descriptor = context.fileno()
    while True:
        context.progress()
        next_event = context.poll_one()
        if next_event is not None:
            yield next_event
            continue
        if not context.arm():
            await asyncio.sleep(0)  # let other tasks run; there is more to do at once
            continue
        readable = asyncio.Event()
        loop.add_reader(descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(descriptor)
