"""The port: what every object storage can do.

Keys are made here and are random, or they are composed of ids and digests by us: what people call an object is a row in
PostgreSQL and never becomes a part of a path. The one exception are media that lie beside our objects and were
registered: their keys are `media:` and the name that their owner gave them. They are read, and never written or removed.
"""

import re
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

CHUNK_BYTES: Final = 1 << 20  # what one read or write moves: large enough for a disk, small enough for memory

_RANDOM_KEY = re.compile(r"[0-9a-f]{32}")
_PART = r"[a-z0-9](?:[a-z0-9_-]|\.(?!\.))*"  # no dot at the start, no two in a row
_COMPOSED_KEY = re.compile(rf"{_PART}(?:/{_PART})+")
MAX_KEY_CHARACTERS = 512
MEDIA: Final = "media:"
MAX_MEDIA_BYTES: Final = 1024  # of a name: S3's own limit


def new_key() -> str:
    """A key for new bytes: 32 hex digits, never given twice."""
    return uuid.uuid4().hex


def check_key(key: str) -> str:
    """The key itself; ValueError when it is none of ours (and might be a path)."""
    if len(key) > MAX_KEY_CHARACTERS or not (_RANDOM_KEY.fullmatch(key) or _COMPOSED_KEY.fullmatch(key)):
        raise ValueError(f"{key!r} is no storage key")
    return key


def check_readable_key(key: str) -> str:
    """The key itself; ValueError when it is neither one of ours nor that of registered media."""
    if not key.startswith(MEDIA):
        return check_key(key)
    name = key.removeprefix(MEDIA)
    if (
        not 0 < len(name.encode("utf-8", "replace")) <= MAX_MEDIA_BYTES
        or any(part in ("", ".", "..") for part in name.split("/"))
        or not name.isprintable()
    ):
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


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a listing shows it. `modified_at` is in seconds since 1970, by the storage's clock."""

    key: str
    size_bytes: int
    modified_at: float


@dataclass(frozen=True, slots=True)
class Stat:
    """What storage itself says of an object. `ours`: it was put by this service, and not by somebody beside it."""

    size_bytes: int
    modified_at: float
    ours: bool


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request that whoever has it may make until it expires, with exactly these headers."""

    method: str
    url: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WholeFile:
    """An open file with an object's bytes, which nobody changes, and their SHA-256. The reader closes it; its position is
    anybody's."""

    descriptor: int
    sha256: bytes


class ObjectReader(Protocol):
    """Stored bytes being read. Iterate once; chunks are at most CHUNK_BYTES. Close it when you stop early."""

    @property
    def size_bytes(self) -> int:
        """Of the whole object, also when only a part of it is read."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The chunks in order; raises StorageUnavailable when reading fails half-way."""

    async def whole_file(self) -> "WholeFile | None":
        """The object as a file that need not be copied, all of whose bytes have been read; None where it is no file of ours.

        Instead of iterating. Raises StorageUnavailable.
        """

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

    async def put_file(self, path: Path, *, max_bytes: int, key: str | None = None) -> StoredBytes:
        """`put` of a file of this machine, which stays where it is."""

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> ObjectReader:
        """Read `length` bytes (default: the rest) from byte `start` on.

        Raises ObjectMissing, StorageUnavailable. When the object is deleted meanwhile, an open reader goes on with its
        bytes or raises StorageUnavailable; it never ends early without saying so.
        """

    async def read_small(self, keys: Sequence[str], *, max_bytes: int) -> list[bytes | None]:
        """The bytes of several small objects, each cut after `max_bytes`; None for one that is missing.

        Quicker than one after the other. All are in memory at once. Raises StorageUnavailable.
        """

    async def delete(self, key: str) -> None:
        """Remove the bytes; no error when there are none. Raises StorageUnavailable."""

    async def delete_prefix(self, prefix: str) -> int:
        """Remove all bytes whose composed keys begin with `prefix` (`…/`); answers how many. Raises StorageUnavailable."""

    async def stat(self, key: str) -> Stat:
        """What storage says of the object. Raises ObjectMissing, StorageUnavailable."""

    def list_keys(self, prefix: str = "", *, older_than_seconds: float = 0.0) -> AsyncIterator[Listed]:
        """Finished objects of ours whose composed keys begin with `prefix` (`…/`), or, with no prefix, the random keys.

        A stream, whatever the number; in no order. What is put or removed meanwhile may be in it or not.
        Raises StorageUnavailable.
        """

    async def move(self, key: str, new_key: str) -> None:
        """Give an object another key. Raises ObjectMissing, StorageUnavailable; after that it has one of the two, or both."""

    async def signed_put(self, key: str, *, size_bytes: int, lifetime_seconds: int) -> SignedRequest | None:
        """A request by which a client puts exactly so many bytes under `key`; None where storage cannot sign."""

    async def signed_get(
        self, key: str, *, lifetime_seconds: int, file_name: str, content_type: str
    ) -> SignedRequest | None:
        """A request by which a client gets the bytes as an attachment; None where storage cannot sign."""

    async def sweep_unfinished(self, *, older_than_seconds: float) -> int:
        """Remove what puts that crashed have left behind for at least so long; answers how many."""

    async def check(self) -> None:
        """Write, read and remove a few bytes; raises StorageUnavailable with a sentence on what is wrong."""

    async def close(self) -> None:
        """Give back threads and connections."""
