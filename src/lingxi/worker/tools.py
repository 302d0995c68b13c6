"""What contexts are lent: transactions, progress, storage."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson

from lingxi.broker.hints import Hints
from lingxi.db.session import Connection
from lingxi.processors.contract import Attempt, Item
from lingxi.worker.store import Store


class WorkerTools:
    """One a process."""

    def __init__(self, store: Store, hints: Hints, storage: Any) -> None:
        self._store, self._hints, self._storage = store, hints, storage

    @property
    def storage(self) -> Any:
        return self._storage

    def transaction(self, item: Item, attempt: Attempt) -> AbstractAsyncContextManager[Connection]:
        return self._store.guarded(item, attempt)

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
