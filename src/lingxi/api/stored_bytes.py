"""Stored bytes as an answer: conditions, one range, and a stream that holds no more than a chunk.

RFC 9110: If-None-Match comes before Range; If-Range must name this very content; one range is a 206, several are answered by the
whole, and one beyond the end is a 416. HEAD asks no storage. Whoever leaves in mid-body, or takes nothing for a minute, gives the
reader back at once.
"""

import asyncio
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lingxi.domain.errors import LingxiError, MalformedRequest
from lingxi.observability.logging import get_logger
from lingxi.storage.errors import ObjectMissing, StorageUnavailable
from lingxi.storage.port import ObjectReader, Storage

_RANGE = re.compile(r"bytes=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*", re.IGNORECASE)
_PIECE_BYTES = 64 * 1024
_SEND_SECONDS = 60.0  # for one piece: slower than a kilobyte a second is a client that holds on to a reader
_RETRY_AFTER_SECONDS = 2
UNREADABLE = LingxiError(
    "The file cannot be read from storage now; try again.", retry_after_seconds=_RETRY_AFTER_SECONDS
)
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes that lie in storage, as a row says: `sha256` has 32 bytes and makes the strong ETag."""

    storage_key: str
    size_bytes: int
    sha256: bytes
    content_type: str

    @property
    def etag(self) -> str:
        return f'"{self.sha256.hex()}"'


class Unsatisfiable(MalformedRequest):
    """The range begins behind the end: 416, with the size in `Content-Range`."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"Range: the file has only {size_bytes} bytes.", status=416)
        self.headers = {"Content-Range": f"bytes */{size_bytes}"}


async def serve(request: Request, storage: Storage, stored: Stored, headers: Mapping[str, str]) -> Response:
    """The answer to a GET or HEAD of these bytes; `headers` go with each (also with a 304).

    Raises Unsatisfiable, and UNREADABLE (50001, with Retry-After) when storage does not give the bytes.
    """
    common = {**headers, "ETag": stored.etag, "Accept-Ranges": "bytes"}
    if _known_already(request.headers.get("if-none-match"), stored.etag):
        return Response(None, 304, common)
    if request.method == "HEAD":
        size = {"Content-Length": str(stored.size_bytes)}
        return Response(None, 200, {**common, **size}, stored.content_type)
    start, length = asked_range(request.headers.get("range"), stored.size_bytes)
    if request.headers.get("if-range") not in (None, stored.etag):
        start, length = 0, stored.size_bytes
    try:
        reader = await storage.open(stored.storage_key, start=start, length=length)
    except (ObjectMissing, StorageUnavailable) as error:
        _log.error("stored_bytes_unreadable", reason=str(error))
        raise UNREADABLE from error
    if length != stored.size_bytes:
        common["Content-Range"] = f"bytes {start}-{start + length - 1}/{stored.size_bytes}"
    return BytesResponse(reader, length, stored, common)


def asked_range(header: str | None, size_bytes: int) -> tuple[int, int]:
    """Start and length. What is no single range of bytes is the whole, as RFC 9110 allows. Raises Unsatisfiable."""
    match = _RANGE.fullmatch(header) if header else None
    if match is None or match.groups() == ("", ""):
        return 0, size_bytes
    first, last = match.groups()
    if not first:  # the last n bytes
        length = min(int(last), size_bytes)
        if length == 0:
            raise Unsatisfiable(size_bytes)
        return size_bytes - length, length
    start = int(first)
    if last and int(last) < start:  # no range at all
        return 0, size_bytes
    if start >= size_bytes:
        raise Unsatisfiable(size_bytes)
    return start, min(int(last) + 1 if last else size_bytes, size_bytes) - start


def _known_already(if_none_match: str | None, etag: str) -> bool:
    if if_none_match is None:
        return False
    given = [one.strip().removeprefix("W/") for one in if_none_match.split(",")]
    return "*" in given or etag in given


class BytesResponse(Response):
    """Streams an open reader. If reading fails half-way the connection ends early, so the client sees a cut transfer."""

    def __init__(self, reader: ObjectReader, length: int, stored: Stored, headers: Mapping[str, str]) -> None:
        self._reader = reader
        self.status_code = 206 if "Content-Range" in headers else 200
        self.media_type = stored.content_type
        self.background = None
        self.init_headers({**headers, "Content-Length": str(length)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_until_gone(receive))
        try:
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            await send(start)
            async for chunk in self._reader:
                view = memoryview(chunk)
                for at in range(0, len(view), _PIECE_BYTES):
                    piece = {"type": "http.response.body", "body": bytes(view[at : at + _PIECE_BYTES])}
                    async with asyncio.timeout(_SEND_SECONDS):
                        await send({**piece, "more_body": True})
                    if gone.done():
                        scope["client_gone"] = True
                        return
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            await self._reader.close()


async def _until_gone(receive: Receive) -> None:
    with contextlib.suppress(Exception):
        while (await receive())["type"] != "http.disconnect":
            pass
