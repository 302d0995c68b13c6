"""A DNS server of the test (UDP), a resolver that asks it, and a witness of every connection that this process makes."""

from __future__ import annotations

import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, Self

import pytest


class DnsServer:
    """Answers a name's questions in turn from `answers[name]`, each a list of addresses; the last one stays. TTL 0."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = self._socket.getsockname()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.sendto(b"", self.address)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            question, sender = self._socket.recvfrom(512)
            if not question:
                return
            name, end = _read_name(question, 12)
            self.asked.append(name)
            turns = self.answers.get(name, [[]])
            addresses = turns.pop(0) if len(turns) > 1 else turns[0]
            head = question[:2] + struct.pack("!HHHHH", 0x8180, 1, len(addresses), 0, 0)
            self._socket.sendto(head + question[12:end] + b"".join(map(_record, addresses)), sender)


def _read_name(packet: bytes, at: int) -> tuple[str, int]:
    labels = []
    while size := packet[at]:
        labels.append(packet[at + 1 : at + 1 + size].decode())
        at += 1 + size
    return ".".join(labels), at + 5


def _record(text: str) -> bytes:
    address = ip_address(text)
    kind = 1 if address.version == 4 else 28
    return b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(address.packed)) + address.packed


def ask(server: tuple[str, int], name: str) -> list[str]:
    """The addresses that the server answers for a name: one question over UDP."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(10)
        asking.sendto(b"\0\7\1\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1", server)
        answer = asking.recv(4096)
    _, at = _read_name(answer, 12)
    found = []
    for _ in range(struct.unpack("!H", answer[6:8])[0]):
        (size,) = struct.unpack("!H", answer[at + 10 : at + 12])
        found.append(str(ip_address(answer[at + 12 : at + 12 + size])))
        at += 12 + size
    return found


@contextmanager
def resolved_by(server: DnsServer) -> Iterator[None]:
    """Whatever in this process asks for a name's addresses asks this server: our code, httpx, the event loop."""
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *rest: Any, **named: Any) -> Any:
        try:
            return real(host, port, *rest, **{**named, "flags": socket.AI_NUMERICHOST})
        except OSError:
            addresses = ask(server.address, host)
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [
            (socket.AF_INET6 if ":" in text else socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port))
            for text in addresses
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        yield


class Witness:
    """TCP connections that this process began while it watched."""

    def __init__(self) -> None:
        self.connections: list[str] = []
        self.watching = False
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect" and self.watching and arguments[0].type & socket.SOCK_STREAM:
            self.connections.append(arguments[1][0])

    @contextmanager
    def watch(self) -> Iterator[list[str]]:
        self.connections.clear()
        self.watching = True
        try:
            yield self.connections
        finally:
            self.watching = False
