"""What a request may be before any route sees it: its Host, its address and headers, its body's size and pace.

Pure ASGI, nothing is buffered: the body is counted and timed while the route reads it, so a request without a token is
refused before its body is looked at, and an upload streams through.
"""

import asyncio
import ipaddress
import re
import time
from collections.abc import Collection
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lingxi.domain.errors import MalformedRequest, TooLarge, TooSlow

KIB = 1024
_LINGER_BYTES = 1024 * KIB
_LINGER_SECONDS = 1.0
_SMALL_BODY_BYTES = 64 * KIB
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@/]+))(?::[0-9]*)?")
_PHOTO_UPLOAD = re.compile(r"/api/v1/albums/[^/]+/(photos|uploads(/[^/]+)?)")


class ClientGone(Exception):
    """The client closed the connection before its request was complete: nobody is left to answer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes and seconds that one request may take.

    A body may be silent for `body_timeout_seconds` and must be complete within twice that; an upload gets more time the
    more of it has come, at `min_upload_bytes_per_second`. `max_upload_bytes` is of a whole form of photos.
    """

    max_body_bytes: int = 16 * KIB * KIB
    max_object_bytes: int = 1024 * KIB * KIB
    max_photo_bytes: int = 512 * KIB * KIB
    max_photos: int = 1000
    max_upload_bytes: int = 16 * KIB * KIB * KIB
    max_url_bytes: int = 8 * KIB
    max_header_bytes: int = 32 * KIB
    max_headers: int = 100
    body_timeout_seconds: float = 30.0
    min_upload_bytes_per_second: int = 16 * KIB


class RequestShape:
    """Refuses unknown hosts and oversized addresses and headers (400, 40001)."""

    def __init__(self, app: ASGIApp, limits: Limits, allowed_hosts: Collection[str]) -> None:
        self._app = app
        self._limits = limits
        self._allowed_hosts = frozenset(host.lower() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._check_sizes(scope)
            self._check_host(scope)
        await self._app(scope, receive, send)

    def _check_sizes(self, scope: Scope) -> None:
        limits = self._limits
        if len(scope["raw_path"]) + len(scope["query_string"]) > limits.max_url_bytes:
            raise MalformedRequest(f"The address is longer than {limits.max_url_bytes} bytes.")
        headers = scope["headers"]
        if len(headers) > limits.max_headers:
            raise MalformedRequest(f"The request has more than {limits.max_headers} headers.")
        if sum(len(name) + len(value) for name, value in headers) > limits.max_header_bytes:
            raise MalformedRequest(f"The headers are larger than {limits.max_header_bytes} bytes.")

    def _check_host(self, scope: Scope) -> None:
        given = [value for name, value in scope["headers"] if name == b"host"]
        if len(given) != 1:
            raise MalformedRequest("The request must have exactly one Host header.")
        host = host_without_port(given[0].decode("latin-1")).lower()
        if "*" in self._allowed_hosts or host in self._allowed_hosts:
            return
        # The address that the client really connected to: no name was resolved, so none can have been rebound.
        server = scope.get("server")
        if server is not None and _same_address(host, server[0]):
            return
        raise MalformedRequest("The Host header names no host that this server answers for.")


def host_without_port(host: str) -> str:
    """`example.org:80` → `example.org`, `[::1]:80` → `::1`; empty for what is neither."""
    parts = _HOST.fullmatch(host)
    return (parts[1] or parts[2]) if parts else ""


def _same_address(host: str, server: str) -> bool:
    try:
        return ipaddress.ip_address(host) == ipaddress.ip_address(server)
    except ValueError:
        return False


class BodyLimits:
    """Counts and times the body while it is read: 413 (41301) over the limit, 408 (40801) when it comes too slowly."""

    def __init__(self, app: ASGIApp, limits: Limits, object_prefix: str) -> None:
        self._app = app
        self._limits = limits
        self._object_prefix = object_prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(scope, receive, self._limits, self._upload_limit_bytes(scope["path"]))
        await self._app(scope, body.receive, _ClosingSend(send, body))

    def _upload_limit_bytes(self, path: str) -> int | None:
        """The limit of a body that is streamed; None for JSON."""
        if path.startswith(self._object_prefix):
            return self._limits.max_object_bytes
        return self._limits.max_upload_bytes if _PHOTO_UPLOAD.fullmatch(path) else None


class _Body:
    """The request's body as the route reads it."""

    def __init__(
        self, scope: Scope, receive: Receive, limits: Limits, upload_limit_bytes: int | None
    ) -> None:
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"")
        self.declared_bytes = int(declared) if declared.isdigit() else None
        self.expects_continue = headers.get(b"expect", b"").lower() == b"100-continue"
        self.complete = self.declared_bytes in (None, 0) and b"transfer-encoding" not in headers
        self._first = True
        self._receive = receive
        self._limits = limits
        self._upload = upload_limit_bytes is not None
        self._limit_bytes = limits.max_body_bytes if upload_limit_bytes is None else upload_limit_bytes
        self._received_bytes = 0
        self._started: float | None = None

    async def receive(self) -> Message:
        """The next part; TooLarge, TooSlow, or ClientGone when the client left before the end."""
        if self.complete and not self._first:
            return await self._receive()  # waits for the disconnect, as long as it takes
        self._first = False
        if self.declared_bytes is not None and self.declared_bytes > self._limit_bytes:
            raise TooLarge(f"The body is larger than {self._limit_bytes} bytes, the limit here.")
        message = await self._timed()
        if message["type"] == "http.disconnect":
            if (
                self.complete
            ):  # there was no body to wait for; whoever listens for the end wants to hear of it
                return message
            raise ClientGone
        self._received_bytes += len(message.get("body", b""))
        self.complete = not message.get("more_body", False)
        if self._received_bytes > self._limit_bytes:
            raise TooLarge(f"The body is larger than {self._limit_bytes} bytes, the limit here.")
        return message

    async def _timed(self) -> Message:
        limits = self._limits
        now = time.monotonic()
        self._started = self._started or now
        allowed = 2 * limits.body_timeout_seconds
        if self._upload:
            allowed += self._received_bytes / limits.min_upload_bytes_per_second
        left = allowed - (now - self._started)
        try:
            async with asyncio.timeout(min(limits.body_timeout_seconds, left)):
                return await self._receive()
        except TimeoutError:
            raise TooSlow("The body came too slowly.") from None

    async def drain(self, max_bytes: int, seconds: float) -> bool:
        """Read and drop what is still to come, within bounds; was that all of it?"""
        try:
            async with asyncio.timeout(seconds):
                while not self.complete and max_bytes > 0:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        return False
                    max_bytes -= len(message.get("body", b""))
                    self.complete = not message.get("more_body", False)
        except TimeoutError:
            return False
        return self.complete


class _ClosingSend:
    """Answers although the body was not read: a small rest is read and dropped, else the connection ends after the answer.

    Closing at once on unread bytes would reset the connection and take the answer away from the client.
    """

    def __init__(self, send: Send, body: _Body) -> None:
        self._send = send
        self._body = body
        self._closing = False

    async def __call__(self, message: Message) -> None:
        if (
            message["type"] == "http.response.start"
            and not self._body.complete
            and not await self._small_rest()
        ):
            self._closing = True
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        if self._closing and message["type"] == "http.response.body" and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            if not self._body.expects_continue:
                await self._body.drain(_LINGER_BYTES, _LINGER_SECONDS)
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _small_rest(self) -> bool:
        declared = self._body.declared_bytes
        if declared is None or declared > _SMALL_BODY_BYTES or self._body.expects_continue:
            return False
        return await self._body.drain(_SMALL_BODY_BYTES, _LINGER_SECONDS)
