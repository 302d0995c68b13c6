"""`lingxi album export`: an album's photos into a folder, under names that any file system takes."""

from __future__ import annotations

import asyncio
import hashlib
import unicodedata
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lingxi.cli.exits import CommandError, Exit, not_possible
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.client import Album, Client, Photo

DOWNLOADS_AT_ONCE = 4
MAX_NAME_BYTES = 200
_FORBIDDEN = frozenset('<>:"/\\|?*')


@dataclass(slots=True)
class Export:
    """One run; `written` and `there` count photos."""

    client: Client
    folder: Path
    browse: bool
    written: int = 0
    there: int = 0

    async def run(self, album: Album, output: Output) -> None:
        """Every photo that has what is asked for. CommandError when the folder cannot be written or a photo comes wrong."""
        photos = [photo async for photo in self.client.albums.photos(album.id) if self._has_it(photo)]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            at_once = asyncio.Semaphore(DOWNLOADS_AT_ONCE)

            async def one(photo: Photo) -> None:
                async with at_once:
                    await self._export(photo, output)

            async with asyncio.TaskGroup() as group:
                for photo in photos:
                    group.create_task(one(photo))
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        except OSError as error:
            raise not_possible(f"{error.filename}: {error.strerror}") from None

    def _has_it(self, photo: Photo) -> bool:
        return bool(photo.variants) if self.browse else photo.visibility != "recalled"

    async def _export(self, photo: Photo, output: Output) -> None:
        """By way of a draft that is gone on with; its bytes are proved by their size and, of an original, their hash."""
        target = self.folder / export_name(photo, browse=self.browse)
        variant = next((one for one in photo.variants if one.kind == "browse"), None) if self.browse else None
        size_bytes = variant.size_bytes if variant else photo.size_bytes
        if target.exists() and target.stat().st_size == size_bytes:
            self.there += 1
            return
        draft = target.with_name(f".{target.name}.part")
        start = draft.stat().st_size if draft.exists() else 0
        if start > (size_bytes or 0):
            start = 0
        source = (
            self.client.albums.picture(variant, start=start)
            if variant
            else self.client.albums.original(photo.album_id, photo.id, start=start)
        )
        if start != size_bytes:
            await _write(draft, start, source)
        wrong = draft.stat().st_size != size_bytes
        if not wrong and variant is None and photo.sha256 is not None:
            wrong = await asyncio.to_thread(_sha256, draft) != photo.sha256
        if wrong:
            draft.unlink()
            raise CommandError(f"{target.name} came wrong; run it again", Exit.SERVER_FAILED)
        draft.replace(target)
        self.written += 1
        output.say(target.name)


def export_name(photo: Photo, *, browse: bool = False) -> str:
    """`0012 IMG_4711.jpg`: the number keeps equal names apart, and the folder in the order of upload.

    Never a path, never hidden, and nothing that Windows or a shell would mind.
    """
    name = unicodedata.normalize("NFC", photo.file_name or "photo")
    plain = "".join("_" if char in _FORBIDDEN or not char.isprintable() else char for char in name)
    plain = plain.strip(" .") or "photo"
    stem, dot, suffix = plain.rpartition(".")
    if browse:
        stem, dot, suffix = (stem or suffix), ".", "jpg"
    elif not dot or len(suffix) > 10:
        stem, dot, suffix = plain, "", ""
    while len(stem.encode()) > MAX_NAME_BYTES:
        stem = stem[:-1]
    return f"{photo.upload_number:04d} {stem}{dot}{suffix}"


async def _write(draft: Path, start: int, source: AsyncIterator[bytes]) -> None:
    with draft.open("r+b" if start else "wb") as file:
        file.seek(start)
        file.truncate()
        async for chunk in source:
            await asyncio.to_thread(file.write, chunk)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    if isinstance(error, OSError):
        return not_possible(f"{error.filename}: {error.strerror}")
    return error
