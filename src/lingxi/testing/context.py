"""What a bench lends to contexts, and the points at which it can crash an attempt."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import BaseModel

from lingxi.db.session import Connection
from lingxi.domain.decide import Succeeded
from lingxi.processors.context import Attempt, Context, FetchedObject, Item, StopReason
from lingxi.processors.objects import fetch_object, put_object
from lingxi.processors.scratch import Scratch
from lingxi.services.get_object import StoredObject
from lingxi.storage import Storage
from lingxi.testing.clock import Clock
from lingxi.testing.ran import Said
from lingxi.worker.store import Store

OnProgress = Callable[[Said], None]


class Crash(BaseException):
    """The attempt ends here, as if its worker had been killed: nothing of it is finished or cleaned up."""


class Points:
    """Crashes the attempt at one named point, once."""

    def __init__(self, at: str | None = None) -> None:
        self._at = at
        self.crashed = False

    def reach(self, name: str) -> None:
        """Raise Crash, if it is this one."""
        if name == self._at and not self.crashed:
            self.crash()

    def crash(self) -> None:
        """Here and now."""
        self.crashed = True
        raise Crash


class BenchTools:
    """Tools of contexts; `points` and `scratch` are those of the attempt that runs."""

    def __init__(self, store: Store, storage: Storage, points: Points, scratch: Scratch) -> None:
        self._store, self._storage, self._points, self._scratch = store, storage, points, scratch

    @property
    def storage(self) -> Storage:
        return self._storage

    @asynccontextmanager
    async def transaction(
        self, item: Item, attempt: Attempt, result: Callable[[], Succeeded | None]
    ) -> AsyncIterator[Connection]:
        async with self._store.guarded(item, attempt, result) as connection:
            yield connection
            self._points.reach("before_commit")
        self._points.reach("after_commit")

    def publish_progress(self, item: Item, done: int, total: int | None, note: str | None) -> None:
        """Nobody watches: the context keeps what was said."""

    def new_scratch(self, attempt: Attempt) -> Path:
        return self._scratch.open(str(attempt.id))

    async def fetch_object(self, context: Context, name: str) -> FetchedObject:
        fetched = await fetch_object(self._store.reading, self._storage, context, name)
        self._points.reach("after_fetch")
        return fetched

    async def put_object(self, context: Context, name: str, path: Path) -> StoredObject:
        return await put_object(self._storage, context, name, path)


class BenchContext(Context):
    """A context whose time is the bench's clock, and whose progress is kept word by word."""

    __slots__ = ("_clock", "_notice_at", "_on_progress", "said")

    def __init__(
        self,
        item: Item,
        attempt: Attempt,
        seconds: float,
        tools: BenchTools,
        result_model: type[BaseModel] | None,
        clock: Clock,
        on_progress: OnProgress | None,
    ) -> None:
        super().__init__(item, attempt, clock() + seconds, tools, result_model)
        self._clock = clock
        self._notice_at = self.deadline - min(5.0, seconds / 10)
        self._on_progress = on_progress
        self.said: list[Said] = []

    def seconds_left(self) -> float:
        left = self.deadline - self._clock()
        if left <= 0:
            self.ask_to_stop(StopReason.DEADLINE)
        elif self._clock() >= self._notice_at and self.stop_reason is None:
            self.ask_to_stop(StopReason.DEADLINE_NEAR)
        return left

    def progress(self, done: int, total: int | None = None, note: str | None = None) -> None:
        self.said.append(Said(done, total, note))
        if self._on_progress is not None:
            self._on_progress(self.said[-1])
        self.seconds_left()
