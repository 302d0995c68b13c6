"""Sending a photo so that a lost connection costs only what was on its way (tus 1.0.0)."""

from __future__ import annotations

import asyncio
import base64
import random
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO

import httpx

from lingxi.client.album_model import Uploaded
from lingxi.client.errors import ApiError, Unreachable
from lingxi.client.transport import Transport, new_key

CHUNK_BYTES = 256 * 1024
LONGEST_DELAY_SECONDS = 10.0
_TUS = {"Tus-Resumable": "1.0.0"}
_GO_ON_FROM_THE_OFFSET = {409, 423, 460}  # somebody else was writing, or not all of it came

OnProgress = Callable[[int], None]


class FileChanged(Exception):
    """The file is another one than when its upload began."""


async def upload_file(
    transport: Transport,
    album_id: str,
    path: Path,
    *,
    file_name: str | None = None,
    on_progress: OnProgress | None = None,
    patience_seconds: float | None = 60.0,
) -> Uploaded:
    """Sends a file, over as many connections as it takes; `on_progress` is told how many bytes are there.

    Raises ApiError when it is refused, Unreachable when nothing got through for `patience_seconds` (None: never), FileChanged.
    """
    with path.open("rb") as file:
        length = file.seek(0, 2)
        upload = _Upload(transport, file, length, on_progress or (lambda _: None))
        await upload.create(album_id, file_name or path.name)
        return await upload.send(patience_seconds)


class _Upload:
    def __init__(self, transport: Transport, file: BinaryIO, length: int, on_progress: OnProgress) -> None:
        self._transport = transport
        self._file = file
        self._length = length
        self._tell = on_progress
        self._path = ""
        self._done: Uploaded | None = None

    async def create(self, album_id: str, file_name: str) -> None:
        name = base64.b64encode(file_name.encode(errors="surrogateescape")).decode()
        headers = {
            **_TUS,
            "Upload-Length": str(self._length),
            "Upload-Metadata": f"filename {name}",
            "Idempotency-Key": new_key(),
        }
        answer = await self._transport.send("POST", f"albums/{album_id}/uploads", headers=headers)
        upload_id = answer.headers["location"].rstrip("/").rpartition("/")[2]
        self._path = f"albums/{album_id}/uploads/{upload_id}"

    async def send(self, patience_seconds: float | None) -> Uploaded:
        offset, failures, heard_at = 0, 0, time.monotonic()
        while self._done is None:
            try:
                answer = await self._send_from(offset)
            except (ApiError, Unreachable) as error:
                if _is_final(error):
                    raise
                if patience_seconds is not None and time.monotonic() - heard_at > patience_seconds:
                    raise
                failures += 1
                await asyncio.sleep(_delay_seconds(failures))
                offset_now = await self._ask_offset(offset)
            else:
                offset_now = self._read(answer)
            if offset_now > offset:
                failures, heard_at = 0, time.monotonic()
            offset = offset_now
            self._tell(offset)
        return self._done

    async def _send_from(self, offset: int) -> httpx.Response:
        headers = {
            **_TUS,
            "Upload-Offset": str(offset),
            "Content-Type": "application/offset+octet-stream",
            "Content-Length": str(self._length - offset),
        }
        return await self._transport.send(
            "PATCH", self._path, headers=headers, body=lambda: self._bytes(offset), tries=1
        )

    async def _bytes(self, offset: int) -> AsyncIterator[bytes]:
        self._file.seek(offset)
        left = self._length - offset
        while left:
            chunk = await asyncio.to_thread(self._file.read, min(CHUNK_BYTES, left))
            if not chunk:
                raise FileChanged
            left -= len(chunk)
            yield chunk
            self._tell(self._length - left)

    async def _ask_offset(self, known: int) -> int:
        """Where to go on; what is known when nobody answers."""
        try:
            return self._read(await self._transport.send("HEAD", self._path, headers=_TUS, tries=1))
        except Unreachable:
            return known
        except ApiError as error:
            if error.is_refusal and error.status != 423:
                raise
            return known

    def _read(self, answer: httpx.Response) -> int:
        if (photo_id := answer.headers.get("lingxi-photo-id")) is not None:
            self._done = Uploaded(photo_id, answer.headers.get("lingxi-photo-created") == "true")
        return int(answer.headers["upload-offset"])


def _is_final(error: ApiError | Unreachable) -> bool:
    return isinstance(error, ApiError) and error.is_refusal and error.status not in _GO_ON_FROM_THE_OFFSET


def _delay_seconds(failures: int) -> float:
    return min(LONGEST_DELAY_SECONDS, 0.25 * 2.0 ** min(failures, 10)) * random.uniform(0.8, 1.2)
