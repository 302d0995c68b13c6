"""With tens of thousands of photos in the tables, what viewers ask for reads a handful of rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from lingxi.services.clear_album import albums_to_clear
from lingxi.services.read_photos import get_photo, list_photos
from lingxi.services.share_links import find_share_link, valid_share_links
from lingxi.services.valid_grants import valid_grants
from lingxi.services.visible_albums import read_visible_albums

ALBUMS, PHOTOS = 20, 1_000
FILL = f"""
insert into workspaces (id, name) values ('00000000-0000-4000-8000-000000000001', 'big');
insert into albums (id, workspace_id, name, last_seq, last_upload)
select ('00000000-0000-4000-9000-' || lpad(g::text, 12, '0'))::uuid, '00000000-0000-4000-8000-000000000001', 'a',
       {PHOTOS} + 1, {PHOTOS}
  from generate_series(1, {ALBUMS}) g;
insert into photos (id, workspace_id, album_id, upload_number, file_name, storage_key, size_bytes, sha256, content_type, last_seq,
                    processing_state, visibility, published_generation, width, height, published_at, sort_at)
select gen_random_uuid(), a.workspace_id, a.id, n, 'x.jpg', a.id || '/' || n, 1, sha256((a.id || '/' || n)::bytea), 'image/jpeg',
       n + 1, 'ready', 'published', 1, 1, 1, now(), '2026-01-01'::timestamptz + make_interval(secs => n)
  from albums a, generate_series(1, {PHOTOS}) n;
insert into photo_variants (photo_id, kind, generation, storage_key, file_name, width, height, size_bytes, sha256, content_type)
select p.id, k, 1, p.storage_key || k, k, 1, 1, 1, p.sha256, 'image/jpeg' from photos p, unnest(array['thumb', 'browse']) k;
insert into share_links (id, album_id, secret_hash)
select gen_random_uuid(), a.id, sha256((a.id || '/' || n)::bytea) from albums a, generate_series(1, 500) n;
"""
ROWS_READ = "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int from pg_stat_xact_user_tables"
ALBUM = UUID("00000000-0000-4000-9000-000000000007")


async def test_what_viewers_ask_for_reads_few_rows(pool: Any) -> None:
    async with pool.acquire() as connection:
        await connection.execute(FILL)
        await connection.execute("analyze")
        photo = await connection.fetchval(
            "select id from photos where album_id = $1 and upload_number = 500", ALBUM
        )
        share = await connection.fetchval("select id from share_links where album_id = $1 limit 1", ALBUM)
        middle = (datetime(2026, 1, 1, 0, 8, 20, tzinfo=UTC), 500)
        seen = {ALBUM: PHOTOS - 3, uuid4(): 0}
        asked: dict[str, tuple[int, Callable[[], Awaitable[Any]]]] = {
            "what has changed": (4, lambda: read_visible_albums(connection, seen)),
            "a photo": (1, lambda: get_photo(connection, ALBUM, photo)),
            "a page": (50, lambda: list_photos(connection, ALBUM, shared_only=True, after=middle, limit=50)),
            "a share link": (1, lambda: valid_share_links(connection, [share])),
            "grants": (1, lambda: valid_grants(connection, [("share", share), uuid4()])),
            "a secret": (1, lambda: find_share_link(connection, "nobody has this")),
            "albums to clear": (0, lambda: albums_to_clear(connection, limit=500)),
        }
        for name, (photos, ask) in asked.items():
            for _ in range(7):  # the generic plan comes with the sixth
                async with connection.transaction():
                    before = await connection.fetchval(ROWS_READ)
                    await ask()
                    rows = await connection.fetchval(ROWS_READ) - before
                assert rows <= 3 * photos + 40, (name, rows)
