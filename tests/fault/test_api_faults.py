"""An API process that ends while many watch it: every stream is told so, and goes on elsewhere from where it was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.ground import Ground
from tests.chaos.watchers import open_stream
from tests.fault.live import Live
from tests.support.servers import Servers
from tests.support.waiting import wait_until

GRACE_SECONDS = 20.0
_AT_ONCE = 50
_ITEMS = 2_000  # minutes of work: the task outlasts the opening of all streams, and what has not started is cancelled


@pytest.mark.parametrize("streams", [200, pytest.param(1_000, marks=pytest.mark.slow)])
async def test_asked_to_stop_with_many_open_streams(servers: Servers, tmp_path: Path, streams: int) -> None:
    """SIGTERM: each stream gets `closing`, and the process ends with 0 within its grace."""
    settings = {"GRACE_SECONDS": f"{GRACE_SECONDS:g}"}
    async with Live.open(Ground(servers), tmp_path / "run", **settings) as live:
        task_id = await live.submit(_ITEMS, durationMs=3_000)
        await live.has(task_id, "running", 20)
        api = live.system.running["api"]
        path = f"media-tasks/{task_id}/events"
        known = (await live.eyes.get(f"media-tasks/{task_id}")).body["cursor"]
        frames: dict[int, list[tuple[str, int | None]]] = {number: [] for number in range(streams)}
        slots = asyncio.Semaphore(_AT_ONCE)

        async def opened(stack: AsyncExitStack) -> AsyncIterator[tuple[str, int | None, Any]]:
            while True:  # on a busy machine one may take too long
                with suppress(OSError, EOFError, TimeoutError):
                    stream = open_stream(live.system.port, live.system.token, path, known)
                    return await stack.enter_async_context(stream)

        async def follow(number: int) -> None:
            async with AsyncExitStack() as stack:
                async with slots:
                    coming = await opened(stack)
                async for event, sequence, _ in coming:
                    frames[number].append((event, sequence))

        following = [asyncio.create_task(follow(number)) for number in frames]
        await wait_until(lambda: all(frames.values()), 60, "every stream is open")
        began = time.monotonic()
        assert await asyncio.to_thread(api.stop, GRACE_SECONDS + 10) == 0
        seconds = time.monotonic() - began
        await asyncio.wait(following, timeout=10)
        assert [told[-1][0] for told in frames.values()] == ["closing"] * streams
        assert seconds < GRACE_SECONDS
        print(f"{streams} streams were told and the process had ended in {seconds:.2f} s")
        last = max(sequence or 0 for told in frames.values() for _, sequence in told)
        live.system.start("api")
        await wait_until(lambda: _serves(live), 60, "the API serves again")
        assert (await live.eyes.post(f"media-tasks/{task_id}/cancel")).status == 200
        async with open_stream(live.system.port, live.system.token, path, last) as coming:
            told = [event async for event, _, _ in coming]
        assert told[-1] == "end"
        assert "reset" not in told and "snapshot" not in told
        await live.recovers()


def _serves(live: Live) -> object:
    return live.eyes.serves()
