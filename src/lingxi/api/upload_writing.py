"""Append to resumable uploads, and complete them: stretch by stretch into storage, each counted once it is durable.

In one process a new request waits for the one before it, which ends and keeps what it has once its client is silent: that is a
connection that broke and has not been noticed. Between processes the row's writer decides (`services/resumable_uploads.py`).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

from lingxi.api.deps import ApiDeps
from lingxi.api.file_refusals import problem_of
from lingxi.api.upload_body import UploadBody, UploadLocked
from lingxi.db.session import Connection, transaction
from lingxi.domain.errors import Conflict, LingxiError, MalformedRequest, NotFound
from lingxi.imaging.errors import ImageError
from lingxi.imaging.sniff import HEAD_BYTES, sniff
from lingxi.observability import failpoints
from lingxi.services.join_parts import join_parts
from lingxi.services.receive_photo import refusal_for, remove_bytes
from lingxi.services.record_audit import record_audit
from lingxi.services.resumable_uploads import (
    AlreadyComplete,
    Upload,
    UploadPart,
    append_part,
    begin_append,
    complete_upload,
    get_upload,
    list_parts,
    terminate_upload,
)
from lingxi.storage import StorageUnavailable

_HAND_OVER_SECONDS: Final = 5.0
_MISMATCH: Final = "The bytes do not have the Upload-Checksum; none was kept."


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks, for the audit."""

    token_id: UUID
    request_id: str


class UploadWriters:
    """Which uploads are written to in this process, one request each."""

    def __init__(self) -> None:
        self._bodies: dict[UUID, UploadBody] = {}
        self._ended: dict[UUID, asyncio.Event] = {}

    @asynccontextmanager
    async def alone(self, upload_id: UUID) -> AsyncIterator[None]:
        """Wait for whoever writes, who makes way when its client is silent; Conflict (423) when that takes too long."""
        try:
            async with asyncio.timeout(_HAND_OVER_SECONDS):
                while (ended := self._ended.get(upload_id)) is not None:
                    body = self._bodies.get(upload_id)
                    with nullcontext() if body is None else body.wanted():
                        await ended.wait()
        except TimeoutError:
            raise UploadLocked from None
        self._ended[upload_id] = asyncio.Event()
        try:
            yield
        finally:
            self._bodies.pop(upload_id, None)
            self._ended.pop(upload_id).set()

    def reading(self, upload_id: UUID, body: UploadBody) -> None:
        """This body may be interrupted by the next request."""
        self._bodies[upload_id] = body


class UploadWriting:
    """One request's work on one upload. Use it within `UploadWriters.alone`."""

    def __init__(self, deps: ApiDeps, actor: Actor) -> None:
        self._deps = deps
        self._actor = actor

    async def append(self, upload: Upload, offset: int, body: UploadBody, checksum: bytes | None) -> Upload:
        """What the body holds behind what is there, and the photo when that was all. The upload as it is then.

        With a checksum nothing is kept unless all of it came and is right. Raises Conflict (409: another offset),
        MalformedRequest (460), TooLarge, UnsupportedContent (the upload is terminated), LingxiError (storage), and what ended
        the body early, after what had come was kept.
        """
        writer = uuid4()
        async with transaction(self._deps.pool) as connection:
            if not await begin_append(connection, upload.id, offset, writer):
                raise await self._offset_conflict(connection, upload)
        head = await body.begin()
        if offset == 0 and len(head) >= min(HEAD_BYTES, upload.length_bytes):
            await self._refuse_early(upload, head)
        if not body.more and body.ended_by is None and checksum not in (None, body.digest()):
            raise MalformedRequest(_MISMATCH, status=460)
        while body.more:
            part = await self._store(offset, body)
            await failpoints.reach("tus.after_store")
            if checksum is not None and (body.ended_by is not None or body.digest() != checksum):
                await remove_bytes(self._deps.storage, [part.storage_key])
                raise body.ended_by or MalformedRequest(_MISMATCH, status=460)
            upload = await self._count(upload, writer, part, last=not body.more and body.ended_by is None)
            offset = upload.received_bytes
        if upload.received_bytes == upload.length_bytes:
            upload = await self.complete(upload)
        if body.ended_by is not None:
            raise body.ended_by
        return upload

    async def complete(self, upload: Upload) -> Upload:
        """The photo of an upload of which all has arrived; again, when that was tried and failed before."""
        deps = self._deps
        async with deps.pool.acquire(timeout=5) as connection:
            parts = await list_parts(connection, upload.id)
            if not parts:  # another process has completed it
                return await get_upload(connection, upload.album_id, upload.id)
        joined = await join_parts(deps.storage, upload, parts)
        if joined.new is None:
            assert joined.refusal is not None
            if joined.refusal.code != "storage_unavailable":
                await self.terminate(upload)
            raise problem_of(joined.refusal)
        try:
            async with transaction(deps.pool) as connection:
                done, removable = await complete_upload(connection, upload, joined.new)
                await self._audit(connection, upload, "photo.upload", f"photo:{done.photo_id}")
                await failpoints.reach("tus.before_complete")
            await failpoints.reach("tus.after_complete")
        except (AlreadyComplete, NotFound) as error:
            if len(parts) > 1:
                await remove_bytes(deps.storage, [joined.new.storage_key])
            if isinstance(error, NotFound):
                raise
            async with deps.pool.acquire(timeout=5) as connection:
                return await get_upload(connection, upload.album_id, upload.id)
        deps.hints.publish_outbox()
        deps.albums.doubt([upload.album_id])
        deps.hints.publish_albums([upload.album_id])
        await remove_bytes(deps.storage, removable)
        return done

    async def terminate(self, upload: Upload) -> None:
        """Forget the upload. A photo that came of it stays."""
        async with transaction(self._deps.pool) as connection:
            removable = await terminate_upload(connection, upload.id)
            await self._audit(connection, upload, "upload.terminate", f"upload:{upload.id}")
        await remove_bytes(self._deps.storage, removable)

    async def _store(self, offset: int, body: UploadBody) -> UploadPart:
        try:
            stored = await self._deps.storage.put(
                body.stretch(), max_bytes=self._deps.config.limits.max_photo_bytes
            )
        except StorageUnavailable as error:
            raise problem_of(refusal_for(error)) from error
        return UploadPart(offset, stored.size_bytes, stored.sha256, stored.key)

    async def _count(self, upload: Upload, writer: UUID, part: UploadPart, *, last: bool) -> Upload:
        async with transaction(self._deps.pool) as connection:
            grown = await append_part(connection, upload.id, writer, part)
            if grown is not None and last and grown.received_bytes < grown.length_bytes:
                await self._audit(connection, upload, "upload.append", f"upload:{upload.id}")
        if grown is None:
            await remove_bytes(self._deps.storage, [part.storage_key])
            raise UploadLocked
        return grown

    async def _refuse_early(self, upload: Upload, head: bytes) -> None:
        """A file of no accepted type is refused at its first bytes, and not after its last."""
        try:
            sniff(head)
        except ImageError as error:
            await self.terminate(upload)
            raise problem_of(refusal_for(error)) from error

    async def _offset_conflict(self, connection: Connection, upload: Upload) -> LingxiError:
        now = await get_upload(connection, upload.album_id, upload.id)
        if now.photo_id is not None:
            return Conflict("The upload is complete.")
        return Conflict(
            f"The upload is at offset {now.received_bytes}, or came in more pieces than are accepted; ask with HEAD."
        )

    async def _audit(self, connection: Connection, upload: Upload, verb: str, target: str) -> None:
        await record_audit(
            connection,
            workspace_id=upload.workspace_id,
            actor=self._actor.token_id,
            verb=verb,
            target=target,
            request_id=self._actor.request_id,
        )
