"""Find an object of a workspace by its name."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection, Record
from lingxi.domain.errors import FieldError, MalformedRequest, NotFound
from lingxi.domain.object_names import normalise_object_name


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The row of an object. `sha256` has 32 bytes; `storage_key` is for `lingxi.storage` and stays on the server."""

    name: str
    storage_key: str
    size_bytes: int
    sha256: bytes
    content_type: str
    created_at: datetime

    @classmethod
    def from_record(cls, record: Record) -> "StoredObject":
        """From a row of the statements in `queries/objects/`."""
        return cls(**dict(record))


async def get_object(connection: Connection, workspace_id: UUID, name: str) -> StoredObject:
    """The object of that name (any Unicode form of it). MalformedRequest for what is no name, NotFound."""
    found = await find_object(connection, workspace_id, checked_object_name(name))
    if found is None:
        raise NotFound
    return found


async def find_object(connection: Connection, workspace_id: UUID, name: str) -> StoredObject | None:
    """The object of that name (normalised); None when the workspace has none."""
    record = await connection.fetchrow(sql("objects/get"), workspace_id, name)
    return None if record is None else StoredObject.from_record(record)


def checked_object_name(name: str) -> str:
    """The normalised name; MalformedRequest (40001) that says what is wrong with it."""
    try:
        return normalise_object_name(name)
    except ValueError as error:
        raise MalformedRequest(str(error), errors=[FieldError("name", str(error))]) from error
