"""Publish a photo: from the stored original to what viewers see.

The steps, in order: read the row; have the original as a file, and see that its bytes are those that were put; make the variants
in a child that can be killed; put them under names that carry their content; and one transaction for rows, state, version
and event. Whatever crashes in between leaves only objects that no row names, and running it again is harmless.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Literal
from uuid import UUID

from lingxi.db.photo_rows import photo_of
from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import ITEM_CODES, ItemError, Permanent, Transient
from lingxi.domain.photos import Photo, ProcessingState, Variant, Visibility
from lingxi.imaging.children import Decoders
from lingxi.imaging.errors import ImageError
from lingxi.imaging.facts import MadePhoto, MadeVariant
from lingxi.observability import failpoints, tracing
from lingxi.services.publish_photo import Made, Rollback, publish_photo
from lingxi.storage import ObjectMissing, ObjectReader, Storage, StorageUnavailable

Published = Literal["published", "already", "skipped"]
MAX_VARIANT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class PublishDeps:
    """What publishing needs. `transaction` opens one on the photo's database; `prefix` and `environment` begin the keys."""

    storage: Storage
    decoders: Decoders
    transaction: Callable[[], AbstractAsyncContextManager[Connection]]
    scratch_folder: Path
    prefix: str = "photo-live"
    environment: str = "dev"


async def process_photo(
    photo_id: UUID,
    deps: PublishDeps,
    *,
    generation: int | None = None,
    enqueued_at: datetime | None = None,
) -> Published:
    """Publish the photo for the first time, or (`generation`) a later generation of its variants.

    `already`: somebody else has published this or a later generation. `skipped`: it was deleted or recalled meanwhile.
    Raises Permanent or Transient with the pipeline's code.
    """
    started_at = datetime.now(UTC)
    photo = await _read(photo_id, deps)
    first = generation is None
    if photo is None:
        return "skipped"
    if first != (photo.processing_state != ProcessingState.READY):
        return "already" if first else "skipped"
    wanted = 1 if generation is None else generation
    if photo.published_generation >= wanted:
        return "already"
    with tempfile.TemporaryDirectory(dir=_folder(deps), prefix="photo-") as scratch:
        made = await _make(photo, deps, Path(scratch))
        await failpoints.reach("photo.after_encode")
        variants: list[Variant] = []
        for one in made.variants:
            if variants:
                await failpoints.reach("photo.between_variants")
            variants.append(await _store(photo, one, wanted, deps))
    await failpoints.reach("photo.after_store")
    times = {
        **({"enqueued": enqueued_at} if enqueued_at else {}),
        "started": started_at,
        "decoded": started_at + timedelta(milliseconds=made.decoded_ms),
        "encoded": started_at + timedelta(milliseconds=made.encoded_ms),
        "variantsStored": datetime.now(UTC),
    }
    result = Made(wanted, made.width, made.height, made.captured_at, variants, times)
    commit = tracing.begin_inside("commit", photo=photo_id)
    try:
        async with deps.transaction() as connection:
            await publish_photo(connection, photo_id, result, first=first)
            await failpoints.reach("photo.before_commit")
    except Rollback as rollback:
        return rollback.answer
    finally:
        tracing.end(commit)
    await failpoints.reach("photo.after_commit")
    return "published"


async def _read(photo_id: UUID, deps: PublishDeps) -> Photo | None:
    """The photo, or None when there is nothing to be published any more."""
    async with deps.transaction() as connection:
        row = await connection.fetchrow(sql("photos/for_work"), photo_id)
    if row is None or row["album_deleted"]:
        return None
    photo = photo_of(row)
    return None if photo.deleted_at is not None or photo.visibility == Visibility.RECALLED else photo


def _folder(deps: PublishDeps) -> Path:
    deps.scratch_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return deps.scratch_folder


async def _make(photo: Photo, deps: PublishDeps, scratch: Path) -> MadePhoto:
    """The variants as files in `scratch`."""
    try:
        async with original_file(photo, deps.storage, scratch) as original:
            await failpoints.reach("photo.after_fetch")
            return await deps.decoders.make_variants(original, scratch)
    except ImageError as error:
        raise _item_error(error.code, error.detail) from error
    except (OSError, StorageUnavailable) as error:
        raise Transient("storage_unavailable") from error


@asynccontextmanager
async def original_file(photo: Photo, storage: Storage, scratch: Path) -> AsyncIterator[int]:
    """A descriptor of the photo's bytes, whose SHA-256 has been checked: of storage's own file, or of a copy in `scratch`.

    Permanent `object_not_found`, Transient `storage_unavailable`, StorageUnavailable, OSError.
    """
    try:
        reader = await storage.open(photo.storage_key)
    except ObjectMissing as error:
        raise Permanent("object_not_found", "The original is gone from storage.") from error
    with ExitStack() as opened:
        try:
            if (whole := await reader.whole_file()) is not None:
                descriptor, sha256 = whole.descriptor, whole.sha256
            else:
                copy = opened.enter_context(open(scratch / "original", "w+b", buffering=0))  # noqa: ASYNC230
                descriptor, sha256 = copy.fileno(), await _copied(reader, copy)
            if sha256 != photo.sha256:
                raise Transient("storage_unavailable", "The storage gave other bytes than were put.")
            yield descriptor
        finally:
            await reader.close()


async def _copied(reader: ObjectReader, copy: IO[bytes]) -> bytes:
    """Write all bytes into an open file, unbuffered; their SHA-256."""
    digest = hashlib.sha256()

    def take(chunk: bytes) -> None:
        digest.update(chunk)
        view = memoryview(chunk)
        while view:
            view = view[copy.write(view) :]

    async for chunk in reader:
        await asyncio.to_thread(take, chunk)
    return digest.digest()


async def _store(photo: Photo, made: MadeVariant, generation: int, deps: PublishDeps) -> Variant:
    """Put one variant; the same content again has the same name, so a late attempt overwrites nothing else."""
    digest = made.sha256.hex()[:16]
    name = f"{made.kind}-{digest}.jpg"
    folder = f"{deps.prefix}/{deps.environment}/albums/{photo.album_id}/variants/{photo.id}/{generation}"
    key = f"{folder}/{name}"
    try:
        await deps.storage.put_file(made.path, max_bytes=MAX_VARIANT_BYTES, key=key)
    except StorageUnavailable as error:
        raise Transient("storage_unavailable") from error
    return Variant(
        kind=made.kind,
        generation=generation,
        storage_key=key,
        file_name=f"{generation}-{name}",
        width=made.width,
        height=made.height,
        size_bytes=made.size_bytes,
        sha256=made.sha256,
        content_type=made.content_type,
    )


def _item_error(code: str, detail: str) -> ItemError:
    return Transient(code, detail) if ITEM_CODES[code].retryable else Permanent(code, detail)
