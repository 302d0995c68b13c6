"""Finding what looks like a photo stays quick in an album of 100,000, and in one whose photos are all alike."""

from __future__ import annotations

import random
import time
from typing import Any
from uuid import UUID, uuid4

import pytest

from lingxi.db.session import connect
from lingxi.domain.duplicates import MAX_LINKS, NEAR_BITS
from lingxi.services.collect_objects import clear_photos
from lingxi.services.keep_fingerprint import Fingerprint, find_fingerprint, keep_fingerprint
from lingxi.services.list_duplicates import list_duplicates

WORKSPACE, ALBUM = uuid4(), uuid4()
FILL = """
insert into photos (id, workspace_id, album_id, upload_number, file_name, storage_key, size_bytes, sha256, content_type,
                    processing_state, visibility, published_generation, width, height, published_at, last_seq)
select gen_random_uuid(), $1, $2, g, 'a.jpg', gen_random_uuid()::text, 1, sha256(g::text::bytea), 'image/jpeg',
       'ready', 'published', 1, 1, 1, now(), 1 + g
  from generate_series(1, $3::int) g
"""
PRINT = """
insert into photo_fingerprints (photo_id, album_id, generation, perceptual_hash, difference_hash, thumb_hash, sharpness, width,
                                height, camera, captured_local)
select id, album_id, 1, ('x' || encode(substr(sha256, 1, 8), 'hex'))::bit(64)::bigint,
       ('x' || encode(substr(sha256, 9, 8), 'hex'))::bit(64)::bigint, '', 1, 1, 1,
       'camera', '2026-01-01'::timestamp + make_interval(secs => 5 * upload_number)
  from photos where album_id = $1
"""
ROWS_READ = "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int from pg_stat_xact_user_tables"


async def fill(pool: Any, photos: int) -> None:
    async with pool.acquire() as c:
        await c.execute("insert into workspaces (id, name) values ($1, $2)", WORKSPACE, "w")
        await c.execute("insert into albums (id, workspace_id, name) values ($1, $2, 'a')", ALBUM, WORKSPACE)
        await c.execute(FILL, WORKSPACE, ALBUM, photos)
        await c.execute(PRINT, ALBUM)
        await c.execute("analyze")


def near(taken: Fingerprint, bits: int, chance: random.Random) -> Fingerprint:
    """The same with so many bits of its perceptual hash changed."""
    assert taken.perceptual_hash is not None
    number = int.from_bytes(taken.perceptual_hash, "big")
    for bit in chance.sample(range(64), bits):
        number ^= 1 << bit
    return Fingerprint(
        taken.generation,
        number.to_bytes(8, "big"),
        taken.difference_hash,
        b"",
        1.0,
        1,
        1,
        taken.camera,
        taken.captured_local,
    )


async def keep_some(pool: Any, url: str, count: int) -> tuple[list[float], int]:
    """Fingerprints of photos that are near others in every way the index promises to find; milliseconds and rows read of each."""
    chance, took, most_rows = random.Random(5), [], 0
    photos = await pool.fetch("select id from photos order by sha256 limit $1", 2 * count)
    hot = await connect(url, name="test-fingerprints", hot=True)
    try:
        for number in range(count):
            one, other = photos[number]["id"], photos[count + number]["id"]
            theirs = await find_fingerprint(hot, other)
            assert theirs is not None
            async with hot.transaction():
                before = await hot.fetchval(ROWS_READ) or 0
                started = time.perf_counter()
                links = await keep_fingerprint(
                    hot, ALBUM, one, near(theirs, number % (NEAR_BITS + 1), chance)
                )
                took.append((time.perf_counter() - started) * 1000)
                most_rows = max(most_rows, await hot.fetchval(ROWS_READ) - before)
            assert links is not None
            assert (other, number % (NEAR_BITS + 1)) in [link[:2] for link in links], number
    finally:
        await hot.close()
    return sorted(took), most_rows


async def test_what_is_near_is_found_by_the_index(pool: Any, database_url: str) -> None:
    await fill(pool, 20_000)
    _, rows = await keep_some(pool, database_url, 40)
    assert rows < 1_000, rows
    async with pool.acquire() as connection:
        listed = await list_duplicates(connection, ALBUM)
    assert len([group for group in listed.groups if group.kind == "duplicate"]) == 40
    assert listed.fingerprinted == 20_000


async def test_bits_beyond_the_promise_are_not_near(pool: Any, database_url: str) -> None:
    await fill(pool, 10)
    one, other = [row["id"] for row in await pool.fetch("select id from photos limit 2")]
    async with pool.acquire() as connection, connection.transaction():
        theirs = await find_fingerprint(connection, other)
        assert theirs is not None
        far = near(theirs, NEAR_BITS + 1, random.Random(1))
        links = await keep_fingerprint(connection, ALBUM, one, far)
        assert links is not None and not any(link.is_near for link in links)


async def test_an_album_of_photos_that_are_all_alike_costs_as_little(pool: Any, database_url: str) -> None:
    await fill(pool, 3_000)
    await pool.execute("update photo_fingerprints set perceptual_hash = 7, difference_hash = 7")
    await pool.execute("analyze")
    hot = await connect(database_url, name="test-fingerprints", hot=True)
    try:
        async with hot.transaction():
            one = await hot.fetchval("select id from photos limit 1")
            same = await find_fingerprint(hot, one)
            assert same is not None
            before = await hot.fetchval(ROWS_READ) or 0
            links = await keep_fingerprint(hot, ALBUM, one, same)
            assert links is not None and len(links) <= 2 * MAX_LINKS
            assert await hot.fetchval(ROWS_READ) - before < 2_000
    finally:
        await hot.close()


async def test_what_is_deleted_is_forgotten(pool: Any) -> None:
    await fill(pool, 3)
    ids: list[UUID] = [row["id"] for row in await pool.fetch("select id from photos order by upload_number")]
    async with pool.acquire() as connection, connection.transaction():
        taken = await find_fingerprint(connection, ids[0])
        assert taken is not None
        for photo_id in ids:
            await keep_fingerprint(connection, ALBUM, photo_id, taken)
    assert await pool.fetchval("select count(*) from photo_pairs") == 3
    await pool.execute("update photos set deleted_at = now() where id = $1", ids[0])
    await pool.execute("update photos set visibility = 'recalled' where id = $1", ids[1])
    async with pool.acquire() as connection, connection.transaction():
        assert await keep_fingerprint(connection, ALBUM, ids[0], taken) is None
        assert await clear_photos(connection, limit=10, after_seconds=1.0) == 2
    left = await pool.fetch("select photo_id from photo_fingerprints")
    assert [row["photo_id"] for row in left] == [ids[2]]
    assert await pool.fetchval("select count(*) from photo_pairs") == 0


@pytest.mark.slow
async def test_a_hundred_thousand(pool: Any, database_url: str) -> None:
    await fill(pool, 100_000)
    took, rows = await keep_some(pool, database_url, 400)
    started = time.perf_counter()
    async with pool.acquire() as connection:
        listed = await list_duplicates(connection, ALBUM)
    listing = (time.perf_counter() - started) * 1000
    print(
        f"a fingerprint: p50 {took[200]:.1f} ms, p95 {took[380]:.1f} ms, {rows} rows at most; listing {listing:.0f} ms"
    )
    assert rows < 2_000
    assert len([group for group in listed.groups if group.kind == "duplicate"]) >= 400
