"""The stretches of a resumable upload become one original."""

from collections.abc import AsyncIterator, Sequence

from lingxi.domain.errors import NotFound
from lingxi.imaging.errors import ImageError
from lingxi.imaging.sniff import HEAD_BYTES, sniff
from lingxi.services.add_photo import NewPhoto
from lingxi.services.receive_photo import ReceivedPhoto, new_photo, receive_photo, refusal_for
from lingxi.services.resumable_uploads import Upload, UploadPart
from lingxi.storage import ObjectMissing, Storage, StorageUnavailable, StoredBytes


async def join_parts(storage: Storage, upload: Upload, parts: Sequence[UploadPart]) -> ReceivedPhoto:
    """The original of a complete upload, or why it is refused. One part is the original as it lies; more are copied into one.

    NotFound when a part is gone: the upload was terminated meanwhile.
    """
    try:
        if len(parts) == 1:
            return await _as_it_lies(storage, upload, parts[0])
        received = await receive_photo(
            storage, upload.file_name, _all_of(storage, parts), max_bytes=upload.length_bytes
        )
    except ObjectMissing:
        raise NotFound from None
    except StorageUnavailable as error:  # while reading
        return ReceivedPhoto(upload.file_name, b"", refusal=refusal_for(error))
    if received.new is not None:
        received.new = _received_at_creation(upload, received.new)
    return received


async def _as_it_lies(storage: Storage, upload: Upload, part: UploadPart) -> ReceivedPhoto:
    reader = await storage.open(part.storage_key, length=HEAD_BYTES)
    head = b"".join([chunk async for chunk in reader])
    try:
        content_type = sniff(head).value
    except ImageError as error:
        return ReceivedPhoto(upload.file_name, b"", refusal=refusal_for(error))
    stored = StoredBytes(part.storage_key, part.size_bytes, part.sha256)
    new = new_photo(upload.file_name, stored, content_type, upload.created_at)
    return ReceivedPhoto(upload.file_name, b"", new)


def _received_at_creation(upload: Upload, new: NewPhoto) -> NewPhoto:
    stored = StoredBytes(new.storage_key, new.size_bytes, new.sha256)
    return new_photo(upload.file_name, stored, new.content_type, upload.created_at)


async def _all_of(storage: Storage, parts: Sequence[UploadPart]) -> AsyncIterator[bytes]:
    for part in parts:
        reader = await storage.open(part.storage_key)
        try:
            async for chunk in reader:
                yield chunk
        finally:
            await reader.close()
