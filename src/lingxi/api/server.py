"""The HTTP server: uvicorn, run by hand, with the limits that it lacks.

uvicorn with httptools waits for ever for a request's head, and lets a single header grow without end. Here a head must be
complete within HEAD_SECONDS and HEAD_BYTES; what is no HTTP gets a problem, too. Signals belong to whoever runs the server.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from lingxi.api.problems import MEDIA_TYPE, problem_body
from lingxi.api.sse import DIRECT_WRITER, DirectWriter, end_dead_peers
from lingxi.domain.errors import LingxiError, MalformedRequest, TooSlow

HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 65  # longer than a usual proxy's minute, so that the proxy is the one to close
_BACKLOG = 2048
_TRUSTED_PROXIES = ("127.0.0.1", "::1")


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds on the head of a request."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._head_open = True
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._head_open:
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES:
            self._refuse(MalformedRequest(f"The address and headers are larger than {HEAD_BYTES} bytes."))
        elif self._head_timer is None:
            self._watch_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[DIRECT_WRITER] = DirectWriter(self.transport, self.flow)  # type: ignore[literal-required]
        self._head_open, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._head_open = False
        self._stop_watching()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and not self.pipeline:
            self._head_open, self._head_bytes = True, 0  # the keep-alive timer watches until the next byte

    def send_400_response(self, msg: str) -> None:
        self._refuse(MalformedRequest("This is not HTTP."))

    def _watch_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_timed_out)

    def _stop_watching(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_timed_out(self) -> None:
        self._head_timer = None
        if self._head_open:
            self._refuse(TooSlow("The request's head came too slowly."))

    def _refuse(self, error: LingxiError) -> None:
        """Answer on the bare connection, and close it."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            body = orjson.dumps(problem_body(error))
            head = [
                STATUS_LINE[error.status],
                f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode(),
            ]
            self.transport.write(b"".join(head) + body)
        self.transport.close()


class ApiServer(uvicorn.Server):
    """`await serve(sockets=[…])`, and `should_exit = True` to end it: no new connections, running requests may finish.

    Open event streams never finish by themselves: close the hub first.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def create_server(
    app: ASGIApp, *, grace_seconds: float = 10.0, trusted_proxies: Sequence[str] = _TRUSTED_PROXIES
) -> ApiServer:
    """A server for `app`; running requests get `grace_seconds` when it ends.

    Only `trusted_proxies` (addresses or networks) may say whom they speak for, and that the client came by https.
    """
    config = uvicorn.Config(
        app,
        http=GuardedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        forwarded_allow_ips=list(trusted_proxies),
        backlog=_BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(grace_seconds)),
    )
    return ApiServer(config)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket for `serve`; port 0 takes a free one. OSError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What it accepts inherits this. asyncio sets it by itself only where the socket's protocol was named; without it every
        # answer on a kept connection waits 40 ms for the client's delayed acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        end_dead_peers([listening])
    except OSError:
        listening.close()
        raise
    return listening
