"""Object storage: one port, its implementations, and `open_storage`, which picks one by URL."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from lingxi.storage.errors import ObjectMissing, ObjectTooLarge, StorageError, StorageUnavailable
from lingxi.storage.local import LocalStorage
from lingxi.storage.port import CHUNK_BYTES, ObjectReader, Storage, StoredBytes

__all__ = [
    "CHUNK_BYTES",
    "ObjectMissing",
    "ObjectReader",
    "ObjectTooLarge",
    "Storage",
    "StorageError",
    "StorageUnavailable",
    "StoredBytes",
    "open_storage",
]


def open_storage(url: str) -> Storage:
    """The storage at `url` (`file:///absolute/folder`); ValueError, in a sentence, for any other URL."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        raise ValueError(f"STORAGE_URL must be file:///absolute/folder, not {parts.scheme or 'no scheme'}:")
    if (
        parts.netloc not in ("", "localhost")
        or not parts.path.startswith("/")
        or parts.query
        or parts.fragment
    ):
        raise ValueError(
            "STORAGE_URL must be file:///absolute/folder: three slashes, and no host, query or fragment"
        )
    return LocalStorage(Path(unquote(parts.path)))
