"""Node's BullMQ and bull-board as a child process. Installed once, from the lock beside `peer.js`, below `.lingxi/test`."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.support.processes import environment
from tests.support.programs import cannot, need_program
from tests.support.servers import DATA
from tests.support.waiting import wait_until

SOURCE = Path(__file__).with_name("node")


def node_modules() -> Path:
    """The installed packages; skips the test where there is no npm, unless this is CI."""
    for program in ("node", "npm"):
        need_program(program, "to hold our queues against Node's BullMQ")
    lock = (SOURCE / "package-lock.json").read_bytes()
    folder = DATA / "node" / hashlib.sha256(lock).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        done = folder / "installed"
        if not done.exists():
            _install(folder)
            done.touch()
    return folder / "node_modules"


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(SOURCE / name, folder / name)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional"]
    # npm's own configuration (a mirror, certificates) comes from the environment, so this child gets all of it.
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if ran.returncode == 0:
        return
    cannot(f"npm could not install the packages: {ran.stderr.strip()[-500:]}")


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
                env=environment(NODE_PATH=str(node_modules())),
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
