"""Reading what changed in an album looks at what changed, however many photos the album has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from lingxi.db.query import sql
from lingxi.db.session import connect

PHOTOS = 5_000
_FILL = """
insert into photos (id, workspace_id, album_id, upload_number, file_name, storage_key, size_bytes, sha256, content_type,
                    processing_state, visibility, published_generation, width, height, published_at, last_seq)
select gen_random_uuid(), $1, $2, g, 'a.jpg', gen_random_uuid()::text, 1, sha256(g::text::bytea), 'image/jpeg',
       'ready', 'published', 1, 1, 1, now(), 1 + g
  from generate_series(1, $3::int) g
"""


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


async def test_a_poll_reads_what_changed_and_counts_nothing(pool: Any, database_url: str) -> None:
    workspace, albums = uuid4(), [uuid4() for _ in range(3)]
    async with pool.acquire() as c:
        await c.execute("insert into workspaces (id, name) values ($1, 'w')", workspace)
        for album in albums:
            await c.execute(
                "insert into albums (id, workspace_id, name, last_seq) values ($1, $2, 'a', $3)",
                album,
                workspace,
                PHOTOS + 1,
            )
            await c.execute(_FILL, workspace, album, PHOTOS)
        await c.execute(
            "insert into photo_variants select id, 'thumb', 1, storage_key, 'a', 1, 1, 1, '', 'image/jpeg' from photos"
        )
        await c.execute("analyze")
    hot = await connect(database_url, name="test-plan", hot=True)
    try:
        asked = ([albums[0]], [PHOTOS - 4], [2**31 - 1], [200], [False], [False])
        for shared in (False, True):
            (plan,) = await hot.fetch(
                "explain (analyze, format json) " + sql("stream/read_albums"), *asked, [shared]
            )
            scans = [
                node
                for node in _nodes(json.loads(plan[0])[0]["Plan"])
                if node.get("Relation Name") in ("photos", "photo_variants")
            ]
            assert {node["Node Type"] for node in scans} <= {
                "Index Scan",
                "Bitmap Heap Scan",
                "Index Only Scan",
            }
            assert sum(node["Actual Rows"] * node["Actual Loops"] for node in scans) <= 5 + 5, scans
    finally:
        await hot.close()
