"""A receiver of webhooks in a thread: it keeps what came, and answers what it is told to."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from standardwebhooks import Webhook


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verified_by(self, secret: str) -> Any:
        """The body, once the library has verified its signature; else it raises."""
        return Webhook(secret).verify(self.body, dict(self.headers))


@dataclass
class Reply:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"thank you"


class Receiver:
    """`replies` are used up one a request, the last one stays."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.received: list[Received] = []
        self.replies: list[Reply] = [Reply()]
        self.on_request: Callable[[], None] = lambda: None
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(size := int(self.headers["Content-Length"]))
                if len(body) < size:  # who sent it was killed in mid-request
                    self.close_connection = True
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.received.append(Received(self.path, headers, body))
                receiver.on_request()
                reply = receiver.replies.pop(0) if len(receiver.replies) > 1 else receiver.replies[0]
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                try:
                    self.wfile.write(reply.body)
                except OSError:
                    pass  # a caller reads no more than it wants

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def reset(self, *replies: Reply) -> None:
        self.received.clear()
        self.replies = list(replies) or [Reply()]
        self.on_request = lambda: None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
