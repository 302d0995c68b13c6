"""A photo's original into storage, straight from the stream: sniffed by its first bytes, counted, and told why when refused.

The rows come afterwards (`add_photo`). Bytes that no row names when the request ends are removed by `discard_unrecorded`; what a
crash leaves is an orphan, and is collected as such.
"""

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from lingxi.domain.errors import ITEM_CODES
from lingxi.imaging.errors import ImageError
from lingxi.imaging.sniff import HEAD_BYTES, sniff
from lingxi.observability.logging import get_logger
from lingxi.services.add_photo import NewPhoto
from lingxi.storage import ObjectTooLarge, Storage, StorageUnavailable, StoredBytes

_log = get_logger("services.receive_photo")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file is not taken: a code of ITEM_CODES, and a sentence for whoever uploaded it."""

    code: str
    message: str


@dataclass(slots=True)
class ReceivedPhoto:
    """A file that has arrived: either `new` (its bytes are durable, no row names them yet) or `refusal`.

    `sha256` is of all its bytes, also of a refused file's; empty unless it was asked for. `recorded`: a row was inserted.
    """

    file_name: str
    sha256: bytes
    new: NewPhoto | None = None
    refusal: Refusal | None = None
    recorded: bool = False


async def receive_photo(
    storage: Storage,
    file_name: str,
    chunks: AsyncIterable[bytes],
    *,
    max_bytes: int,
    with_digest: bool = False,
) -> ReceivedPhoto:
    """Read the stream to its end, whatever becomes of it, so that the next file can be read. Raises what `chunks` raises."""
    received_at = datetime.now(UTC)
    stream = _Watched(chunks, with_digest)
    new: NewPhoto | None = None
    refusal: Refusal | None = None
    try:
        content_type = sniff(await stream.head()).value
        stored = await storage.put(stream.rest(), max_bytes=max_bytes)
        new = new_photo(file_name, stored, content_type, received_at)
    except (ImageError, ObjectTooLarge, StorageUnavailable) as error:
        refusal = refusal_for(error)
        async for _ in stream.rest():
            pass
    return ReceivedPhoto(file_name, stream.digest(), new, refusal)


def new_photo(file_name: str, stored: StoredBytes, content_type: str, received_at: datetime) -> NewPhoto:
    """What `add_photo` takes."""
    return NewPhoto(file_name, stored.key, stored.size_bytes, stored.sha256, content_type, received_at)


def refusal_for(error: Exception) -> Refusal:
    """What a file's uploader is told of an ImageError, ObjectTooLarge or StorageUnavailable."""
    if isinstance(error, ImageError):
        return Refusal(error.code, error.detail)
    if isinstance(error, ObjectTooLarge):
        return Refusal("too_large", too_large_sentence(error.limit_bytes))
    _log.error("original_not_stored", reason=str(error))
    return Refusal("storage_unavailable", ITEM_CODES["storage_unavailable"].sentence)


def too_large_sentence(limit_bytes: int) -> str:
    """With the limit, for people and for programs."""
    return f"The file is larger than {limit_bytes} bytes ({limit_bytes / 1024**2:.0f} MiB), the limit for a photo."


async def discard_unrecorded(storage: Storage, files: Iterable[ReceivedPhoto]) -> None:
    """Remove the bytes of those files of which no row was inserted."""
    unrecorded = [file.new.storage_key for file in files if file.new is not None and not file.recorded]
    await remove_bytes(storage, unrecorded)


async def remove_bytes(storage: Storage, keys: Iterable[str]) -> None:
    """Remove bytes that no row names. What cannot be removed now is collected later."""
    for key in keys:
        try:
            await storage.delete(key)
        except StorageUnavailable as error:
            _log.warning("orphan_left", storage_key=key, reason=str(error))


class _Watched:
    """A stream whose first bytes were looked at, with the SHA-256 of all that was read of it if that is wanted."""

    def __init__(self, chunks: AsyncIterable[bytes], with_digest: bool) -> None:
        self._chunks = aiter(chunks)
        self._ahead = bytearray()
        self._sha256 = hashlib.sha256() if with_digest else None

    async def head(self) -> bytes:
        """The first HEAD_BYTES at least, or all there is; `rest` begins with them."""
        async for chunk in self._read():
            self._ahead += chunk
            if len(self._ahead) >= HEAD_BYTES:
                break
        return bytes(self._ahead)

    async def rest(self) -> AsyncIterator[bytes]:
        """What was not yet taken."""
        if self._ahead:
            ahead, self._ahead = bytes(self._ahead), bytearray()
            yield ahead
        async for chunk in self._read():
            yield chunk

    async def _read(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            if self._sha256 is not None:
                self._sha256.update(chunk)
            yield chunk

    def digest(self) -> bytes:
        return b"" if self._sha256 is None else self._sha256.digest()
