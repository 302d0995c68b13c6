"""What an archive is made of: the files of an album, or objects by their names."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.services.get_object import StoredObject

_NAMES_AT_ONCE = 5_000


class ArchiveFile(NamedTuple):
    """A file to come. `source` is what it was asked for by: an object's name, or a photo's id. Without a key it is missing."""

    name: str
    source: str
    storage_key: str | None
    size_bytes: int
    sha256: bytes
    modified_at: int  # seconds since 1970


async def find_object_files(
    connection: Connection, workspace_id: UUID, names: Sequence[str]
) -> list[ArchiveFile]:
    """The objects of these (normalised) names, in this order; one that is not there has no key."""
    files: list[ArchiveFile] = []
    for start in range(0, len(names), _NAMES_AT_ONCE):
        some = names[start : start + _NAMES_AT_ONCE]
        records = await connection.fetch(sql("objects/get_many"), workspace_id, some)
        found = {one.name: one for one in map(StoredObject.from_record, records)}
        files += [_object_file(name, found.get(name)) for name in some]
    return files


def _object_file(name: str, found: StoredObject | None) -> ArchiveFile:
    if found is None:
        return ArchiveFile(name, name, None, 0, b"", 0)
    return ArchiveFile(
        name, name, found.storage_key, found.size_bytes, found.sha256, int(found.created_at.timestamp())
    )


async def find_album_files(
    connection: Connection, album_id: UUID, *, browse: bool, unpublished: bool, limit: int
) -> list[ArchiveFile]:
    """An album's photos in its order, as they were uploaded, or as they are shown; never recalled or deleted ones."""
    files: list[ArchiveFile] = []
    statement = sql("photos/to_archive")
    async for record in connection.cursor(statement, album_id, browse, unpublished, limit, prefetch=1_000):
        name = record["file_name"]
        if browse:
            name = f"{name.rpartition('.')[0] or name}.jpg"
        files.append(
            ArchiveFile(
                name,
                str(record["id"]),
                record["storage_key"],
                record["size_bytes"] or 0,
                record["sha256"] or b"",
                int(record["taken_at"].timestamp()),
            )
        )
    return files
