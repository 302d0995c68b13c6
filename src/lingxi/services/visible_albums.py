"""What of an album may be served to viewers: read whole once, and then only what has changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection


@dataclass(frozen=True, slots=True)
class VisibleVariant:
    """A published picture: where its bytes lie and what they are."""

    storage_key: str
    size_bytes: int
    sha256: bytes
    content_type: str


@dataclass(slots=True)
class AlbumChanges:
    """An album as it is; `photos` are those that changed, each with its variants by file name (none: out of sight)."""

    workspace_id: UUID
    originals_shared: bool
    last_seq: int
    photos: dict[UUID, dict[str, VisibleVariant]] = field(default_factory=dict)


async def read_visible_albums(connection: Connection, seen: Mapping[UUID, int]) -> dict[UUID, AlbumChanges]:
    """By album: what changed after the number of its feed that was `seen` (0: everything). Deleted albums are absent.

    One statement, however many albums and viewers there are.
    """
    rows = await connection.fetch(sql("albums/visible"), list(seen), list(seen.values()))
    albums: dict[UUID, AlbumChanges] = {}
    for row in rows:
        album = albums.get(row["album_id"])
        if album is None:
            album = AlbumChanges(row["workspace_id"], row["originals_shared"], row["last_seq"])
            albums[row["album_id"]] = album
        if row["photo_id"] is None:
            continue
        variants = album.photos.setdefault(row["photo_id"], {})
        if row["file_name"] is not None:
            variants[row["file_name"]] = VisibleVariant(
                row["storage_key"], row["size_bytes"], row["sha256"], row["content_type"]
            )
    return albums
