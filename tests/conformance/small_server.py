"""Somebody else's server: the contract of the event stream in memory, and on demand broken in one of FAULTS."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.conformance.small_albums import ALBUM_FAULTS, SmallAlbums

TOKEN = "lx_small"
FINAL = ("succeeded", "failed", "cancelled")
FAULTS = {  # what is broken: the rule that must notice
    "resume_skips_one": "every-id",
    "resume_forgets_untold": "while-items-change",
    "equal_numbers_all_have_ids": "equal-numbers",
    "ids_run_ahead": "random-cuts",
    "finished_is_always_204": "no-content",
    "never_204": "no-content",
    "garbage_is_fresh": "garbage-ids",
    "future_is_fresh": "future-ids",
    "zero_is_fresh": "zero-replays",
    "query_wins": "header-wins",
    "reset_has_the_last_id": "reset-interrupted",
    "resume_is_silent": "resume-progress",
    "no_end": "end-then-close",
    "end_stays_open": "end-then-close",
    "finished_has_no_snapshot": "finished-fresh",
    "snapshot_has_no_id": "snapshot-first",
    "progress_has_an_id": "ids-ascend",
    "progress_floods": "progress-rate",
    "json_is_pretty": "text-survives",
    "compressed_by_name": "headers",
    "buffered": "headers",
    "same_retry": "retry-jitter",
    "slow_readers_lose": "stalled-reader",
    "old_end_is_final": "after-retry",
    "cancel_is_not_told": "cancelled",
    "unknown_is_empty": "unknown-task",
    "open_to_all": "no-token",
    "stream_token_opens_all": "stream-token",
    "no_heartbeat": "heartbeat",
    **ALBUM_FAULTS,
}


@dataclass
class SmallItem:
    index: int
    given: dict[str, Any]
    ref: str | None
    state: str = "queued"
    attempt: int = 0
    result: Any = None
    error: Any = None
    number: int = 1


@dataclass
class SmallTask:
    items: list[SmallItem]
    id: str = field(default_factory=lambda: str(uuid4()))
    number: int = 1
    round: int = 1
    cancel_requested: bool = False
    finished: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    work: list[asyncio.Task[None]] = field(default_factory=list)

    def touch(self, item: SmallItem | None = None) -> None:
        self.number += 1
        if item is not None:
            item.number = self.number
        if not self.finished and all(i.state in FINAL for i in self.items):
            self.number += 1
            self.finished = True
        self.changed.set()
        self.changed = asyncio.Event()

    @property
    def counts(self) -> dict[str, int]:
        states = ("queued", "running", "retrying", *FINAL)
        counted = {state: sum(item.state == state for item in self.items) for state in states}
        return {"total": len(self.items), **counted}

    @property
    def status(self) -> str:
        counts = self.counts
        if not self.finished:
            return (
                "cancelling"
                if self.cancel_requested
                else "queued"
                if counts["queued"] == counts["total"]
                else "running"
            )
        if counts["succeeded"] == counts["total"]:
            return "succeeded"
        return (
            "cancelled"
            if counts["cancelled"]
            else "failed"
            if counts["failed"] == counts["total"]
            else "partially_failed"
        )

    def wire(self) -> dict[str, Any]:
        return {"id": self.id, "type": "demo:drill", "cursor": self.number} | self.summary()

    def summary(self) -> dict[str, Any]:
        return {"status": self.status, "round": self.round, "counts": self.counts}


class SmallServer:
    """Tasks in memory; items run as coroutines."""

    def __init__(self, fault: str | None) -> None:
        assert fault is None or fault in FAULTS
        self.fault = fault
        self.tasks: dict[str, SmallTask] = {}
        self.tokens: dict[str, str] = {}
        self.albums = SmallAlbums(fault, TOKEN)
        base = "/api/v1/media-tasks"
        self.app = Starlette(
            routes=[
                Route(base, self.submit, methods=["POST"]),
                Route(base + "/{id}", self.show),
                Route(base + "/{id}/items", self.list_items),
                Route(base + "/{id}/events", self.events),
                Route(base + "/{id}/cancel", self.cancel, methods=["POST"]),
                Route(base + "/{id}/retry-failed", self.retry, methods=["POST"]),
                Route(base + "/{id}/stream-token", self.stream_token, methods=["POST"]),
                *self.albums.routes,
            ]
        )

    # ── the task protocol ────────────────────────────────────────────────────────────────────────────────

    def known(self, request: Request) -> SmallTask | Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({"code": 40101}, 401)
        return self.tasks.get(request.path_params["id"]) or JSONResponse({"code": 40401}, 404)

    async def submit(self, request: Request) -> Response:
        body = await request.json()
        items = [SmallItem(n, item["input"], item.get("ref")) for n, item in enumerate(body["items"])]
        task = SmallTask(items)
        self.tasks[task.id] = task
        self.run(task, items)
        return JSONResponse(task.wire(), 202)

    async def show(self, request: Request) -> Response:
        task = self.known(request)
        return task if isinstance(task, Response) else JSONResponse(task.wire())

    async def list_items(self, request: Request) -> Response:
        task = self.known(request)
        if isinstance(task, Response):
            return task
        items = [{"id": f"{task.id}-{item.index}"} | _told(task, item) for item in task.items]
        return JSONResponse({"items": items, "nextCursor": None})

    async def cancel(self, request: Request) -> Response:
        task = self.known(request)
        assert isinstance(task, SmallTask)
        if not task.finished:
            task.cancel_requested = True
            task.touch()
            for item in task.items:
                if item.state in ("queued", "retrying"):
                    item.state = "cancelled"
                    task.touch(None if self.fault == "cancel_is_not_told" else item)
        return JSONResponse(task.wire())

    async def retry(self, request: Request) -> Response:
        task = self.known(request)
        assert isinstance(task, SmallTask)
        failed = [item for item in task.items if item.state == "failed"]
        task.round, task.finished, task.cancel_requested = task.round + 1, False, False
        for item in failed:
            item.state, item.attempt, item.error = "queued", 0, None
            task.touch(item)
        self.run(task, failed)
        return JSONResponse(task.wire(), 202)

    async def stream_token(self, request: Request) -> Response:
        task = self.known(request)
        assert isinstance(task, SmallTask)
        token = uuid4().hex
        self.tokens[token] = task.id
        return JSONResponse({"token": token})

    # ── work ─────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, task: SmallTask, items: list[SmallItem]) -> None:
        task.work += [asyncio.create_task(self.run_item(task, item)) for item in items]

    async def run_item(self, task: SmallTask, item: SmallItem) -> None:
        await asyncio.sleep(0.3 * (len(task.items) > 1_000) + 0.02 * random.random())
        while item.state in ("queued", "retrying"):
            item.state, item.attempt, item.error = "running", item.attempt + 1, None
            task.touch(item)
            await asyncio.sleep(item.given.get("durationMs", 0) / 1000)
            fails = item.given.get("fail") if item.attempt <= item.given.get("failTimes", 10) else None
            if fails:
                again = fails == "transient" and item.attempt < 3 and not task.cancel_requested
                item.state = "retrying" if again else "failed"
                message = item.given.get("failMessage", "told to fail")
                item.error = {"code": "drill_failed", "message": message, "retryable": again}
            else:
                padding = "x" * item.given.get("resultBytes", 0)
                item.state, item.result = (
                    "succeeded",
                    {"text": item.given.get("resultText"), "padding": padding},
                )
            task.touch(item)
            await asyncio.sleep(0.1)

    # ── the stream ───────────────────────────────────────────────────────────────────────────────────────

    async def events(self, request: Request) -> Response:
        if (refused := self.refusal(request)) is not None:
            return refused
        task = self.tasks.get(request.path_params["id"])
        if task is None and self.fault == "unknown_is_empty":
            return StreamingResponse(iter(()), media_type="text/event-stream")
        if task is None:
            return JSONResponse({"code": 40401}, 404)
        given = request.headers.get("last-event-id") or request.query_params.get("lastEventId")
        if self.fault == "query_wins":
            given = request.query_params.get("lastEventId") or given
        if self.is_over(task, given):
            return Response(status_code=204)
        kind = {"content-type": "text/event-stream; charset=utf-8"}
        headers = kind | {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
        if self.fault == "compressed_by_name":
            headers["content-encoding"] = "identity"
        if self.fault == "buffered":
            headers = kind | {"cache-control": "no-cache"}
        return StreamingResponse(self.frames(task, given), headers=headers)

    def refusal(self, request: Request) -> Response | None:
        if request.headers.get("authorization") == f"Bearer {TOKEN}" or self.fault == "open_to_all":
            return None
        allowed = self.tokens.get(request.query_params.get("token", ""))
        if allowed and (allowed == request.path_params["id"] or self.fault == "stream_token_opens_all"):
            return None
        return JSONResponse({"code": 40101}, 401)

    def is_over(self, task: SmallTask, given: str | None) -> bool:
        if self.fault == "old_end_is_final" and task.round > 1 and given not in (None, "0"):
            return True
        if not task.finished or given is None or self.fault == "never_204":
            return False
        return given == str(task.number) or self.fault == "finished_is_always_204"

    def opening(self, task: SmallTask, given: str | None) -> tuple[list[bytes], int]:
        """The first frames, and the number after which changes are wanted."""
        after = _number(given)
        fresh = given is None or (self.fault == "zero_is_fresh" and given == "0")
        fresh |= self.fault == "garbage_is_fresh" and after is None
        fresh |= self.fault == "future_is_fresh" and after is not None and after > task.number
        first = [b"retry: %d\n\n" % (2000 if self.fault == "same_retry" else random.randint(100, 300))]
        if fresh:
            if self.fault != "finished_has_no_snapshot":
                number = None if self.fault == "snapshot_has_no_id" else task.number
                first.append(self.frame("snapshot", task.wire(), number))
            return first, task.number
        if after is None or after > task.number:
            number = task.number if self.fault == "reset_has_the_last_id" else 0
            first += (self.frame("reset", {}, number), self.frame("snapshot", task.wire()))
            return first, 0
        if not task.finished and self.fault != "resume_is_silent":
            first.append(self.frame("progress", task.summary()))
        return first, after + (self.fault == "resume_skips_one")

    async def frames(self, task: SmallTask, given: str | None) -> AsyncIterator[bytes]:
        first, seen = self.opening(task, given)
        for frame in first:
            yield frame
        if self.fault == "resume_forgets_untold" and seen:
            seen = max(seen, task.number - 1)
        progress_at = time.monotonic()
        while True:
            news, wait, began = task.changed, 0.25 + progress_at - time.monotonic(), time.monotonic()
            rows = sorted((i for i in task.items if i.number > seen), key=lambda i: (i.number, i.index))
            number, finished, wire = task.number, task.finished, task.wire()
            for frame in [self.item_frame(task, rows, n) for n in range(len(rows))]:
                yield frame
            seen = number
            if self.fault == "slow_readers_lose" and time.monotonic() - began > 0.5:
                seen = task.number  # it was slow: what came meanwhile is dropped
            if finished:
                if self.fault != "no_end":
                    yield self.frame("end", wire, number)
                while self.fault == "end_stays_open":
                    await asyncio.sleep(1)
                return
            if wait <= 0 or self.fault == "progress_floods":
                progress_at = time.monotonic()
                yield self.frame(
                    "progress", task.summary(), number if self.fault == "progress_has_an_id" else None
                )
            try:
                await asyncio.wait_for(news.wait(), 30 if self.fault == "no_heartbeat" else 15)
            except TimeoutError:
                yield b": heartbeat\n\n"

    def item_frame(self, task: SmallTask, rows: list[SmallItem], n: int) -> bytes:
        item, last = rows[n], rows[-1]
        shared = item is not last and rows[n + 1].number == item.number
        number = None if shared and self.fault != "equal_numbers_all_have_ids" else item.number
        if self.fault == "ids_run_ahead":
            number = last.number
        return self.frame("item", {"itemId": f"{task.id}-{item.index}"} | _told(task, item), number)

    def frame(self, event: str, data: Any, number: int | None = None) -> bytes:
        lines = [f"id: {number}"] if number is not None else []
        text = json.dumps(data, indent=1 if self.fault == "json_is_pretty" else None)
        return "\n".join([*lines, f"event: {event}", f"data: {text}", "", ""]).encode()


def _told(task: SmallTask, item: SmallItem) -> dict[str, Any]:
    names = ("index", "ref", "state", "attempt", "error", "result")
    return {name: getattr(item, name) for name in names}


def _number(given: str | None) -> int | None:
    return int(given) if given and given.isascii() and given.isdigit() and str(int(given)) == given else None


@asynccontextmanager
async def serving(fault: str | None = None) -> AsyncIterator[str]:
    """A running small server; its URL."""
    server = SmallServer(fault)
    config = uvicorn.Config(
        server.app, port=0, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
    )
    running = uvicorn.Server(config)
    running.capture_signals = _no_signals  # type: ignore[method-assign]
    work: Coroutine[Any, Any, None] = running.serve()
    task = asyncio.create_task(work)
    while not running.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    finally:
        for small in server.tasks.values():
            for item in small.work:
                item.cancel()
        server.albums.close()
        running.should_exit = running.force_exit = True
        await task


@contextmanager
def _no_signals() -> Any:
    yield
