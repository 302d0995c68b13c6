"""Ask for the fingerprints that an album's photos do not have yet: tasks of `photo:fingerprint` take them."""

from uuid import UUID

import orjson

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.errors import NotFound
from lingxi.domain.wire import Task
from lingxi.names import FINGERPRINT_QUEUE, PRIORITIES
from lingxi.services.submit_task import NewTask, submit_task

ITEMS_PER_TASK = 10_000


async def request_fingerprints(connection: Connection, workspace_id: UUID, album_id: UUID) -> list[Task]:
    """One task for each 10,000 ready photos without a fingerprint of their latest pictures, in bulk priority; often none.

    NotFound without the album. Asked again before they are done: the same once more, and each photo is looked at once.
    """
    if await connection.fetchrow(sql("albums/get"), workspace_id, album_id) is None:
        raise NotFound
    photos = [str(row["id"]) for row in await connection.fetch(sql("photo_fingerprints/missing"), album_id)]
    tasks = []
    for start in range(0, len(photos), ITEMS_PER_TASK):
        part = photos[start : start + ITEMS_PER_TASK]
        new = NewTask(
            workspace_id,
            FINGERPRINT_QUEUE,
            PRIORITIES["bulk"],
            part,
            [orjson.dumps({"photoId": photo}).decode() for photo in part],
            orjson.dumps({"albumId": str(album_id)}).decode(),
        )
        tasks.append(await submit_task(connection, new))
    return tasks
