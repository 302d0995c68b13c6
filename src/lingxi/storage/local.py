"""Storage in a folder of this machine.

    <root>/objects/<first 2 hex digits>/<key>     finished, never changed; random keys
    <root>/named/<key>                            likewise; composed keys, with their slashes as folders
    <root>/unfinished/<random>                    being written, or left by a crash

A put writes and fsyncs the unfinished file, renames it, and fsyncs the folder: after that a power cut loses
nothing, and before it a reader finds nothing. All file work is done by threads of our own, so that a slow disk
stalls no event loop.
"""

import asyncio
import contextlib
import errno
import hashlib
import os
import shutil
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from lingxi.observability import failpoints
from lingxi.storage.errors import ObjectMissing, ObjectTooLarge, StorageUnavailable
from lingxi.storage.port import CHUNK_BYTES, StoredBytes, check_key, check_prefix, is_random_key, new_key

_THREADS: Final = 4
_REASONS: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file system takes no file of this size",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "this user may not use the folder",
    errno.EPERM: "this user may not use the folder",
    errno.EIO: "the disk reports an error",
    errno.EMFILE: "this process has too many open files",
    errno.ENFILE: "the machine has too many open files",
}

ResultT = TypeVar("ResultT")


class LocalStorage:
    """A `Storage` in the folder `root` (made when it is not there), which is on one file system: puts rename."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._unfinished = root / "unfinished"
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="storage")

    async def put(
        self, chunks: AsyncIterable[bytes], *, max_bytes: int, key: str | None = None
    ) -> StoredBytes:
        """See `Storage.put`."""
        key = key or new_key()
        upload = _Upload(self._unfinished, key, self._path(key), max_bytes)
        try:
            await self._run(upload.begin)
            block = bytearray()
            async for chunk in chunks:
                block += chunk
                if len(block) >= CHUNK_BYTES:
                    await self._run(upload.write, block)
                    block = bytearray()
            await self._run(upload.write, block)
            stored = await self._run(upload.finish)
            await failpoints.reach("storage.after_put")
            return stored
        except BaseException:
            # A thread may still be writing for a task that is cancelled: discard waits for it, come what may.
            await asyncio.shield(self._loop_call(upload.discard))
            raise

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> "LocalReader":
        """See `Storage.open`."""
        path = self._path(key)
        call = self._loop_call(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            file = _OpenFile(await asyncio.shield(call))
        except FileNotFoundError as error:
            raise ObjectMissing("no bytes are stored under this key") from error
        except OSError as error:
            raise _unavailable(error) from error
        except asyncio.CancelledError:
            call.add_done_callback(_close_opened)  # a thread may still open it
            raise
        return LocalReader(self._run, file, start, length)

    async def delete(self, key: str) -> None:
        """See `Storage.delete`."""

        def remove() -> None:
            path = self._path(key)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                _sync_folder(path.parent)

        await self._run(remove)

    async def delete_prefix(self, prefix: str) -> int:
        """See `Storage.delete_prefix`. Folders that are empty then go too."""
        folder = self._root / "named" / check_prefix(prefix)

        def remove() -> int:
            files = [path for path in folder.rglob("*") if path.is_file()]
            for path in files:
                path.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            if folder.parent.is_dir():
                _sync_folder(folder.parent)
            return len(files)

        return await self._run(remove)

    async def sweep_unfinished(self, *, older_than_seconds: float) -> int:
        """See `Storage.sweep_unfinished`. Age is that of the last write."""

        def sweep() -> int:
            removed = 0
            for path in self._unfinished.iterdir() if self._unfinished.exists() else ():
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime >= older_than_seconds:
                        path.unlink()
                        removed += 1
            return removed

        return await self._run(sweep)

    async def check(self) -> None:
        """See `Storage.check`."""
        written = b"lingxi"

        async def chunks() -> AsyncIterator[bytes]:
            yield written

        stored = await self.put(chunks(), max_bytes=len(written))
        try:
            reader = await self.open(stored.key)
            if b"".join([chunk async for chunk in reader]) != written:
                raise StorageUnavailable("storage gives back other bytes than were written")
        finally:
            await self.delete(stored.key)

    async def close(self) -> None:
        """Wait for file work under way."""
        await asyncio.to_thread(self._threads.shutdown)

    def _path(self, key: str) -> Path:
        check_key(key)
        return self._root / "objects" / key[:2] / key if is_random_key(key) else self._root / "named" / key

    def _loop_call(self, work: Callable[..., ResultT], *arguments: object) -> "asyncio.Future[ResultT]":
        return asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def _run(self, work: Callable[..., ResultT], *arguments: object) -> ResultT:
        try:
            return await self._loop_call(work, *arguments)
        except OSError as error:
            raise _unavailable(error) from error


class LocalReader:
    """An open file, read chunk by chunk; see `ObjectReader`."""

    def __init__(
        self,
        run: Callable[..., Coroutine[Any, Any, bytes]],
        file: "_OpenFile",
        start: int,
        length: int | None,
    ) -> None:
        self.size_bytes = file.size_bytes
        self._run = run
        self._file = file
        self._position = start
        self._end = file.size_bytes if length is None else min(file.size_bytes, start + length)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while self._position < self._end:
                chunk = await self._run(
                    self._file.read, min(CHUNK_BYTES, self._end - self._position), self._position
                )
                if not chunk:
                    raise StorageUnavailable("a stored file ended before its size")
                self._position += len(chunk)
                yield chunk
        finally:
            await self.close()

    async def close(self) -> None:
        """See `ObjectReader.close`."""
        self._file.close()


class _OpenFile:
    """A descriptor that is read in threads; never closed under a read, since its number may be given out anew."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._reading = False
        self._closed = False
        self.size_bytes = os.fstat(descriptor).st_size

    def read(self, size: int, position: int) -> bytes:
        with self._lock:
            if self._closed:
                return b""
            self._reading = True
        try:
            return os.pread(self._descriptor, size, position)
        finally:
            with self._lock:
                self._reading = False
                if self._closed:
                    os.close(self._descriptor)

    def close(self) -> None:
        with self._lock:
            if not self._closed and not self._reading:
                os.close(self._descriptor)
            self._closed = True


class _Upload:
    """One put. Its methods run in threads, one at a time; after `discard` none of them does anything."""

    def __init__(self, unfinished: Path, key: str, final: Path, max_bytes: int) -> None:
        self._key = key
        self._temporary = unfinished / new_key()
        self._final = final
        self._finished = False
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._sha256 = hashlib.sha256()
        self._descriptor: int | None = None
        self._discarded = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        with self._lock:
            if not self._discarded:
                _make_folder(self._temporary.parent)
                _make_folder(self._final.parent)
                self._descriptor = os.open(
                    self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
                )

    def write(self, block: bytearray) -> None:
        with self._lock:
            if self._discarded or self._descriptor is None:
                return
            self._size_bytes += len(block)
            if self._size_bytes > self._max_bytes:
                raise ObjectTooLarge(self._max_bytes)
            self._sha256.update(block)
            view = memoryview(block)
            while view:
                view = view[os.write(self._descriptor, view) :]

    def finish(self) -> StoredBytes:
        with self._lock:
            if not self._discarded and self._descriptor is not None:
                os.fsync(self._descriptor)
                failpoints.reach_sync("storage.before_rename")
                os.rename(self._temporary, self._final)
                self._finished = True
                _sync_folder(self._final.parent)
                self._close()
            return StoredBytes(self._key, self._size_bytes, self._sha256.digest())

    def discard(self) -> None:
        with self._lock:
            self._discarded = True
            with contextlib.suppress(
                OSError
            ):  # what cannot be removed now is an orphan, and is collected later
                self._close()
                if self._finished and is_random_key(
                    self._key
                ):  # a composed key may be somebody else's by now
                    self._final.unlink(missing_ok=True)
                self._temporary.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


def _make_folder(folder: Path) -> None:
    """mkdir -p, with each new entry durable in its parent."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _close_opened(call: "asyncio.Future[int]") -> None:
    if call.exception() is None:
        os.close(call.result())


def _unavailable(error: OSError) -> StorageUnavailable:
    number = error.errno or 0
    return StorageUnavailable(f"storage cannot serve: {_REASONS.get(number) or os.strerror(number)}")
