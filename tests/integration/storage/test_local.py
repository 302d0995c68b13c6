"""What only the local folder does: renames, the file system's refusals, links, what a killed process leaves."""

import asyncio
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
from lingxi.storage import CHUNK_BYTES, ObjectMissing, Storage, StorageUnavailable, open_storage
from lingxi.storage.local import LocalStorage
from lingxi.storage.port import new_key
from tests.integration.storage.places import LIMIT, chunks_of
from tests.support.waiting import wait_until, wait_until_sync


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    opened = open_storage(f"file://{tmp_path}/a%20folder")
    yield opened
    await opened.close()


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


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


@pytest.mark.parametrize("instead", ["an empty folder", "a file", "nothing"])
async def test_a_disk_that_is_not_mounted_misses_nothing_and_takes_nothing(
    storage: Storage, tmp_path: Path, instead: str
) -> None:
    """What a row names is not gone: a photo would fail for good, and a collector would believe that it had removed it."""
    root, aside = tmp_path / "a folder", tmp_path / "aside"
    key = (await storage.put(chunks_of(b"x"), max_bytes=LIMIT)).key
    named = (await storage.put(chunks_of(b"y"), max_bytes=LIMIT, key="a/b/c")).key
    root.rename(aside)
    if instead == "a file":
        root.touch()
    elif instead == "an empty folder":
        root.mkdir()

    async def listed(prefix: str) -> list[str]:
        return [one.key async for one in storage.list_keys(prefix)]

    for tried in (
        storage.open(key), storage.open("media:a.jpg"), storage.stat(key), storage.read_small([key], max_bytes=9),
        storage.delete(key), storage.delete_prefix("a/b/"), storage.move(key, new_key()), listed(""), listed("a/"),
        storage.put(chunks_of(b"z"), max_bytes=LIMIT), storage.sweep_unfinished(older_than_seconds=0),
    ):  # fmt: skip
        with pytest.raises(StorageUnavailable):
            await tried
    assert files_in(root) == []
    if root.exists():
        (root.unlink if root.is_file() else root.rmdir)()
    aside.rename(root)
    assert await storage.read_small([key, named], max_bytes=9) == [b"x", b"y"]
    with pytest.raises(ObjectMissing):
        await storage.open(new_key())


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


@pytest.mark.parametrize(
    "url", ["ftp://bucket", "/var/lib", "file://host/x", "file:relative", "file:///x?y", "", "http://x/"]
)
def test_other_urls_are_refused_in_a_sentence(url: str) -> None:
    with pytest.raises(ValueError, match="STORAGE_URL must be file:///"):
        open_storage(url)


async def test_links_and_pipes_among_media_are_not_followed(storage: Storage, tmp_path: Path) -> None:
    """A link may lead out of the folder, and a pipe would be waited for."""
    media = tmp_path / "a folder" / "media"
    media.mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"not for you")
    (media / "link").symlink_to(tmp_path / "secret")
    (media / "folder").mkdir()
    (media / "out").symlink_to(tmp_path)
    os.mkfifo(media / "pipe")
    for name in ("link", "folder", "pipe", "out/secret"):
        with pytest.raises(ObjectMissing):
            await storage.open(f"media:{name}")
        with pytest.raises(ObjectMissing):
            await storage.stat(f"media:{name}")
    (media / "folder" / "plain").write_bytes(b"for you")
    names = [
        "folder/plain",
        "link",
        "out/secret",
        "out/secret",
        "nowhere/x",
        "pipe",
        "folder",
        "folder/plain",
    ]
    read = await storage.read_small([f"media:{name}" for name in names], max_bytes=100)
    assert read == [b"for you", *[None] * 6, b"for you"]


async def test_a_folder_signs_nothing(storage: Storage) -> None:
    assert await storage.signed_put("incoming/a", size_bytes=1, lifetime_seconds=1) is None
    assert (
        await storage.signed_get("a" * 32, lifetime_seconds=1, file_name="a", content_type="image/png")
        is None
    )
