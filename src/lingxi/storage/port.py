"""The port: what every object storage can do.

Keys are made here and are random, or they are composed of ids and digests by us: what people call an object is a row in
PostgreSQL and never becomes a part of a path.
"""

import re
import uuid
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

CHUNK_BYTES: Final = 1 << 20  # what one read or write moves: large enough for a disk, small enough for memory

_RANDOM_KEY = re.compile(r"[0-9a-f]{32}")
_PART = r"[a-z0-9](?:[a-z0-9_-]|\.(?!\.))*"  # no dot at the start, no two in a row
_COMPOSED_KEY = re.compile(rf"{_PART}(?:/{_PART})+")
MAX_KEY_CHARACTERS = 512


def new_key() -> str:
    """A key for new bytes: 32 hex digits, never given twice."""
    return uuid.uuid4().hex


def check_key(key: str) -> str:
    """The key itself; ValueError when it is none of ours (and might be a path)."""
    if len(key) > MAX_KEY_CHARACTERS or not (_RANDOM_KEY.fullmatch(key) or _COMPOSED_KEY.fullmatch(key)):
        raise ValueError(f"{key!r} is no storage key")
    return key


def is_random_key(key: str) -> bool:
    """Was it made by `new_key`?"""
    return bool(_RANDOM_KEY.fullmatch(key))


def check_prefix(prefix: str) -> str:
    """The prefix itself; ValueError unless it is the beginning of composed keys and ends in `/`."""
    if not prefix.endswith("/") or not _COMPOSED_KEY.fullmatch(f"{prefix}x"):
        raise ValueError(f"{prefix!r} is no prefix of storage keys")
    return prefix


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """What a put has made durable: where it lies, how much it is, its SHA-256 (32 bytes)."""

    key: str
    size_bytes: int
    sha256: bytes


class ObjectReader(Protocol):
    """Stored bytes being read. Iterate once; chunks are at most CHUNK_BYTES. Close it when you stop early."""

    @property
    def size_bytes(self) -> int:
        """Of the whole object, also when only a part of it is read."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The chunks in order; raises StorageUnavailable when reading fails half-way."""

    async def close(self) -> None:
        """Give the file or connection back; may be called twice."""


class Storage(Protocol):
    """Bytes under keys. Bytes are written once and never changed."""

    async def put(
        self, chunks: AsyncIterable[bytes], *, max_bytes: int, key: str | None = None
    ) -> StoredBytes:
        """Store a stream under a new key, or under `key`, which then has to carry its content; durable when it returns.

        A put that fails or is cancelled leaves nothing that can be read. Raises ObjectTooLarge (past
        `max_bytes`), StorageUnavailable, and whatever `chunks` raises.
        """

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> ObjectReader:
        """Read `length` bytes (default: the rest) from byte `start` on.

        Raises ObjectMissing, StorageUnavailable. An open reader goes on although the object is deleted meanwhile.
        """

    async def delete(self, key: str) -> None:
        """Remove the bytes; no error when there are none. Raises StorageUnavailable."""

    async def delete_prefix(self, prefix: str) -> int:
        """Remove all bytes whose composed keys begin with `prefix` (`…/`); answers how many. Raises StorageUnavailable."""

    async def sweep_unfinished(self, *, older_than_seconds: float) -> int:
        """Remove what puts that crashed have left behind for at least so long; answers how many."""

    async def check(self) -> None:
        """Write, read and remove a few bytes; raises StorageUnavailable with a sentence on what is wrong."""

    async def close(self) -> None:
        """Give back threads and connections."""
