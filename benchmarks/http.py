"""One keep-alive HTTP/1.1 connection with as little around it as possible: what is measured is the server."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_BOUNDARY = "7d5c1f0e9b3a4c62"


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class HttpConnection:
    """Requests one after another over one socket; answers need a Content-Length."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, token: str | None
    ) -> None:
        self._reader = reader
        self._writer = writer
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        self._head = f"Host: {host}\r\n{authorization}"

    @classmethod
    async def open(cls, port: int, token: str | None = None) -> "HttpConnection":
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        return cls(reader, writer, f"127.0.0.1:{port}", token)

    async def get(self, path: str) -> Answer:
        return await self._exchange(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())

    async def post(self, path: str, body: bytes) -> Answer:
        """Send JSON that has been encoded before, so that encoding it is not measured."""
        head = f"POST {path} HTTP/1.1\r\n{self._head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return await self._exchange(f"{head}\r\n".encode() + body)

    async def post_file(self, path: str, name: str, content: bytes) -> Answer:
        """Send a form of one file."""
        before = (
            f"--{_BOUNDARY}\r\n"
            f'Content-Disposition: form-data; name="files"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        after = f"\r\n--{_BOUNDARY}--\r\n".encode()
        head = (
            f"POST {path} HTTP/1.1\r\n{self._head}"
            f"Content-Type: multipart/form-data; boundary={_BOUNDARY}\r\n"
            f"Content-Length: {len(before) + len(content) + len(after)}\r\n\r\n"
        )
        return await self._exchange(head.encode() + before, content, after)

    async def _exchange(self, *request: bytes) -> Answer:
        for part in request:
            self._writer.write(part)
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(int(head[0].split()[1]), headers, body)

    def close(self) -> None:
        self._writer.close()
