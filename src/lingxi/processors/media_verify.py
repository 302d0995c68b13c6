"""media:verify: is this object, to its last pixel, the picture that it should be?

Cheap expectations are checked first, against what was measured when the object was put. Then the bytes are streamed
from storage into a nameless scratch file (gone with the process, whatever happens), hashed once more on the way, and a
child that can be killed decodes all of them.
"""

import asyncio
import contextlib
import hashlib
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import IO, Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from lingxi.db.session import is_unavailable
from lingxi.domain.errors import ITEM_CODES
from lingxi.domain.object_names import normalise_object_name
from lingxi.imaging.children import Decoders
from lingxi.imaging.errors import ImageError
from lingxi.imaging.limits import check_file_size
from lingxi.processors.contract import Connection, Context, Permanent, Processor, ProcessorInput, Transient
from lingxi.services.get_object import StoredObject, find_object
from lingxi.storage import ObjectMissing, StorageUnavailable

_DATABASE_RETRY_SECONDS = 1.0

ContentType = Literal[
    "image/jpeg",
    "image/png",
    "image/webp",
    "image/gif",
    "image/tiff",
    "image/avif",
    "image/heic",
    "image/heif",
]


class VerifyInput(ProcessorInput):
    """Which object of the own workspace, and what is expected of it."""

    object_name: Annotated[str, AfterValidator(normalise_object_name)] = Field(
        alias="object", description="The object's name, as it was put."
    )
    expected_sha256: str | None = Field(
        None, pattern="^[0-9A-Fa-f]{64}$", description="SHA-256 of the bytes, 64 hex digits."
    )
    expected_size_bytes: int | None = Field(None, ge=0, le=2**63 - 1, description="Size of the file.")
    expected_type: ContentType | None = Field(None, description="Type by content.")


class VerifyResult(BaseModel):
    """A picture that decoded completely and met what was expected."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, validate_by_name=True)

    object_name: str = Field(alias="object")
    content_type: str
    width: int = Field(description="Upright, in pixels.")
    height: int = Field(description="Upright, in pixels.")
    size_bytes: int
    sha256: str
    orientation: int = Field(description="EXIF orientation that was found, 1 where there is none.")
    frames: int = Field(description="Frames or pages; the first was decoded.")
    has_alpha: bool
    has_color_profile: bool


class MediaVerify:
    """The processor with what it needs: decoders, a way to read the database, a folder for scratch files."""

    def __init__(
        self,
        decoders: Decoders,
        connect: Callable[[], AbstractAsyncContextManager[Connection]],
        scratch_folder: Path,
    ) -> None:
        self._decoders = decoders
        self._connect = connect
        self._scratch_folder = scratch_folder

    def processor(self) -> Processor[VerifyInput]:
        """The entry for the registry."""
        return Processor("media:verify", VerifyInput, self.run, time_limit_seconds=120.0)

    async def run(self, context: Context, given: VerifyInput) -> VerifyResult:
        """Verify one object; Permanent or Transient with a code of ITEM_CODES."""
        found = await self._find(context, given.object_name)
        if found is None:
            raise Permanent("object_not_found")
        _check_claims(found, given)
        try:
            check_file_size(found.size_bytes)
            with await asyncio.to_thread(self._new_scratch) as scratch:
                await _fetch(context, found, scratch)
                facts = await self._decoders.inspect(scratch.fileno())
        except ImageError as error:
            raise _item_error(error.code, error.detail) from error
        except (OSError, StorageUnavailable) as error:
            context.log.warning("object_not_read", reason=str(error))
            raise Transient("storage_unavailable") from error
        if given.expected_type not in (None, facts.content_type):
            raise Permanent("type_mismatch", f"The file is {facts.content_type}, not {given.expected_type}.")
        return VerifyResult(
            object=found.name,
            content_type=facts.content_type,
            width=facts.width,
            height=facts.height,
            size_bytes=found.size_bytes,
            sha256=found.sha256.hex(),
            orientation=facts.orientation,
            frames=facts.frames,
            has_alpha=facts.has_alpha,
            has_color_profile=facts.has_color_profile,
        )

    async def _find(self, context: Context, name: str) -> StoredObject | None:
        """The object's row. While PostgreSQL is away this waits: an outage is no fault of the item."""
        while True:
            try:
                async with self._connect() as connection:
                    return await find_object(connection, context.item.workspace_id, name)
            except Exception as error:
                if not is_unavailable(error) or context.stopping.is_set():
                    raise
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(context.stopping.wait(), _DATABASE_RETRY_SECONDS)

    def _new_scratch(self) -> IO[bytes]:
        self._scratch_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return tempfile.TemporaryFile(dir=self._scratch_folder, buffering=0)


def _check_claims(found: StoredObject, given: VerifyInput) -> None:
    """What the row says already (it was measured while the bytes came in) needs no byte to be read."""
    if given.expected_size_bytes not in (None, found.size_bytes):
        raise Permanent(
            "size_mismatch", f"The file has {found.size_bytes} bytes, not {given.expected_size_bytes}."
        )
    if given.expected_sha256 is not None and given.expected_sha256.lower() != found.sha256.hex():
        raise Permanent("checksum_mismatch", f"The file's SHA-256 is {found.sha256.hex()}.")


async def _fetch(context: Context, found: StoredObject, scratch: IO[bytes]) -> None:
    """Copy the object into the scratch file, and see that it is still what was put."""
    digest = hashlib.sha256()

    def take(chunk: bytes) -> None:
        digest.update(chunk)
        view = memoryview(chunk)
        while view:
            view = view[scratch.write(view) :]

    try:
        reader = await context.storage.open(found.storage_key)
    except ObjectMissing as error:
        raise Permanent("object_not_found", "The object's bytes are gone from storage.") from error
    try:
        async for chunk in reader:
            await asyncio.to_thread(take, chunk)
    finally:
        await reader.close()
    if digest.digest() != found.sha256:
        raise Permanent("checksum_mismatch", "The stored bytes are no longer the ones that were put.")


def _item_error(code: str, detail: str) -> Permanent | Transient:
    return Transient(code, detail) if ITEM_CODES[code].retryable else Permanent(code, detail)
