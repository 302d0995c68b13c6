"""The faults themselves, each an action on a running system that also mends what it broke."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import redis.asyncio

from tests.chaos.ground import Ground, System
from tests.chaos.plan import Fault
from tests.support.processes import Process
from tests.support.proxy import CuttingProxy
from tests.support.servers import OwnServer

_KEEP_SECONDS = 0.3


@dataclass
class Scene:
    """A system, what stands between it and its servers, and which roles somebody is busy with."""

    system: System
    ground: Ground
    to_postgres: CuttingProxy
    to_redis: CuttingProxy
    busy: set[str] = field(default_factory=set)
    restarts: int = 0

    async def keep(self) -> None:
        """Until cancelled: start again what ended by itself, as whoever runs Lingxi does."""
        while True:
            await asyncio.sleep(_KEEP_SECONDS)
            for role, process in list(self.system.running.items()):
                if role not in self.busy and process.exit_code is not None:
                    self.restarts += 1
                    self.system.start(role)

    @asynccontextmanager
    async def handling(self, role: str) -> AsyncIterator[Process]:
        """The process of a role, which nobody else restarts meanwhile; started again at the end if it ended."""
        self.busy.add(role)
        try:
            yield self.system.running[role]
            if self.system.running[role].exit_code is not None:
                self.system.start(role)
        finally:
            self.busy.discard(role)

    @property
    def postgres(self) -> OwnServer:
        assert self.ground.postgres is not None
        return self.ground.postgres

    @property
    def valkey(self) -> OwnServer:
        assert self.ground.valkey is not None
        return self.ground.valkey


Action = Callable[[Scene, Fault], Coroutine[Any, Any, None]]


async def strike(scene: Scene, fault: Fault) -> None:
    """Break, wait, mend."""
    await ACTIONS[fault.name](scene, fault)


# ── processes ────────────────────────────────────────────────────────────────────────────────────────────
async def _one_child(scene: Scene, fault: Fault) -> list[int]:
    """A worker process; waits for one, since a parent that has just started has none yet."""
    while not (children := scene.system.children()):
        await asyncio.sleep(0.05)
    return [children[fault.choice % len(children)]]


async def _kill_worker(scene: Scene, fault: Fault) -> None:
    _signal(await _one_child(scene, fault), signal.SIGKILL)


async def _freeze_worker(scene: Scene, fault: Fault) -> None:
    children = await _one_child(scene, fault)
    _signal(children, signal.SIGSTOP)
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        _signal(children, signal.SIGCONT)


def _kill(role: str) -> Action:
    async def action(scene: Scene, fault: Fault) -> None:
        async with scene.handling(role) as process:
            process.kill_group()
            await asyncio.sleep(fault.seconds)

    return action


def _freeze(role: str) -> Action:
    async def action(scene: Scene, fault: Fault) -> None:
        async with scene.handling(role) as process:
            process.signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(fault.seconds)
            finally:
                process.signal(signal.SIGCONT)

    return action


def _deploy(role: str) -> Action:
    async def action(scene: Scene, fault: Fault) -> None:
        async with scene.handling(role) as process:
            await asyncio.to_thread(process.stop, 60)

    return action


# ── servers ──────────────────────────────────────────────────────────────────────────────────────────────
def _away(server: str, how: str) -> Action:
    async def action(scene: Scene, fault: Fault) -> None:
        one: OwnServer = getattr(scene, server)
        await asyncio.to_thread(getattr(one, how))
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            await asyncio.to_thread(one.start)

    return action


def _frozen(server: str) -> Action:
    async def action(scene: Scene, fault: Fault) -> None:
        one: OwnServer = getattr(scene, server)
        one.freeze()
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            one.thaw()

    return action


async def _wipe(scene: Scene, fault: Fault) -> None:
    async with redis.asyncio.from_url(scene.system.redis_url) as client:
        await client.flushall()


async def _kill_redis_connections(scene: Scene, fault: Fault) -> None:
    async with redis.asyncio.from_url(scene.system.redis_url) as client:
        for kind in ("normal", "pubsub"):
            await client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")


async def _terminate(scene: Scene, fault: Fault) -> None:
    connection = await asyncpg.connect(scene.system.database_url)
    try:
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()


# ── network and storage ──────────────────────────────────────────────────────────────────────────────────
def _through(proxy: str, how: str) -> Action:
    async def action(scene: Scene, fault: Fault) -> None:
        one: CuttingProxy = getattr(scene, proxy)
        getattr(one, how)()
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            one.forward()

    return action


async def _lose_commit(scene: Scene, fault: Fault) -> None:
    scene.to_postgres.swallow_reply_to(b"COMMIT")
    await asyncio.sleep(fault.seconds)


async def _refuse_storage(scene: Scene, fault: Fault) -> None:
    """A file lies where the folder was, as when a disk is not mounted."""
    objects = scene.system.objects
    aside = objects.with_name("objects.aside")
    while not objects.is_dir():
        await asyncio.sleep(0.05)
    os.rename(objects, aside)
    objects.touch()
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        objects.unlink()
        os.rename(aside, objects)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


ACTIONS: dict[str, Callable[[Scene, Fault], Awaitable[None]]] = {
    "worker.kill": _kill_worker,
    "worker.freeze": _freeze_worker,
    "worker.kill_with_parent": _kill("worker"),
    "worker.deploy": _deploy("worker"),
    "api.kill": _kill("api"),
    "api.freeze": _freeze("api"),
    "api.deploy": _deploy("api"),
    "dispatcher.kill": _kill("dispatcher"),
    "dispatcher.freeze": _freeze("dispatcher"),
    "redis.stop": _away("valkey", "stop"),
    "redis.kill": _away("valkey", "kill"),
    "redis.freeze": _frozen("valkey"),
    "redis.wipe": _wipe,
    "redis.cut": _kill_redis_connections,
    "postgres.restart": _away("postgres", "stop"),
    "postgres.kill": _away("postgres", "kill"),
    "postgres.terminate": _terminate,
    "postgres.freeze": _frozen("postgres"),
    "network.redis_refused": _through("to_redis", "refuse"),
    "network.redis_stalled": _through("to_redis", "stall"),
    "network.postgres_refused": _through("to_postgres", "refuse"),
    "network.postgres_stalled": _through("to_postgres", "stall"),
    "network.postgres_cut": _through("to_postgres", "cut"),
    "network.lost_commit": _lose_commit,
    "storage.refused": _refuse_storage,
}
