"""Ask for new pictures of an album's photos: each takes its next generation, and tasks of `photo:process` make them."""

from uuid import UUID

import orjson

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import Conflict, NotFound
from lingxi.domain.wire import Task
from lingxi.names import PHOTO_ATTEMPTS, PHOTO_QUEUE, PRIORITIES
from lingxi.services.submit_task import NewTask, submit_task

ITEMS_PER_TASK = 10_000


async def request_reprocess(connection: Connection, workspace_id: UUID, album_id: UUID) -> list[Task]:
    """One task for each 10,000 photos that are ready, in bulk priority, so that new uploads go first.

    NotFound without the album, Conflict when no photo of it is ready. The photos stay as they are until new pictures are there.
    """
    album = await connection.fetchrow(sql("albums/get"), workspace_id, album_id)
    locked = None if album is None else await connection.fetchrow(sql("albums/lock"), album_id)
    if locked is None or locked["deleted"]:
        raise NotFound
    rows = await connection.fetch(sql("photos/request_generation"), album_id)
    if not rows:
        raise Conflict("No photo of this album is ready.")
    rows.sort(key=lambda row: (row["sort_at"], row["upload_number"]))
    tasks = []
    for start in range(0, len(rows), ITEMS_PER_TASK):
        part = rows[start : start + ITEMS_PER_TASK]
        inputs = [
            orjson.dumps({"photoId": str(row["id"]), "generation": row["requested_generation"]}).decode()
            for row in part
        ]
        new = NewTask(
            workspace_id,
            PHOTO_QUEUE,
            PRIORITIES["bulk"],
            [str(row["id"]) for row in part],
            inputs,
            orjson.dumps({"albumId": str(album_id)}).decode(),
            PHOTO_ATTEMPTS,
        )
        tasks.append(await submit_task(connection, new))
    return tasks
