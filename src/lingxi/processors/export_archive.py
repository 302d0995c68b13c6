"""export:archive: one ZIP of an album or of many objects, streamed from storage to storage, with a manifest and a signed receipt.

Nothing is written to disk here and nothing is kept but names: a terabyte takes the memory of a megabyte. The archive becomes an
object in the commit that ends the item, so it is there whole or not at all.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import Field, StringConstraints, model_validator

from lingxi.domain.errors import Conflict, ItemError, LingxiError, NotFound
from lingxi.domain.object_names import normalise_object_name
from lingxi.observability import failpoints
from lingxi.processors.archive_receipt import SigningKey, rfc3339
from lingxi.processors.archive_stream import ArchiveStream, not_found
from lingxi.processors.contract import (
    Connection,
    Context,
    Permanent,
    Processor,
    ProcessorInput,
    ProcessorResult,
    StopReason,
    Transient,
)
from lingxi.processors.video_common import ObjectName, unless_stopped
from lingxi.services.albums import get_album
from lingxi.services.archive_files import ArchiveFile, find_album_files, find_object_files
from lingxi.services.get_object import StoredObject, find_object
from lingxi.services.put_object import put_object, receive_object
from lingxi.services.secret_keys import knows_key
from lingxi.storage import ObjectMissing, StorageUnavailable

MAX_FILES: Final = 200_000
MAX_ARCHIVE_BYTES: Final = 1 << 40
MAX_LIST_BYTES: Final = 64 << 20
SKIPPED_SHOWN: Final = 100  # in the result; the manifest has all
ZIP_TYPE: Final = "application/zip"
_OTHER_KEY_SECONDS: Final = 60.0  # by then another worker may have it
_BYTES_BESIDE_A_FILE: Final = 1_000  # headers and its line of the manifest, without names
_BYTES_BESIDE: Final = 1 << 20


class ArchiveInput(ProcessorInput):
    """What goes into the archive: an album, or objects of the own workspace by their names."""

    album_id: UUID | None = Field(
        None, strict=False, description="An album: its published photos, in its order."
    )
    objects: list[ObjectName] | None = Field(
        None, min_length=1, max_length=1_000, description="Objects, by name; slashes become folders."
    )
    object_list: ObjectName | None = Field(
        None, description="An object whose lines are names of objects, for more than an input holds."
    )
    pictures: Literal["originals", "browse"] = Field(
        "originals", description="Of an album: the files as they were uploaded, or the browse pictures."
    )
    unpublished: bool = Field(
        False, description="Of an album: also photos that are hidden or not published; recalled ones never."
    )
    into: ObjectName | None = Field(
        None, description="The archive's name; else `archives/` and the item's id, with `.zip`."
    )
    on_missing: Literal["fail", "skip"] = Field(
        "fail",
        description="What becomes of a file that is not there: the item fails, or it is left out and listed.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> "ArchiveInput":
        given = [one is not None for one in (self.album_id, self.objects, self.object_list)]
        if sum(given) != 1:
            raise ValueError("give exactly one of albumId, objects and objectList")
        return self


class ArchiveReceipt(ProcessorResult):
    """As `receipt.json` in the archive."""

    v: int
    algorithm: Annotated[str, StringConstraints(pattern="^Ed25519$")]
    key_id: str
    public_key: str = Field(description="In base64.")
    manifest_sha256: str = Field(alias="manifestSha256")
    signature: str = Field(description="In base64.")


class Skipped(ProcessorResult):
    """A file that was not there: its name, and the object or the photo that it was asked for by."""

    name: str
    source: str


class ArchiveResult(ProcessorResult):
    """The archive, which is an object of the workspace."""

    object_name: str = Field(alias="object")
    size_bytes: int
    sha256: str
    files: int = Field(description="Without the manifest and the receipt.")
    skipped_count: int
    skipped: list[Skipped] = Field(description=f"The first {SKIPPED_SHOWN}; the manifest lists all.")
    receipt: ArchiveReceipt


@dataclass(frozen=True, slots=True)
class _Plan:
    """What an attempt is to write."""

    into: str
    files: Sequence[ArchiveFile]
    head: dict[str, Any]
    issued_at: int

    @property
    def content_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def most_bytes(self) -> int:
        """More than the archive can have."""
        names = sum(10 * len(file.name) + 6 * len(file.source) for file in self.files)
        return self.content_bytes + names + len(self.files) * _BYTES_BESIDE_A_FILE + _BYTES_BESIDE


class ExportArchive:
    """The processor with what it signs with: `secrets` gives the deployment's secret keys, the first one signs."""

    def __init__(self, secrets: Callable[[], Sequence[bytes]]) -> None:
        self._secrets = secrets

    def processor(self) -> Processor[ArchiveInput]:
        """The entry for the registry."""
        return Processor(
            "export:archive",
            ArchiveInput,
            self.run,
            concurrency=2,
            time_limit_seconds=3_600.0,
            result_model=ArchiveResult,
        )

    async def run(self, context: Context, given: ArchiveInput) -> None:
        """Permanent or Transient with a code of ITEM_CODES; ends within a second when the attempt is to stop."""
        await unless_stopped(context, self._run(context, given))

    async def _run(self, context: Context, given: ArchiveInput) -> None:
        listed = await _listed_names(context, given)
        secrets = self._secrets()
        async with context.transaction() as connection:
            if not await knows_key(connection, secrets):
                raise Transient("signing_key_differs", retry_after=_OTHER_KEY_SECONDS)
            plan = await _plan(connection, context, given, listed)
        total, count = plan.content_bytes, len(plan.files)

        def say(done: int, files: int) -> None:
            if context.stop_reason is not StopReason.DEADLINE_NEAR:
                context.stop_if_asked()
            context.progress(done, total, f"{files} of {count} files")

        stream = ArchiveStream(
            context.storage,
            plan.files,
            SigningKey(secrets[0]),
            head=plan.head,
            issued_at=plan.issued_at,
            skip_missing=given.on_missing == "skip",
            say=say,
        )
        await _store(context, plan, stream)


# ── what goes into it ────────────────────────────────────────────────────────────────────────────────────


async def _listed_names(context: Context, given: ArchiveInput) -> list[str]:
    """The names that the input gives or that its list has, each once."""
    if given.object_list is None:
        return list(dict.fromkeys(given.objects or ()))
    async with context.transaction() as connection:
        found = await find_object(connection, context.item.workspace_id, given.object_list)
    if found is None:
        raise Permanent("object_not_found", f"There is no object {given.object_list!r} in the workspace.")
    if found.size_bytes > MAX_LIST_BYTES:
        raise Permanent("too_large", f"The list is larger than {MAX_LIST_BYTES} bytes.")
    names: dict[str, None] = {}
    for number, line in enumerate((await _text(context, found)).splitlines(), 1):
        if not line.strip():
            continue
        try:
            names[normalise_object_name(line.strip())] = None
        except ValueError as error:
            raise Permanent("input_invalid", f"Line {number} of {found.name!r}: {error}") from error
    return list(names)


async def _text(context: Context, found: StoredObject) -> str:
    try:
        reader = await context.storage.open(found.storage_key)
        try:
            data = b"".join([chunk async for chunk in reader])
        finally:
            await reader.close()
        return data.decode("utf-8-sig")
    except ObjectMissing as error:
        raise Permanent("object_not_found", f"The bytes of {found.name!r} are gone from storage.") from error
    except StorageUnavailable as error:
        raise Transient("storage_unavailable") from error
    except UnicodeDecodeError as error:
        raise Permanent("input_invalid", f"{found.name!r} is no text in UTF-8.") from error


async def _plan(connection: Connection, context: Context, given: ArchiveInput, names: Sequence[str]) -> _Plan:
    """All that can be known beforehand is looked at beforehand: nobody wants to hear of it after an hour."""
    workspace = context.item.workspace_id
    into = given.into or f"archives/{context.item.id}.zip"
    if await find_object(connection, workspace, into) is not None:
        raise Permanent(
            "object_exists", f"There is an object {into!r} already: give the archive another name."
        )
    issued_at = (context.item.task_id.int >> 80) // 1_000  # when the task was made: the same for each attempt
    head: dict[str, Any] = {"archive": into, "item": str(context.item.id), "issuedAt": rfc3339(issued_at)}
    if given.album_id is not None:
        try:
            album = await get_album(connection, workspace, given.album_id)
        except NotFound:
            raise Permanent("album_not_found") from None
        head["album"] = {"id": str(album.id), "name": album.name, "pictures": given.pictures}
        files = await find_album_files(
            connection,
            album.id,
            browse=given.pictures == "browse",
            unpublished=given.unpublished,
            limit=MAX_FILES + 1,
        )
    else:
        files = await find_object_files(connection, workspace, names[: MAX_FILES + 1])
    _refuse(files, given)
    return _Plan(into, files, head, issued_at)


def _refuse(files: Sequence[ArchiveFile], given: ArchiveInput) -> None:
    if not files:
        raise Permanent("nothing_to_archive")
    if len(files) > MAX_FILES or sum(file.size_bytes for file in files) > MAX_ARCHIVE_BYTES:
        raise Permanent(
            "too_large",
            f"An archive holds at most {MAX_FILES:,} files and {MAX_ARCHIVE_BYTES >> 30:,} GiB; make several.",
        )
    if given.on_missing == "fail":
        for file in files:
            if file.storage_key is None:
                raise not_found(file)


# ── writing it ───────────────────────────────────────────────────────────────────────────────────────────


async def _store(context: Context, plan: _Plan, stream: ArchiveStream) -> None:
    """The bytes first, then name and result in one commit. What fails or is cancelled leaves no bytes."""
    try:
        async with (
            aclosing(stream.chunks()) as chunks,
            receive_object(context.storage, chunks, max_bytes=plan.most_bytes) as received,
        ):
            received.content_type = ZIP_TYPE
            await failpoints.reach("outputs.after_store")
            async with context.transaction() as connection:
                put = await put_object(connection, context.item.workspace_id, plan.into, received)
                context.succeed(_result(put.object, stream))
    except Conflict as error:
        raise Permanent("object_exists") from error
    except ItemError:
        raise
    except (StorageUnavailable, LingxiError) as error:  # what `receive_object` makes of a storage that failed
        raise Transient("storage_unavailable") from error


def _result(stored: StoredObject, stream: ArchiveStream) -> ArchiveResult:
    assert stream.receipt is not None
    return ArchiveResult(
        object=stored.name,
        size_bytes=stored.size_bytes,
        sha256=stored.sha256.hex(),
        files=stream.file_count,
        skipped_count=len(stream.skipped),
        skipped=[Skipped(**one) for one in stream.skipped[:SKIPPED_SHOWN]],
        receipt=ArchiveReceipt.model_validate(stream.receipt.as_json()),
    )
