"""Below which prefixes of the bucket a workspace may register media that are not ours."""

from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.storage.port import MEDIA, check_readable_key


def checked_prefix(prefix: str) -> str:
    """The prefix itself; ValueError in a sentence unless names may begin with it. It ends in `/`, so `a/` never means `ab/`."""
    try:
        check_readable_key(f"{MEDIA}{prefix}x")
    except ValueError:
        raise ValueError(
            "a prefix is a folder as the bucket names it, without '..' and without a leading '/'"
        ) from None
    if not prefix.endswith("/") or len(prefix) > 1000:
        raise ValueError("a prefix ends in '/' and has at most 1000 characters, e.g. 'archive/2026/'")
    return prefix


async def allow_prefix(connection: Connection, workspace_id: UUID, prefix: str) -> None:
    """From now on the workspace may register what lies below it. Again is the same."""
    await connection.execute(sql("workspace_prefixes/allow"), workspace_id, checked_prefix(prefix))


async def forbid_prefix(connection: Connection, workspace_id: UUID, prefix: str) -> bool:
    """No more may be registered; what was registered stays. False when it was not allowed."""
    return await connection.fetchval(sql("workspace_prefixes/forbid"), workspace_id, prefix) is not None


async def list_prefixes(connection: Connection, workspace_id: UUID) -> list[str]:
    """In order."""
    return [row["prefix"] for row in await connection.fetch(sql("workspace_prefixes/list"), workspace_id)]


async def is_allowed(connection: Connection, workspace_id: UUID, name: str) -> bool:
    """May the workspace register media of this name?"""
    return bool(await connection.fetchval(sql("workspace_prefixes/allows"), workspace_id, name))
