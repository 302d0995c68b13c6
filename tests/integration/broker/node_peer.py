"""Node's BullMQ and bull-board as a child process. Installed once, from the lock beside `peer.js`, below `.lingxi/test`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.support.node_packages import node_modules
from tests.support.processes import environment
from tests.support.waiting import wait_until

SOURCE = Path(__file__).with_name("node")


class NodePeer:
    """`await peer("verb", field=…)` asks the child; see `peer.js` for the verbs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, redis_url: str, queue: str) -> NodePeer:
        return cls(
            await asyncio.create_subprocess_exec(
                "node",
                str(SOURCE / "peer.js"),
                redis_url,
                queue,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=environment(
                    NODE_PATH=str(node_modules(SOURCE, "to hold our queues against Node's BullMQ"))
                ),
                limit=2**22,
            )
        )

    async def __call__(self, verb: str, **fields: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"verb": verb, **fields}).encode() + b"\n")
        async with asyncio.timeout(20):
            line = await self._process.stdout.readline()
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["value"]

    async def outcomes(self, count: int) -> list[dict[str, Any]]:
        """What its worker did, once it did `count` jobs."""
        await wait_until(lambda: self._did(count))
        found: list[dict[str, Any]] = await self("outcomes")
        return found

    async def _did(self, count: int) -> bool:
        return len(await self("outcomes")) >= count

    async def close(self) -> None:
        if self._process.returncode is None:
            await self("quit")
            async with asyncio.timeout(10):
                await self._process.wait()
