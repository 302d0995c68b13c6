"""A real HTTP server that plays a script: one answer per connection, in turn, so that every fault can be staged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Script:
    """`answers` are played in order: bytes are written as they stand; None cuts the connection at once."""

    answers: list[bytes | None]
    url: str = ""
    seen: list[Seen] = field(default_factory=list)


def answer(status: int, body: Any, **headers: str) -> bytes:
    content = json.dumps(body).encode()
    kind = "application/problem+json" if status >= 400 else "application/json"
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n{extra}Connection: close\r\n\r\n"
    return head.encode() + content


def stream(*events: str) -> bytes:
    """An event stream that is cut after the given events."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    return (head + "".join(f"{event}\n\n" for event in events)).encode()


def frame(event: str, data: Any, id: int | None = None) -> str:
    head = f"id: {id}\n" if id is not None else ""
    return f"{head}event: {event}\ndata: {json.dumps(data)}"


def task(cursor: int, status: str = "running", **counts: int) -> dict[str, Any]:
    names = ("queued", "running", "retrying", "succeeded", "failed", "cancelled")
    every = {name: counts.get(name, 0) for name in names}
    return {
        "id": "0198c0de-0000-7000-8000-000000000000",
        "type": "demo:drill",
        "status": status,
        "round": 1,
        "priority": "normal",
        "cancelRequested": False,
        "counts": {"total": sum(every.values()), **every},
        "metadata": None,
        "createdAt": "2026-01-01T00:00:00Z",
        "startedAt": None,
        "finishedAt": None,
        "cursor": cursor,
    }


def item(index: int, state: str) -> dict[str, Any]:
    return {"itemId": f"item-{index}", "index": index, "ref": None, "state": state, "attempt": 1}


@asynccontextmanager
async def serve(*answers: bytes | None) -> AsyncIterator[Script]:
    script = Script(list(answers))

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            start, *lines = head.split("\r\n")
            headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, path, _ = start.split(" ")
            script.seen.append(Seen(method, path, headers, body))
            content = script.answers.pop(0)
            if content is not None:
                writer.write(content)
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(play, "127.0.0.1", 0)
    script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield script
    finally:
        server.close()
        await server.wait_closed()
