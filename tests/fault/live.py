"""A whole system on servers that may be harmed, a user who looks at it meanwhile, and what has to be so afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import asyncpg

from tests.chaos.ground import Ground, System
from tests.chaos.load import Accepted
from tests.chaos.verdict import judge, until_rest
from tests.chaos.watchers import open_stream
from tests.support.eyes import Answer, Eyes
from tests.support.proxy import CuttingProxy
from tests.support.servers import OwnServer
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 90.0


@dataclass
class Live:
    """One system that runs. `stream(task)` follows a task until the block ends."""

    system: System
    ground: Ground
    eyes: Eyes
    to_postgres: CuttingProxy | None = None
    accepted: Accepted = field(default_factory=Accepted)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        ground: Ground,
        folder: Path,
        to_postgres: CuttingProxy | None = None,
        *,
        tablespace: Path | None = None,
        **settings: str,
    ) -> AsyncIterator[Live]:
        """The API (with its dispatcher) and one worker, with the short times of the chaos runs; both through the proxy.

        `tablespace`: a folder for the database's tables.
        """
        async with System.open(ground, folder, **settings) as system:
            if tablespace is not None:
                await _moved(ground, system, tablespace)
            if to_postgres is not None:
                system.settings["DATABASE_URL"] = to_postgres.url(system.database_url)
            for role in ("api", "worker"):
                system.start(role)
            async with Eyes.open(system.url, system.token) as eyes:
                await wait_until(lambda: system.children(), 60, "a worker is there")
                yield cls(system, ground, eyes, to_postgres)

    @property
    def valkey(self) -> OwnServer:
        assert self.ground.valkey is not None
        return self.ground.valkey

    @property
    def postgres(self) -> OwnServer:
        assert self.ground.postgres is not None
        return self.ground.postgres

    async def submit(self, count: int, **given: Any) -> str:
        """Items with an effect, accepted and remembered for the books."""
        task_id = await self.eyes.submitted(*[{"effect": True, **given}] * count)
        self.accepted.tasks[task_id] = count
        return task_id

    async def refuses(self, key: str, count: int = 1) -> None:
        """Until a submission is answered 503, 50003; one that was accepted meanwhile is remembered."""

        async def refused() -> bool:
            nonlocal number
            number += 1
            answer = await self.asked(f"{key}-{number}", count)
            return (answer.status, answer.code) == (503, 50003)

        number = 0
        await wait_until(cast(Any, refused), 30, "a submission is refused")

    async def is_taken(self, key: str, count: int = 1) -> Answer:
        """Until this submission is accepted, asked again and again under one key."""

        async def taken() -> Answer | None:
            answer = await self.asked(key, count)
            assert answer.status in (202, 503), answer
            return answer if answer.status == 202 else None

        return cast(Answer, await wait_until(cast(Any, taken), 30, "a submission is accepted"))

    async def asked(self, key: str, count: int = 1) -> Answer:
        """A submission's first answer; what was accepted is remembered."""
        answer = await self.eyes.submit(*[{"effect": True}] * count, key=key)
        if answer.status == 202:
            self.accepted.tasks[answer.body["id"]] = count
        return answer

    async def attempts(self, task_id: str) -> list[Any]:
        """The errors of all attempts that ended without success, by HTTP."""
        answer = await self.eyes.get(f"media-tasks/{task_id}/items")
        history = [attempt for item in answer.body["items"] for attempt in item["attempts"]]
        return [attempt["error"] for attempt in history if attempt["error"]]

    async def counts(self, task_id: str) -> Any:
        """The task's counters, by HTTP."""
        answer = await self.eyes.get(f"media-tasks/{task_id}")
        return answer.body["counts"] if answer.status == 200 else {}

    async def has(self, task_id: str, state: str, count: int = 1, timeout_seconds: float = 30.0) -> None:
        """Until so many items are in that state, by HTTP."""

        async def enough() -> bool:
            return bool((await self.counts(task_id)).get(state, 0) >= count)

        await wait_until(cast(Any, enough), timeout_seconds, f"{count} items are {state}")

    @asynccontextmanager
    async def stream(self, task_id: str) -> AsyncIterator[list[tuple[str, Any]]]:
        """The frames of one connection, as they come; `("gone", …)` when the server ended it."""
        frames: list[tuple[str, Any]] = []

        async def follow() -> None:
            path = f"media-tasks/{task_id}/events"
            try:
                async with open_stream(self.system.port, self.system.token, path, 0) as coming:
                    async for event, _, data in coming:
                        frames.append((event, data))
            except (OSError, EOFError, TimeoutError) as error:
                frames.append(("gone", str(error)))

        following = asyncio.create_task(follow())
        await wait_until(lambda: frames)
        try:
            yield frames
        finally:
            following.cancel()

    async def sound(self, *tasks: str, most_attempts: int = 1) -> None:
        """At rest: what was accepted is final, once; these tasks by no more attempts; no dead letter; all invariants hold."""
        assert await until_rest(self.system, PATIENCE_SECONDS), "it does not come to rest"
        verdict = await judge(self.system, self.accepted, None, PATIENCE_SECONDS)
        assert verdict.ok, verdict.problems
        connection = await asyncpg.connect(self.system.database_url)
        try:
            attempts = await connection.fetchval(
                "select max(attempt) from media_task_items where task_id = any($1::text[]::uuid[])", tasks
            )
            dead = await connection.fetchval(
                "select count(*) from outbox_events where last_error is not null"
            )
        finally:
            await connection.close()
        assert (attempts <= most_attempts, dead) == (True, 0), (attempts, dead)

    async def recovers(self, *tasks: str, most_attempts: int = 1) -> None:
        """These tasks end and succeed, what comes next does too, health is well, and the books are right."""
        tasks = (*tasks, await self.submit(3))
        for task_id in tasks:
            assert (await self.eyes.ended(task_id))["status"] == "succeeded"
        health = await self.eyes.sees("health/queues", 200)
        assert health.body["outbox"]["deadLetters"] == 0
        await self.sound(*tasks, most_attempts=most_attempts)


async def _moved(ground: Ground, system: System, folder: Path) -> None:
    """The system's database into a tablespace `small_disk` of its own, before anybody is connected to it."""
    connection = await asyncpg.connect(ground.servers.database_url)
    try:
        database = urlsplit(system.database_url).path.removeprefix("/")
        await connection.execute(f"create tablespace small_disk location '{folder}'")
        await connection.execute(f"alter database {database} set tablespace small_disk")
    finally:
        await connection.close()
