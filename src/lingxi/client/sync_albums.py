"""A blocking face of the calls for albums; see `albums.py` for what each does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from lingxi.client.album_model import Album, AlbumFrame, Photo, ShareLink, Uploaded, Variant
from lingxi.client.albums import Albums
from lingxi.client.frames import Reconnecting
from lingxi.client.model import Json, Task
from lingxi.client.upload import OnProgress

T = TypeVar("T")


class _Run(Protocol):
    def __call__(self, call: Awaitable[T], /) -> T: ...


class _Iterate(Protocol):
    def __call__(self, source: AsyncIterator[T], /) -> Iterator[T]: ...


class SyncAlbums:
    """The calls of `Albums`, each waited for."""

    def __init__(self, albums: Albums, run: _Run, iterate: _Iterate) -> None:
        self._albums = albums
        self._run = run
        self._iterate = iterate

    def create(self, name: str, *, originals_shared: bool = False) -> Album:
        return self._run(self._albums.create(name, originals_shared=originals_shared))

    def all(self) -> Iterator[Album]:
        return self._iterate(self._albums.all())

    def find(self, name: str) -> list[Album]:
        return self._run(self._albums.find(name))

    def get(self, album_id: str) -> Album:
        return self._run(self._albums.get(album_id))

    def change(
        self, album_id: str, *, name: str | None = None, originals_shared: bool | None = None
    ) -> Album:
        return self._run(self._albums.change(album_id, name=name, originals_shared=originals_shared))

    def delete(self, album_id: str) -> None:
        self._run(self._albums.delete(album_id))

    def reprocess(self, album_id: str) -> list[Task]:
        return self._run(self._albums.reprocess(album_id))

    def fingerprint(self, album_id: str) -> list[Task]:
        return self._run(self._albums.fingerprint(album_id))

    def duplicates(self, album_id: str) -> Iterator[Json]:
        return self._iterate(self._albums.duplicates(album_id))

    def stats(self, album_id: str) -> Json:
        return self._run(self._albums.stats(album_id))

    def upload(
        self,
        album_id: str,
        path: Path,
        *,
        file_name: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Uploaded:
        return self._run(self._albums.upload(album_id, path, file_name=file_name, on_progress=on_progress))

    def photos(self, album_id: str) -> Iterator[Photo]:
        return self._iterate(self._albums.photos(album_id))

    def photo(self, album_id: str, photo_id: str) -> Photo:
        return self._run(self._albums.photo(album_id, photo_id))

    def hide(self, album_id: str, photo_id: str) -> Photo:
        return self._run(self._albums.hide(album_id, photo_id))

    def show(self, album_id: str, photo_id: str) -> Photo:
        return self._run(self._albums.show(album_id, photo_id))

    def recall(self, album_id: str, photo_id: str) -> Photo:
        return self._run(self._albums.recall(album_id, photo_id))

    def delete_photo(self, album_id: str, photo_id: str) -> None:
        self._run(self._albums.delete_photo(album_id, photo_id))

    def timeline(self, album_id: str, photo_id: str) -> Json:
        return self._run(self._albums.timeline(album_id, photo_id))

    def original(self, album_id: str, photo_id: str, *, start: int = 0) -> Iterator[bytes]:
        return self._iterate(self._albums.original(album_id, photo_id, start=start))

    def picture(self, variant: Variant, *, start: int = 0) -> Iterator[bytes]:
        return self._iterate(self._albums.picture(variant, start=start))

    def share(self, album_id: str, *, lifetime_seconds: int | None = None) -> ShareLink:
        return self._run(self._albums.share(album_id, lifetime_seconds=lifetime_seconds))

    def shares(self, album_id: str) -> list[ShareLink]:
        return self._run(self._albums.shares(album_id))

    def revoke(self, album_id: str, share_id: str) -> None:
        self._run(self._albums.revoke(album_id, share_id))

    def watch(
        self, album_id: str, *, last_event_id: str | None = None
    ) -> Iterator[AlbumFrame | Reconnecting]:
        return self._iterate(self._albums.watch(album_id, last_event_id=last_event_id))
