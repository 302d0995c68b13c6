"""HTTP by hand over a socket, for requests that no client library would send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Answer:
    """What came back. `closed`: the server then closed the connection."""

    status: int
    headers: dict[str, str]
    body: bytes
    closed: bool

    @property
    def problem(self) -> Any:
        assert self.headers["content-type"] == "application/problem+json", (self.headers, self.body)
        return json.loads(self.body)


async def exchange(
    url: str, parts: Iterable[bytes] | AsyncIterable[bytes], *, timeout_seconds: float = 15
) -> Answer:
    """Send the parts one by one, and read one answer. A part may be refused half-way; the answer still has to come."""
    address = urlsplit(url)
    async with asyncio.timeout(timeout_seconds):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        sending = asyncio.create_task(_send(writer, parts))
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            status, headers = _parse(head)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            sending.cancel()
            closed = headers.get("connection") == "close" and await _closes(reader)
            return Answer(status, headers, body, closed)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            writer.close()


def request(method: str, path: str, *headers: str, host: str = "localhost", body: bytes = b"") -> bytes:
    """The bytes of a request, with a Host header."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body


async def _send(writer: asyncio.StreamWriter, parts: Iterable[bytes] | AsyncIterable[bytes]) -> None:
    if isinstance(parts, AsyncIterable):
        async for part in parts:
            writer.write(part)
            await writer.drain()
        return
    for part in parts:
        writer.write(part)
        await writer.drain()


async def _closes(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionResetError:
        return True


def _parse(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return int(first.split()[1]), headers
