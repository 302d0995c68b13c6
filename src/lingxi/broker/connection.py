"""One raw connection to Redis: a payload of pipelined commands goes out in one write, its replies come back as a list.

`hiredis` parses; everything else is an asyncio protocol of a page, because a client object per command costs more
than the command. A connection never reconnects: once it failed it stays failed, and `Link` opens the next one.
"""

from __future__ import annotations

import asyncio
import collections
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import hiredis
from redis.asyncio.connection import SSLConnection, parse_url

from lingxi.broker.errors import BrokerTimeout, BrokerUnavailable
from lingxi.broker.resp import command

CONNECT_TIMEOUT_SECONDS = 1.0

ConnectionFactory = Callable[[str], Awaitable["RawConnection"]]  # client name → an open connection


@dataclass(slots=True, eq=False)
class _Call:
    missing: int
    replies: list[Any]
    future: asyncio.Future[list[Any]]
    timer: asyncio.TimerHandle | None = None


def connection_factory(
    url: str,
    *,
    timeout_seconds: float = 5.0,
    connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
) -> ConnectionFactory:
    """What `BullQueue` opens its connections with."""

    async def connect(name: str) -> RawConnection:
        return await RawConnection.connect(
            url, timeout_seconds=timeout_seconds, connect_timeout_seconds=connect_timeout_seconds, name=name
        )

    return connect


async def ping(url: str, *, timeout_seconds: float = 1.0) -> None:
    """Does the server answer a new client at all? Raises BrokerUnavailable."""
    connection = await RawConnection.connect(
        url, timeout_seconds=timeout_seconds, connect_timeout_seconds=timeout_seconds, name="lingxi-ping"
    )
    try:
        (reply,) = await connection.call(command(b"PING"))
    finally:
        connection.abort()
    if isinstance(reply, hiredis.ReplyError):
        raise BrokerUnavailable(str(reply))


class RawConnection(asyncio.Protocol):
    """Pipelined RESP2. Every call waits at most `timeout_seconds` for all of its replies."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._reader = hiredis.Reader()
        self._calls: collections.deque[_Call] = collections.deque()
        self._transport: asyncio.Transport | None = None
        self._failure: BrokerUnavailable | None = None
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        timeout_seconds: float = 5.0,
        connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
        name: str = "lingxi",
    ) -> RawConnection:
        """Open, authenticate, name and select. `url`: redis://, rediss:// or unix://, as redis-py reads it."""
        options = dict(parse_url(url))
        try:
            async with asyncio.timeout(connect_timeout_seconds):
                self = await cls._open(options, timeout_seconds)
        except TimeoutError as error:
            raise BrokerTimeout(f"no connection to Redis within {connect_timeout_seconds} s") from error
        except OSError as error:
            raise BrokerUnavailable(f"cannot connect to Redis: {error}") from error
        try:
            await self._greet(options, name)
        except BaseException:
            self.abort()
            raise
        return self

    @classmethod
    async def _open(cls, options: dict[str, Any], timeout_seconds: float) -> RawConnection:
        loop = asyncio.get_running_loop()

        def protocol() -> RawConnection:
            return cls(timeout_seconds)

        if path := options.get("path"):
            _, unix = await loop.create_unix_connection(protocol, path)
            return unix
        host, port = options.get("host", "localhost"), int(options.get("port", 6379))
        _, self = await loop.create_connection(protocol, host, port, ssl=_ssl_context(options))
        if self._transport is not None and (sock := self._transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return self

    async def _greet(self, options: dict[str, Any], name: str) -> None:
        commands = [command(b"CLIENT", b"SETNAME", name.encode().replace(b" ", b"_"))]
        if password := options.get("password"):
            user = [options["username"].encode()] if options.get("username") else []
            commands.insert(0, command(b"AUTH", *user, password.encode()))
        if database := int(options.get("db", 0)):
            commands.append(command(b"SELECT", b"%d" % database))
        for reply in await self.call(b"".join(commands), len(commands)):
            if isinstance(reply, hiredis.ReplyError):
                raise BrokerUnavailable(f"Redis refused the connection: {reply}")

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────
    async def call(
        self, payload: bytes, replies: int = 1, *, timeout_seconds: float | None = None
    ) -> list[Any]:
        """Send `payload` (that many commands) and return its replies in order; error replies are returned, not raised.

        Raises BrokerTimeout or BrokerUnavailable; in both cases nobody knows whether the commands were run.
        """
        if self._failure is not None or self._transport is None:
            raise self._failure or BrokerUnavailable("not connected to Redis")
        loop = asyncio.get_running_loop()
        pending = _Call(replies, [], loop.create_future())
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        pending.timer = loop.call_later(seconds, self._time_out, seconds)
        self._calls.append(pending)
        self._transport.write(payload)
        return await pending.future

    @property
    def is_open(self) -> bool:
        return self._failure is None and self._transport is not None

    async def close(self) -> None:
        """Close and wait until the socket is gone. Calls that wait get BrokerUnavailable."""
        self.abort()
        await asyncio.shield(self._lost)

    def abort(self) -> None:
        """Close at once, without waiting."""
        self._fail(BrokerUnavailable("the connection to Redis was closed"))

    # ── protocol ─────────────────────────────────────────────────────────────────────────────────────────
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reader, calls = self._reader, self._calls
        try:
            reader.feed(data)
            while (
                reply := reader.gets()
            ) is not False:  # False: no whole reply yet; RESP2 itself has no booleans
                if not calls:
                    raise hiredis.ProtocolError("a reply that nobody asked for")
                current = calls[0]
                current.replies.append(reply)
                current.missing -= 1
                if current.missing == 0:
                    calls.popleft()
                    _settle(current)
        except hiredis.ProtocolError as error:
            self._fail(BrokerUnavailable(f"Redis spoke nonsense: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(BrokerUnavailable(f"the connection to Redis was lost{f': {exc}' if exc else ''}"))
        if not self._lost.done():
            self._lost.set_result(None)

    def _time_out(self, seconds: float) -> None:
        self._fail(BrokerTimeout(f"Redis did not answer within {seconds:g} s"))

    def _fail(self, failure: BrokerUnavailable) -> None:
        if self._failure is None:
            self._failure = failure
        if self._transport is not None:
            self._transport.abort()
        else:
            if not self._lost.done():
                self._lost.set_result(None)
        while self._calls:
            _settle(self._calls.popleft(), self._failure)


def _settle(call: _Call, failure: BrokerUnavailable | None = None) -> None:
    if call.timer is not None:
        call.timer.cancel()
    if call.future.done():  # its caller was cancelled; the replies had to be read all the same
        return
    if failure is None:
        call.future.set_result(call.replies)
    else:
        # A new object for each caller: one exception raised in many tasks would share (and grow) one traceback.
        call.future.set_exception(type(failure)(*failure.args))


def _ssl_context(options: dict[str, Any]) -> ssl.SSLContext | None:
    if options.get("connection_class") is not SSLConnection:
        return None
    context = SSLConnection(
        **{key: value for key, value in options.items() if key.startswith("ssl_")}
    ).ssl_context
    return context.get()
