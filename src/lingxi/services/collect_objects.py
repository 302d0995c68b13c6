"""What the object collector asks of the database, a bounded step at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from lingxi.db.query import sql
from lingxi.db.session import Connection

REMOVED_AFTER_SECONDS = (
    3_600.0  # readers of an old address are done by then, and it is well inside the day that is promised
)
IDENTITY = "storage_identity"
EPOCH = "storage_epoch"


@dataclass(frozen=True, slots=True)
class Trash:
    """A key, or (with `/` at its end) all keys below it, that is to be removed now."""

    storage_key: str
    reason: str


async def clear_photos(
    connection: Connection, *, limit: int, after_seconds: float = REMOVED_AFTER_SECONDS
) -> int:
    """All files of deleted and recalled photos go to the trash; answers how many photos there were."""
    return int(await connection.fetchval(sql("photos/clear"), limit, after_seconds))


async def due_trash(connection: Connection, *, limit: int) -> list[Trash]:
    """Locked for this transaction: nobody else removes them."""
    return [Trash(**dict(row)) for row in await connection.fetch(sql("trash/due"), limit)]


async def add_trash(
    connection: Connection, keys: Sequence[str], reason: str, *, after_seconds: float
) -> None:
    """To be removed after so long; what is there already keeps its time."""
    await connection.execute(sql("trash/add"), keys, reason, after_seconds)


async def forget_trash(connection: Connection, keys: Sequence[str]) -> None:
    """They are removed, or were no trash."""
    await connection.execute(sql("trash/forget"), keys)


async def known_trash(connection: Connection, keys: Sequence[str]) -> set[str]:
    """Those of the keys that are in the trash."""
    return {row["storage_key"] for row in await connection.fetch(sql("trash/known"), keys)}


async def live_keys(connection: Connection, keys: Sequence[str]) -> set[str]:
    """Those of the keys whose bytes some row still needs."""
    return {row["storage_key"] for row in await connection.fetch(sql("objects/live_keys"), keys)}


async def is_photo_gone(connection: Connection, photo_id: UUID) -> bool:
    """Was it deleted or recalled? Both are final."""
    return bool(await connection.fetchval(sql("photos/is_gone"), photo_id))


async def take_turn(connection: Connection, name: str, *, every_seconds: float) -> bool:
    """Is it this process's turn to do what one process does every so often?"""
    return await connection.fetchval(sql("deployment/take_turn"), name, every_seconds) is not None


async def storage_identity(connection: Connection) -> UUID:
    """The name by which this database marks the storage that it uses; made once."""
    return UUID(await connection.fetchval(sql("deployment/remember"), IDENTITY, str(uuid4())))


async def storage_epoch(connection: Connection) -> int:
    """How often this database has marked its storage."""
    return int(await connection.fetchval(sql("deployment/get"), EPOCH) or 0)


async def next_storage_epoch(connection: Connection) -> int:
    """Count, before the storage is marked: a crash in between leaves the storage behind, never ahead."""
    return int(await connection.fetchval(sql("deployment/count"), EPOCH))
