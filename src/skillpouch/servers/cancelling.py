"""Ending a call once: what waits for it may be cancelled over and over, the call is not."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Value = TypeVar("Value")


async def run_to_its_end(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run something; when the waiter is cancelled, cancel it once and wait until it has ended.

    Cancel scopes cancel their tasks again at every step until they leave; a call whose processes
    are being killed would spin for as long as that takes.
    """
    import anyio

    task = asyncio.ensure_future(coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise
