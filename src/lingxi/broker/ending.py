"""Ends tasks that use a Redis client."""

import asyncio
from typing import Any

_TRY_SECONDS = 0.5


async def end_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel these until all have ended; what they end with is nobody's.

    More than once: a cancellation that meets the client in the middle of a connection's closing comes out of it as a
    connection error, which a loop that survives outages survives too.
    """
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_TRY_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)
