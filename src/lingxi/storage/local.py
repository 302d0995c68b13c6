"""Storage in a folder of this machine.

    <root>/objects/<first 2 hex digits>/<key>     finished, never changed; random keys
    <root>/named/<key>                            likewise; composed keys, with their slashes as folders
    <root>/unfinished/<random>                    being written, or left by a crash; the folder is made at starts alone
    <root>/media/<name>                           not ours: put there by its owner, to be registered and read

A put writes and fsyncs the unfinished file, renames it, and fsyncs the folder: after that a power cut loses
nothing, and before it a reader finds nothing. All file work is done by threads of our own, so that a slow disk
stalls no event loop.

Where the disk of the root is not mounted any more, an empty folder may lie in its place. Nothing is missing then, and nothing may
be put there: without `unfinished`, storage is unavailable.
"""

import asyncio
import contextlib
import itertools
import os
import shutil
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from lingxi.observability import failpoints
from lingxi.storage.checking import check_by_trying
from lingxi.storage.errors import ObjectMissing, StorageError, StorageUnavailable
from lingxi.storage.local_files import NOT_THERE, Parts, open_file, read_files
from lingxi.storage.local_reader import LocalReader, OpenFile
from lingxi.storage.local_upload import AWAY, MOST_AT_ONCE, LocalUpload, make_folder, sync_folder, unavailable
from lingxi.storage.port import (
    CHUNK_BYTES,
    MEDIA,
    Listed,
    SignedRequest,
    Stat,
    StoredBytes,
    check_key,
    check_prefix,
    check_readable_key,
    is_random_key,
    new_key,
)

_THREADS: Final = 4
_LIST_BATCH: Final = 500
ResultT = TypeVar("ResultT")


class LocalStorage:
    """A `Storage` in the folder `root` (made when it is not there), which is on one file system: puts rename."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._unfinished = root / "unfinished"
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="storage")
        with contextlib.suppress(OSError):  # whoever uses it is told
            make_folder(self._unfinished)

    async def put(
        self, chunks: AsyncIterable[bytes], *, max_bytes: int, key: str | None = None
    ) -> StoredBytes:
        """See `Storage.put`."""
        key = key or new_key()
        upload = LocalUpload(self._unfinished, key, self._path(key), max_bytes)
        try:
            gathered: list[bytes] = []
            size = 0
            async for chunk in chunks:
                gathered.append(chunk)
                size += len(chunk)
                if size >= CHUNK_BYTES or len(gathered) >= MOST_AT_ONCE:
                    await self._run(upload.write, gathered)
                    gathered, size = [], 0
            stored = await self._run(upload.finish, gathered)
            await failpoints.reach("storage.after_put")
            return stored
        except BaseException:
            # A thread may still be writing for a task that is cancelled: discard waits for it, come what may.
            await asyncio.shield(self._loop_call(upload.discard))
            raise

    async def put_file(self, path: Path, *, max_bytes: int, key: str | None = None) -> StoredBytes:
        """See `Storage.put_file`: in one thread, since each hop there costs more than a small file."""
        key = key or new_key()
        upload = LocalUpload(self._unfinished, key, self._path(key), max_bytes)
        try:
            stored = await self._run(upload.copy, path)
            await failpoints.reach("storage.after_put")
            return stored
        except BaseException:
            await asyncio.shield(self._loop_call(upload.discard))
            raise

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> "LocalReader":
        """See `Storage.open`."""
        parts = _readable_parts(key)
        call = self._loop_call(open_file, self._root, parts)
        try:
            file = OpenFile(await asyncio.shield(call))
        except NOT_THERE as error:
            raise await self._missing() from error
        except OSError as error:
            raise unavailable(error) from error
        except asyncio.CancelledError:
            call.add_done_callback(_close_opened)  # a thread may still open it
            raise
        return LocalReader(self._run, file, start, length, ours=not key.startswith(MEDIA))

    async def read_small(self, keys: Sequence[str], *, max_bytes: int) -> list[bytes | None]:
        """See `Storage.read_small`: all of them in one thread, since each hop there costs more than a small file."""

        def read(wanted: Sequence[Parts]) -> list[bytes | None]:
            found = read_files(self._root, wanted, max_bytes)
            if None in found:
                self._refuse_if_away()
            return found

        return await self._run(read, [_readable_parts(key) for key in keys])

    async def delete(self, key: str) -> None:
        """See `Storage.delete`."""

        def remove() -> None:
            self._refuse_if_away()
            path = self._path(key)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                sync_folder(path.parent)

        await self._run(remove)

    async def delete_prefix(self, prefix: str) -> int:
        """See `Storage.delete_prefix`. Folders that are empty then go too."""
        folder = self._root / "named" / check_prefix(prefix)

        def remove() -> int:
            self._refuse_if_away()
            files = [path for path in folder.rglob("*") if path.is_file()]
            for path in files:
                path.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            if folder.parent.is_dir():
                sync_folder(folder.parent)
            return len(files)

        return await self._run(remove)

    async def stat(self, key: str) -> Stat:
        """See `Storage.stat`."""
        parts = _readable_parts(key)

        def look() -> Stat:
            descriptor = open_file(self._root, parts)
            try:
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            return Stat(status.st_size, status.st_mtime, not key.startswith(MEDIA))

        try:
            return await self._loop_call(look)
        except NOT_THERE as error:
            raise await self._missing() from error
        except OSError as error:
            raise unavailable(error) from error

    async def list_keys(self, prefix: str = "", *, older_than_seconds: float = 0.0) -> AsyncIterator[Listed]:
        """See `Storage.list_keys`."""
        named = self._root / "named"
        files = _files_in(named / check_prefix(prefix) if prefix else self._root / "objects")
        newest = time.time() - older_than_seconds
        await self._run(self._refuse_if_away)
        while batch := await self._run(lambda: list(itertools.islice(files, _LIST_BATCH))):
            for path, size_bytes, modified_at in batch:
                if modified_at <= newest:
                    key = path.relative_to(named).as_posix() if prefix else path.name
                    yield Listed(key, size_bytes, modified_at)

    async def move(self, key: str, new_key: str) -> None:
        """See `Storage.move`."""
        source, target = self._path(key), self._path(new_key)

        def rename() -> None:
            if not source.exists():
                self._refuse_if_away()
                raise ObjectMissing("no bytes are stored under this key")
            make_folder(target.parent)
            os.rename(source, target)
            sync_folder(target.parent)
            sync_folder(source.parent)

        await self._run(rename)

    async def signed_put(self, key: str, *, size_bytes: int, lifetime_seconds: int) -> SignedRequest | None:
        """See `Storage.signed_put`: a folder has no address."""
        return None

    async def signed_get(
        self, key: str, *, lifetime_seconds: int, file_name: str, content_type: str
    ) -> SignedRequest | None:
        """See `Storage.signed_get`: a folder has no address."""
        return None

    async def sweep_unfinished(self, *, older_than_seconds: float) -> int:
        """See `Storage.sweep_unfinished`. Age is that of the last write."""

        def sweep() -> int:
            removed = 0
            for path in self._unfinished.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime >= older_than_seconds:
                        path.unlink()
                        removed += 1
            return removed

        return await self._run(sweep)

    async def check(self) -> None:
        """See `Storage.check`."""
        await check_by_trying(self)

    async def close(self) -> None:
        """Wait for file work under way."""
        await asyncio.to_thread(self._threads.shutdown)

    async def _missing(self) -> StorageError:
        """What is wrong when a file is not there: only that, or all of it."""
        try:
            await self._run(self._refuse_if_away)
        except StorageUnavailable as away:
            return away
        return ObjectMissing("no bytes are stored under this key")

    def _refuse_if_away(self) -> None:
        """StorageUnavailable when this is not the folder that puts went to. In a thread."""
        if not self._unfinished.is_dir():
            raise StorageUnavailable(AWAY)

    def _path(self, key: str) -> Path:
        return self._root.joinpath(*_parts(key))

    def _loop_call(self, work: Callable[..., ResultT], *arguments: object) -> "asyncio.Future[ResultT]":
        return asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def _run(self, work: Callable[..., ResultT], *arguments: object) -> ResultT:
        try:
            return await self._loop_call(work, *arguments)
        except OSError as error:
            raise unavailable(error) from error


def _parts(key: str) -> Parts:
    check_key(key)
    return ("objects", key[:2], key) if is_random_key(key) else ("named", *key.split("/"))


def _readable_parts(key: str) -> Parts:
    check_readable_key(key)
    return ("media", *key.removeprefix(MEDIA).split("/")) if key.startswith(MEDIA) else _parts(key)


def _files_in(folder: Path) -> Iterator[tuple[Path, int, float]]:
    """All files below it with size and time of their last write, a folder at a time; what goes away meanwhile is left out."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_in(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    yield Path(entry.path), status.st_size, status.st_mtime


def _close_opened(call: "asyncio.Future[int]") -> None:
    if call.exception() is None:
        os.close(call.result())
