"""What contexts are lent: transactions, progress, storage, scratch folders, objects of the workspace."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import orjson

from lingxi.broker.hints import Hints
from lingxi.db.session import Connection
from lingxi.domain.decide import Succeeded
from lingxi.processors.context import Attempt, Context, FetchedObject, Item
from lingxi.processors.objects import fetch_object, put_object
from lingxi.processors.scratch import Scratch
from lingxi.services.get_object import StoredObject
from lingxi.storage import Storage
from lingxi.worker.store import Store


class WorkerTools:
    """One a process."""

    def __init__(self, store: Store, hints: Hints, storage: Storage, scratch: Scratch) -> None:
        self._store, self._hints, self._storage, self._scratch = store, hints, storage, scratch

    @property
    def storage(self) -> Storage:
        return self._storage

    def transaction(
        self, item: Item, attempt: Attempt, result: Callable[[], Succeeded | None]
    ) -> AbstractAsyncContextManager[Connection]:
        return self._store.guarded(item, attempt, result)

    def publish_progress(self, item: Item, done: int, total: int | None, note: str | None) -> None:
        frame = {
            "taskId": str(item.task_id),
            "itemId": str(item.id),
            "index": item.index,
            "done": done,
            "total": total,
            "note": note,
        }
        self._hints.publish_progress(orjson.dumps(frame))

    def new_scratch(self, attempt: Attempt) -> Path:
        return self._scratch.open(str(attempt.id))

    async def fetch_object(self, context: Context, name: str) -> FetchedObject:
        return await fetch_object(self._store.reading, self._storage, context, name)

    async def put_object(self, context: Context, name: str, path: Path) -> StoredObject:
        return await put_object(self._storage, context, name, path)
