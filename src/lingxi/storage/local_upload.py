"""Writing a file of the local storage: the steps of one put, each of which runs in a thread. The first one begins, so that a
small file is stored in a single step."""

import contextlib
import ctypes
import errno
import hashlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lingxi.observability import failpoints
from lingxi.storage.errors import ObjectTooLarge, StorageUnavailable
from lingxi.storage.port import CHUNK_BYTES, StoredBytes, is_random_key, new_key

AWAY: Final = "the folder of the storage is not there; is its disk mounted?"
Buffer = bytes | memoryview
MOST_AT_ONCE: Final = 1024  # buffers that the kernel takes in one call
_AHEAD_BYTES: Final = 4 << 20  # the disk begins with what was written, so that the end has less to wait for
_SYNC_FILE_RANGE_WRITE: Final = 2

_LIBC: Final = ctypes.CDLL(None)
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


class LocalUpload:
    """One put. Its methods run in threads, one at a time; after `discard` none of them does anything."""

    def __init__(self, unfinished: Path, key: str, final: Path, max_bytes: int) -> None:
        self._key = key
        self._temporary = unfinished / new_key()
        self._final = final
        self._finished = False
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._on_its_way = 0
        self._sha256 = hashlib.sha256()
        self._descriptor: int | None = None
        self._discarded = False
        self._lock = threading.Lock()

    def write(self, blocks: Sequence[Buffer]) -> None:
        """The next bytes, in at most MOST_AT_ONCE pieces."""
        with self._lock:
            if not self._discarded:
                self._write(blocks)

    def finish(self, blocks: Sequence[Buffer]) -> StoredBytes:
        """The last bytes; durable when it returns."""
        with self._lock:
            return self._finish(blocks)

    def copy(self, source: Path) -> StoredBytes:
        """All of a file, at once."""
        with self._lock, open(source, "rb", buffering=0) as file:
            block = bytearray(min(CHUNK_BYTES, max(1, os.fstat(file.fileno()).st_size)))
            while not self._discarded and (count := file.readinto(block)):
                self._write([memoryview(block)[:count]])
            return self._finish([])

    def _write(self, blocks: Sequence[Buffer]) -> None:
        size_bytes = sum(map(len, blocks))
        self._size_bytes += size_bytes
        if self._size_bytes > self._max_bytes:
            raise ObjectTooLarge(self._max_bytes)
        if self._descriptor is None:
            try:
                self._descriptor = os.open(
                    self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
                )
            except (FileNotFoundError, NotADirectoryError) as error:
                raise StorageUnavailable(AWAY) from error
            make_folder(self._final.parent)
        for block in blocks:
            self._sha256.update(block)
        written = os.writev(self._descriptor, blocks)
        if written < size_bytes:  # the disk is almost full, or of a kind that takes less at once
            left = memoryview(b"".join(blocks))[written:]
            while left:
                left = left[os.write(self._descriptor, left) :]
        if self._size_bytes - self._on_its_way >= _AHEAD_BYTES:
            start, self._on_its_way = self._on_its_way, self._size_bytes
            _begin_writing(self._descriptor, start, self._size_bytes - start)

    def _finish(self, blocks: Sequence[Buffer]) -> StoredBytes:
        if not self._discarded:
            self._write(blocks)
            assert self._descriptor is not None
            os.fsync(self._descriptor)
            failpoints.reach_sync("storage.before_rename")
            os.rename(self._temporary, self._final)
            self._finished = True
            sync_folder(self._final.parent)
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


def _begin_writing(descriptor: int, start: int, size_bytes: int) -> None:
    """Ask the kernel to write this part, and wait for nothing (sync_file_range(2)). A hint: where it fails, fsync does all."""
    hint = getattr(_LIBC, "sync_file_range", None)
    if hint is not None:
        whole = ctypes.c_int64
        hint(descriptor, whole(start), whole(size_bytes), _SYNC_FILE_RANGE_WRITE)


def make_folder(folder: Path) -> None:
    """mkdir -p, with each new entry durable in its parent."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unavailable(error: OSError) -> StorageUnavailable:
    number = error.errno or 0
    return StorageUnavailable(f"storage cannot serve: {_REASONS.get(number) or os.strerror(number)}")
