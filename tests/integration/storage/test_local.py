"""The local folder as object storage: durable, atomic, bounded, clean after every kind of failure."""

import asyncio
import hashlib
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lingxi.observability import failpoints
from lingxi.storage import (
    CHUNK_BYTES,
    ObjectMissing,
    ObjectTooLarge,
    Storage,
    StorageUnavailable,
    open_storage,
)
from lingxi.storage.local import LocalStorage
from tests.support.waiting import wait_until, wait_until_sync

LIMIT = 64 << 20


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    opened = open_storage(f"file://{tmp_path}/a%20folder")
    yield opened
    await opened.close()


async def chunks_of(data: bytes, size: int = 70_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def read(storage: Storage, key: str, start: int = 0, length: int | None = None) -> bytes:
    reader = await storage.open(key, start=start, length=length)
    return b"".join([chunk async for chunk in reader])


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_gives_back_what_was_put_with_its_size_and_hash(storage: Storage) -> None:
    data = os.urandom(3 * CHUNK_BYTES + 17)
    stored = await storage.put(chunks_of(data), max_bytes=LIMIT)
    assert stored.size_bytes == len(data)
    assert stored.sha256 == hashlib.sha256(data).digest()
    assert await read(storage, stored.key) == data


async def test_an_empty_stream_is_an_empty_object(storage: Storage) -> None:
    stored = await storage.put(chunks_of(b""), max_bytes=LIMIT)
    assert stored.size_bytes == 0
    assert await read(storage, stored.key) == b""


@pytest.mark.parametrize(
    ("start", "length"), [(0, 1), (5, None), (CHUNK_BYTES - 1, 2), (CHUNK_BYTES * 2, 10**9), (10**9, 5)]
)
async def test_reads_ranges(storage: Storage, start: int, length: int | None) -> None:
    data = os.urandom(2 * CHUNK_BYTES + 500)
    stored = await storage.put(chunks_of(data), max_bytes=LIMIT)
    reader = await storage.open(stored.key, start=start, length=length)
    assert reader.size_bytes == len(data)
    expected = data[start:] if length is None else data[start : start + length]
    assert b"".join([chunk async for chunk in reader]) == expected


async def test_chunks_are_bounded(storage: Storage) -> None:
    stored = await storage.put(chunks_of(bytes(3 * CHUNK_BYTES), size=3 * CHUNK_BYTES), max_bytes=LIMIT)
    reader = await storage.open(stored.key)
    assert max([len(chunk) async for chunk in reader]) <= CHUNK_BYTES


async def test_the_limit_is_exact_and_leaves_nothing(storage: Storage, tmp_path: Path) -> None:
    stored = await storage.put(chunks_of(bytes(100_000)), max_bytes=100_000)
    await storage.delete(stored.key)
    with pytest.raises(ObjectTooLarge) as caught:
        await storage.put(chunks_of(bytes(100_001)), max_bytes=100_000)
    assert caught.value.limit_bytes == 100_000
    assert files_in(tmp_path) == []


async def test_a_stream_that_fails_leaves_nothing(storage: Storage, tmp_path: Path) -> None:
    async def cut() -> AsyncIterator[bytes]:
        yield bytes(2 * CHUNK_BYTES)
        raise ConnectionResetError("client went away")

    with pytest.raises(ConnectionResetError):
        await storage.put(cut(), max_bytes=LIMIT)
    assert files_in(tmp_path) == []


async def test_a_cancelled_put_leaves_nothing(storage: Storage, tmp_path: Path) -> None:
    half = asyncio.Event()

    async def stalls() -> AsyncIterator[bytes]:
        yield bytes(2 * CHUNK_BYTES)
        half.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(storage.put(stalls(), max_bytes=LIMIT))
    await half.wait()
    assert len(files_in(tmp_path)) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert files_in(tmp_path) == []


async def test_a_put_cancelled_while_a_thread_renames_leaves_nothing(
    storage: Storage, tmp_path: Path
) -> None:
    failpoints.arm("storage.before_rename=pause", tmp_path)
    try:
        task = asyncio.ensure_future(storage.put(chunks_of(b"x"), max_bytes=LIMIT))
        await wait_until((tmp_path / "storage.before_rename.reached").exists)
        task.cancel()
        (tmp_path / "storage.before_rename.release").touch()
        with pytest.raises(asyncio.CancelledError):
            await task
        await wait_until(lambda: files_in(tmp_path / "a folder") == [])
    finally:
        failpoints.disarm()


async def test_nothing_can_be_read_before_the_rename(storage: Storage, tmp_path: Path) -> None:
    failpoints.arm("storage.before_rename=error", tmp_path)
    try:
        with pytest.raises(failpoints.FailpointError):
            await storage.put(chunks_of(b"x"), max_bytes=LIMIT)
    finally:
        failpoints.disarm()
    assert files_in(tmp_path / "a folder") == []


async def test_a_full_disk_is_unavailable_and_leaves_nothing(storage: Storage, tmp_path: Path) -> None:
    """A limit on the size of files makes the kernel refuse a write in the middle of the stream, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (CHUNK_BYTES, hard))
    try:
        with pytest.raises(StorageUnavailable, match="file system") as caught:
            await storage.put(chunks_of(bytes(5 * CHUNK_BYTES)), max_bytes=LIMIT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(tmp_path) not in str(caught.value)
    assert files_in(tmp_path) == []


async def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    storage = LocalStorage(tmp_path / "file" / "objects")
    with pytest.raises(StorageUnavailable):
        await storage.check()
    await storage.close()


async def test_delete_removes_and_may_be_repeated(storage: Storage, tmp_path: Path) -> None:
    stored = await storage.put(chunks_of(b"x"), max_bytes=LIMIT)
    await storage.delete(stored.key)
    await storage.delete(stored.key)
    assert files_in(tmp_path) == []
    with pytest.raises(ObjectMissing):
        await storage.open(stored.key)


async def test_an_open_reader_survives_a_delete(storage: Storage) -> None:
    data = os.urandom(2 * CHUNK_BYTES)
    stored = await storage.put(chunks_of(data), max_bytes=LIMIT)
    reader = await storage.open(stored.key)
    await storage.delete(stored.key)
    assert b"".join([chunk async for chunk in reader]) == data


async def test_readers_that_stop_early_give_their_files_back(storage: Storage) -> None:
    stored = await storage.put(chunks_of(bytes(2 * CHUNK_BYTES)), max_bytes=LIMIT)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        reader = await storage.open(stored.key)
        async for _chunk in reader:
            break
        await reader.close()
        await reader.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "a" * 31, "A" * 32, "a" * 31 + "/", "a" * 32 + "\n"])
async def test_only_its_own_keys_are_paths(storage: Storage, key: str) -> None:
    with pytest.raises(ValueError, match="no storage key"):
        await storage.open(key)
    with pytest.raises(ValueError, match="no storage key"):
        await storage.delete(key)


async def test_checks_that_it_can_write(storage: Storage, tmp_path: Path) -> None:
    await storage.check()
    assert files_in(tmp_path) == []


def test_what_a_killed_put_left_is_swept_after_its_time(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import asyncio, sys
        from lingxi.storage import open_storage

        async def main():
            async def stalls():
                yield bytes(3_000_000)
                await asyncio.Event().wait()
            await open_storage(sys.argv[1]).put(stalls(), max_bytes=10_000_000)

        asyncio.run(main())
    """)
    child = subprocess.Popen([sys.executable, "-c", program, tmp_path.as_uri()], env={"PYTHONPATH": "src"})
    wait_until_sync(lambda: any(path.stat().st_size for path in files_in(tmp_path)))
    child.send_signal(signal.SIGKILL)
    child.wait()

    async def sweep(age_seconds: float) -> int:
        storage = open_storage(tmp_path.as_uri())
        try:
            return await storage.sweep_unfinished(older_than_seconds=age_seconds)
        finally:
            await storage.close()

    (left,) = files_in(tmp_path)
    assert asyncio.run(sweep(3600)) == 0
    os.utime(left, (left.stat().st_mtime - 3601,) * 2)
    assert asyncio.run(sweep(3600)) == 1
    assert files_in(tmp_path) == []


async def test_finished_objects_are_never_swept(storage: Storage) -> None:
    stored = await storage.put(chunks_of(b"x"), max_bytes=LIMIT)
    assert await storage.sweep_unfinished(older_than_seconds=0) == 0
    assert await read(storage, stored.key) == b"x"


@pytest.mark.parametrize(
    "url", ["s3://bucket", "/var/lib", "file://host/x", "file:relative", "file:///x?y", "", "http://x/"]
)
def test_other_urls_are_refused_in_a_sentence(url: str) -> None:
    with pytest.raises(ValueError, match="STORAGE_URL must be file:///"):
        open_storage(url)


COMPOSED = "photo-live/dev/albums/a1/variants/p1/1/thumb-0123456789abcdef.jpg"


async def test_bytes_can_be_put_under_a_composed_key(storage: Storage) -> None:
    stored = await storage.put(chunks_of(b"once"), max_bytes=LIMIT, key=COMPOSED)
    assert stored.key == COMPOSED
    await storage.put(chunks_of(b"once"), max_bytes=LIMIT, key=COMPOSED)  # a late attempt: the same content
    assert await read(storage, COMPOSED) == b"once"


async def test_a_failed_put_leaves_what_another_put_under_its_key(storage: Storage) -> None:
    await storage.put(chunks_of(b"first"), max_bytes=LIMIT, key=COMPOSED)
    with pytest.raises(ObjectTooLarge):
        await storage.put(chunks_of(b"second"), max_bytes=3, key=COMPOSED)
    assert await read(storage, COMPOSED) == b"first"


@pytest.mark.parametrize(
    "key",
    ["../x", "a/../b", "/etc/passwd", "a//b", "a/.hidden", "A/b", "a/b/", "a", "a/ü", "a/" + "b" * 600, ""],
)
async def test_what_might_be_a_path_is_no_key(storage: Storage, key: str) -> None:
    with pytest.raises(ValueError, match="no storage key"):
        await storage.open(key)


async def test_a_prefix_is_removed_with_all_below_it(storage: Storage) -> None:
    for number in ("1", "2"):
        await storage.put(chunks_of(b"x"), max_bytes=LIMIT, key=f"p/a1/{number}/t.jpg")
    await storage.put(chunks_of(b"x"), max_bytes=LIMIT, key="p/a10/1/t.jpg")
    assert await storage.delete_prefix("p/a1/") == 2
    assert await storage.delete_prefix("p/a1/") == 0
    with pytest.raises(ObjectMissing):
        await storage.open("p/a1/1/t.jpg")
    assert await read(storage, "p/a10/1/t.jpg") == b"x"


@pytest.mark.parametrize("prefix", ["", "/", "../", "p", "p/../", "p/a1"])
async def test_only_a_whole_prefix_is_removed(storage: Storage, prefix: str) -> None:
    with pytest.raises(ValueError, match="no prefix"):
        await storage.delete_prefix(prefix)
