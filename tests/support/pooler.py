"""Debian's PgBouncer in transaction mode, in front of a test's PostgreSQL."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.support.programs import need_program
from tests.support.waiting import wait_until_sync

_UNPRIVILEGED = "nobody"


@contextmanager
def pgbouncer(database_url: str, *, pool_size: int = 20) -> Iterator[str]:
    """The address of a pooler to that database, with at most `pool_size` connections to the server."""
    program = need_program("pgbouncer", "to go through a pooler in transaction mode")
    folder = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
    port = _free_port()
    server = urlsplit(database_url)
    name = server.path.removeprefix("/")
    (folder / "pgbouncer.ini").write_text(f"""
[databases]
{name} = host={server.hostname} port={server.port} user={server.username} password={unquote(server.password or "")}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 500
server_round_robin = 1
logfile = {folder}/pgbouncer.log
""")
    owner = None
    if os.geteuid() == 0:  # it refuses to be root
        owner = pwd.getpwnam(_UNPRIVILEGED).pw_uid
        for path in (folder, folder / "pgbouncer.ini"):
            os.chown(path, owner, -1)
    process = subprocess.Popen(
        [program, "-q", str(folder / "pgbouncer.ini")],
        user=owner,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_sync(lambda: _answers(port) or process.poll() is not None)
        assert process.poll() is None, (folder / "pgbouncer.log").read_text()
        yield server._replace(netloc=f"{server.username}@127.0.0.1:{port}", query="pgbouncer=true").geturl()
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
