"""Streamed `multipart/form-data` (RFC 7578): one part after the other, nothing is kept but what the parser just read.

    async for part in MultipartReader(request.stream(), boundary_of(content_type)):
        async for chunk in part.content: …

A part that was not read to its end is skipped when the next one is asked for.
"""

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from lingxi.api.header_parameters import header_parameters
from lingxi.domain.errors import MalformedRequest, UnsupportedContent

MAX_HEADER_BYTES: Final = 32 * 1024  # a file name of 4 kB may come with each byte as `%xx`, and twice
MAX_HEADERS: Final = 20
_MULTIPART: Final = "multipart/form-data"


@dataclass(frozen=True, slots=True)
class Part:
    """One part. `headers`: lower-case names, values as they came. Read `content` before asking for the next part."""

    headers: Mapping[str, bytes]
    content: AsyncIterator[bytes]


def boundary_of(content_type: str | None) -> bytes:
    """The boundary that the request's Content-Type names; UnsupportedContent for another type, MalformedRequest without one."""
    kind, parameters = header_parameters((content_type or "").encode("latin-1"))
    if kind.decode("latin-1").lower() != _MULTIPART:
        raise UnsupportedContent(f"Content-Type must be {_MULTIPART}.")
    boundary = parameters.get("boundary", b"")
    if not 0 < len(boundary) <= 70:  # RFC 2046
        raise MalformedRequest("Content-Type: the boundary of the parts is missing, or longer than 70 bytes.")
    return boundary


class MultipartReader:
    """Iterate once. MalformedRequest where the body is no multipart, and when it ends before its last boundary."""

    def __init__(self, chunks: AsyncIterable[bytes], boundary: bytes) -> None:
        self._chunks = aiter(chunks)
        self._events: deque[tuple[str, bytes]] = deque()  # (what, data), in the order of the body
        self._field = bytearray()
        self._value = bytearray()
        self._headers: dict[str, bytes] = {}
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": lambda data, start, end: self._field.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": lambda: self._events.append(("part", b"")),
                "on_part_data": lambda data, start, end: self._events.append(("data", data[start:end])),
                "on_part_end": lambda: self._events.append(("end", b"")),
                "on_end": lambda: self._events.append(("last", b"")),
            },
            max_header_count=MAX_HEADERS,
            max_header_size=MAX_HEADER_BYTES,
        )
        self._parts: deque[Mapping[str, bytes]] = deque()

    async def __aiter__(self) -> AsyncIterator[Part]:
        while True:
            match await self._next():
                case "part", _:
                    content = self._content()
                    yield Part(self._parts.popleft(), content)
                    async for _ in content:  # what was left of it
                        pass
                case "last", _:
                    async for _ in self._chunks:  # what follows the last boundary says nothing
                        pass
                    return

    async def _content(self) -> AsyncIterator[bytes]:
        while (event := await self._next())[0] == "data":
            yield event[1]

    async def _next(self) -> tuple[str, bytes]:
        while not self._events:
            try:
                chunk = await anext(self._chunks)
            except StopAsyncIteration:
                raise MalformedRequest("The body ends before the last boundary of its parts.") from None
            try:
                self._parser.write(chunk)
            except FormParserError:
                raise MalformedRequest("The body is no multipart/form-data as RFC 7578 has it.") from None
        return self._events.popleft()

    def _begin_part(self) -> None:
        self._headers = {}
        self._parts.append(self._headers)

    def _end_header(self) -> None:
        self._headers[self._field.decode("latin-1").lower()] = bytes(self._value)
        self._field.clear()
        self._value.clear()
