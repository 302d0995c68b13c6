"""Object storage: one port, its implementations, and `open_storage`, which picks one by URL."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lingxi.storage.errors import ObjectMissing, ObjectTooLarge, StorageError, StorageUnavailable
from lingxi.storage.local import LocalStorage
from lingxi.storage.port import (
    CHUNK_BYTES,
    Listed,
    ObjectReader,
    SignedRequest,
    Stat,
    Storage,
    StoredBytes,
)
from lingxi.storage.s3 import S3Storage
from lingxi.storage.s3_access import S3Access

__all__ = [
    "CHUNK_BYTES",
    "Listed",
    "ObjectMissing",
    "ObjectReader",
    "ObjectTooLarge",
    "S3Access",
    "SignedRequest",
    "Stat",
    "Storage",
    "StorageError",
    "StorageUnavailable",
    "StoredBytes",
    "check_storage_url",
    "open_storage",
]

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"(?:/[a-z0-9][a-z0-9_-]*)*/?")


def open_storage(url: str, s3: S3Access | None = None) -> Storage:
    """The storage at `url`: `file:///absolute/folder`, or `s3://bucket[/prefix]` reached by `s3`.

    ValueError, in a sentence, for any other URL.
    """
    check_storage_url(url)
    parts = urlsplit(url)
    if parts.scheme == "file":
        return LocalStorage(Path(unquote(parts.path)))
    if s3 is None:
        raise ValueError("STORAGE_URL is s3://, but there is no endpoint and no key")
    prefix = parts.path.strip("/")
    return S3Storage(parts.netloc, f"{prefix}/" if prefix else "", s3)


def check_storage_url(url: str) -> None:
    """ValueError, in a sentence, unless it is a storage's URL."""
    parts = urlsplit(url)
    if parts.scheme == "s3":
        if (
            not _BUCKET.fullmatch(parts.netloc)
            or not _PREFIX.fullmatch(parts.path)
            or parts.query
            or parts.fragment
        ):
            raise ValueError(
                "STORAGE_URL must be s3://bucket or s3://bucket/prefix: the prefix in lower-case letters, digits, - and _;"
                " endpoint and keys are settings of their own"
            )
        return
    if parts.scheme != "file":
        raise ValueError(
            f"STORAGE_URL must be file:///absolute/folder or s3://bucket[/prefix], not {parts.scheme or 'no scheme'}:"
        )
    if (
        parts.netloc not in ("", "localhost")
        or not parts.path.startswith("/")
        or parts.query
        or parts.fragment
    ):
        raise ValueError(
            "STORAGE_URL must be file:///absolute/folder: three slashes, and no host, query or fragment"
        )
