"""Event streams as raw ASGI: one coroutine and one small listener a connection, no copy of a frame.

The route calls `open_events` and returns what it answers. Middleware on the way must be plain ASGI: what
buffers or wraps bodies would hold frames back.
"""

import asyncio
import socket
from collections.abc import Hashable, Iterable
from typing import Protocol
from uuid import UUID

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lingxi.api.context import OPEN_ENDED
from lingxi.stream.hub import Hub
from lingxi.stream.subject import Key
from lingxi.stream.watcher import Watcher

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",  # no-transform: no proxy may compress, and so hold back, the stream
    "X-Accel-Buffering": "no",
}
DEAD_PEER_SECONDS = 60
DIRECT_WRITER = "lingxi.direct_writer"  # in the scope, where our own server serves


def last_event_id(headers: Headers, query: str | None) -> str | None:
    """What to resume from: the `Last-Event-ID` header, else `?lastEventId=`. Several headers are one that we
    never sent.
    """
    given = headers.getlist("last-event-id")
    return ", ".join(given) if any(given) else query


async def open_events(
    hub: Hub,
    key: Key,
    *,
    workspace_id: UUID,
    grant: Hashable,
    last_event_id: str | None,
    address: str | None = None,
) -> Response:
    """The answer to a GET of events: a stream, or 204 when this id is where a task has ended.

    `grant` is what `check_access` is asked about while the stream is open. Raises NotFound, OverLimit and
    PostgresUnavailable.
    """
    watcher = await hub.open(
        key, workspace_id=workspace_id, grant=grant, last_event_id=last_event_id, address=address
    )
    return Response(status_code=204) if watcher is None else EventStream(hub, watcher)


class Flow(Protocol):
    """What uvicorn knows of a connection's write buffer."""

    write_paused: bool


class DirectWriter:
    """Writes a part of a chunked body straight to the connection, past all that an ASGI `send` passes through.

    For streams that many watch: a frame then costs a third. Whoever writes must know that no `send` is under way.
    """

    __slots__ = ("_flow", "_transport")
    _last: tuple[bytes, bytes] = (
        b"",
        b"",
    )  # of all connections: the same frames go to many, one after another

    def __init__(self, transport: asyncio.Transport, flow: Flow) -> None:
        self._transport, self._flow = transport, flow

    def write(self, body: bytes) -> bool:
        """Write `body` as one chunk; False, with nothing written, when the connection takes nothing now."""
        if self._flow.write_paused or self._transport.is_closing():
            return False
        last, chunk = DirectWriter._last
        if last is not body:
            chunk = b"%x\r\n%b\r\n" % (len(body), body)
            DirectWriter._last = (body, chunk)
        self._transport.write(chunk)
        return True

    def abort(self) -> None:
        """End the connection, with what has not been sent."""
        self._transport.abort()


class EventStream(Response):
    """A response that sends a watcher's frames until the stream ends or the client goes away."""

    def __init__(self, hub: Hub, watcher: Watcher) -> None:
        self._hub, self._watcher = hub, watcher
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)  # without a `body`, it adds no Content-Length

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_frames(body: bytes) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": True})

        scope[OPEN_ENDED] = True
        direct: DirectWriter | None = scope.get(DIRECT_WRITER)
        listener = asyncio.create_task(self._leave_on_disconnect(receive))
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            await self._hub.serve(self._watcher, send_frames, direct.write if direct is not None else None)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            if not self._watcher.cut:
                raise
            if direct is not None:
                direct.abort()
                await asyncio.wait(
                    {listener}, timeout=1
                )  # until the server knows: an answer cut short is no error then
        finally:
            listener.cancel()
            self._hub.leave(self._watcher)

    async def _leave_on_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._watcher.stop()


def end_dead_peers(sockets: Iterable[socket.socket], *, seconds: int = DEAD_PEER_SECONDS) -> None:
    """Let the kernel end connections whose peer acknowledges nothing for a minute, a vanished one or one that
    never reads.

    For listening sockets, before they accept: what they accept inherits it. A heartbeat each 15 s makes silence tell.
    """
    for listening in sockets:
        if listening.family in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_USER_TIMEOUT"):
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000)
