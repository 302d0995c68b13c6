"""What an API process remembers of an album is true from the first request on."""

from __future__ import annotations

import asyncio

from lingxi.api.album_memory import AlbumMemory
from lingxi.services.share_links import create_share_link
from tests.support.photos import Photos


async def test_nobody_is_answered_from_what_is_only_being_read(album: Photos) -> None:
    """A page asks for many pictures at once: while the first is waiting for the database, the others know no more than it."""
    pool = album.work.pool
    async with pool.acquire() as connection, connection.transaction():
        link, _ = await create_share_link(connection, album.album_id, lifetime_seconds=None)
    memory = AlbumMemory(pool)
    asked = []
    for _ in range(12):
        asked.append(asyncio.create_task(memory.look(album.album_id, ("share", link.id))))
        await asyncio.sleep(0)  # so that each comes at another step of the reading
    for seen, holds in await asyncio.gather(*asked):
        assert holds
        assert seen is not None
