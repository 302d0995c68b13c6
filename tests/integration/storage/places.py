"""A storage under test and a way around it: what lies there in truth, and how to make it fail."""

from __future__ import annotations

import asyncio
import os
import resource
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lingxi.storage import CHUNK_BYTES, Storage, open_storage
from lingxi.storage.s3_multipart import MultipartClient
from tests.support.s3 import S3Server

LIMIT = 64 << 20
BUCKET = "media"


async def chunks_of(data: bytes, size: int = 70_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def read(storage: Storage, key: str, start: int = 0, length: int | None = None) -> bytes:
    reader = await storage.open(key, start=start, length=length)
    return b"".join([chunk async for chunk in reader])


@dataclass
class Stalled:
    """A stream that comes so far and no further; `half` is set then."""

    size_bytes: int
    half: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self.size_bytes // CHUNK_BYTES):
            yield bytes(CHUNK_BYTES)
        self.half.set()
        await asyncio.Event().wait()


@dataclass
class FolderPlace:
    """The local storage in `folder`."""

    storage: Storage
    folder: Path
    kind: str = "local"

    async def everything(self) -> list[str]:
        """Whatever lies there, finished or not, but for media that were there before."""
        files = [path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file()]
        return [str(path) for path in files if path.parts[0] != "media"]

    def beside(self, name: str, data: bytes) -> None:
        """Put media there without us."""
        path = self.folder / "media" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    @contextmanager
    def full(self) -> Iterator[None]:
        """The kernel takes no file past a mebibyte, as a full disk does."""
        with file_limit(os.getpid(), CHUNK_BYTES):
            yield

    async def age_unfinished(self, seconds: float) -> None:
        for path in (self.folder / "unfinished").iterdir():
            os.utime(path, (path.stat().st_mtime - seconds,) * 2)


@dataclass
class BucketPlace:
    """The S3 storage below a prefix of its own in a bucket of a real server."""

    storage: Storage
    server: S3Server
    prefix: str
    kind: str = "s3"

    async def everything(self) -> list[str]:
        store = self.server.store()
        pages = store.list(prefix=f"{self.prefix}/")
        client = MultipartClient(BUCKET, self.server.access)
        try:
            unfinished = [upload.key async for upload in client.unfinished(f"{self.prefix}/")]
        finally:
            await client.close()
        return [one["path"] for page in pages for one in page] + unfinished

    def beside(self, name: str, data: bytes) -> None:
        self.server.store().put(name, data, use_multipart=False)

    @contextmanager
    def full(self) -> Iterator[None]:
        assert self.server.pid is not None
        with file_limit(self.server.pid, CHUNK_BYTES):
            yield


Place = FolderPlace | BucketPlace


@asynccontextmanager
async def open_place(request: pytest.FixtureRequest, kind: str, folder: Path) -> AsyncIterator[Place]:
    """The storage of that kind (`local`, `s3`), of this test alone."""
    opened: Place
    if kind == "local":
        opened = FolderPlace(open_storage(folder.as_uri()), folder)
    else:
        server = request.getfixturevalue("s3_server")
        prefix = f"t-{uuid.uuid4().hex[:12]}"
        opened = BucketPlace(open_storage(f"s3://{BUCKET}/{prefix}", server.access), server, prefix)
    try:
        yield opened
    finally:
        await opened.storage.close()


@contextmanager
def file_limit(pid: int, size_bytes: int) -> Iterator[None]:
    """The process may write no file past this size."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
