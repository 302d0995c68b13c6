"""What may be served of albums, kept in memory: each request for a picture is checked here, whoever and however many ask.

An album is read whole when it is first asked for; afterwards only photos whose number in the feed is newer. What is
more than MAX_AGE_SECONDS old, or was doubted by a hint, is read again before anybody is answered. All albums and grants
that are in use are read together, in two statements a round, so the database's cost does not grow with viewers.
PostgreSQL away: nobody is served, since nobody could know what has been taken back.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import UUID

from lingxi.db.session import Pool
from lingxi.services.valid_grants import valid_grants
from lingxi.services.visible_albums import AlbumChanges, VisibleVariant, read_visible_albums

MAX_AGE_SECONDS = 0.8  # what was taken back must be gone within a second
_IN_USE_SECONDS = 3.0  # who asked so recently is read along with the others
_MAX_VARIANTS = 400_000  # a few hundred bytes each
_MAX_ENTRIES = 20_000  # albums, and grants


@dataclass(slots=True)
class VisibleAlbum:
    """An album's published pictures, by photo and file name."""

    workspace_id: UUID
    originals_shared: bool
    last_seq: int
    photos: dict[UUID, dict[str, VisibleVariant]] = field(default_factory=dict)

    def take(self, changes: AlbumChanges) -> None:
        """Put what has changed in place."""
        self.workspace_id, self.originals_shared = changes.workspace_id, changes.originals_shared
        self.last_seq = changes.last_seq
        for photo_id, variants in changes.photos.items():
            if variants:
                self.photos[photo_id] = variants
            else:
                self.photos.pop(photo_id, None)

    @property
    def size(self) -> int:
        return 1 + 2 * len(self.photos)


T = TypeVar("T")


@dataclass(slots=True)
class _Known(Generic[T]):
    """A value as it was read by a round that began at `read_at`; both times are of the monotonic clock."""

    value: T
    used_at: float
    read_at: float = float("-inf")
    round: int = 0  # the number of the round that read it
    doubted: bool = False  # since that round began


class AlbumMemory:
    """One for each API process. `doubt…` are for hints: they cost nothing until somebody asks."""

    def __init__(
        self,
        pool: Pool,
        *,
        max_age_seconds: float = MAX_AGE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool, self._max_age_seconds, self._clock = pool, max_age_seconds, clock
        self._albums: OrderedDict[UUID, _Known[VisibleAlbum | None]] = OrderedDict()
        self._grants: OrderedDict[Hashable, _Known[bool]] = OrderedDict()
        self._size = 0
        self._now: asyncio.Future[None] | None = None  # the round that is being read, and the one after it
        self._next: asyncio.Future[None] | None = None
        self._runner: asyncio.Task[None] | None = None
        self._begun = 0  # rounds
        self.rounds = 0  # that were read

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────
    async def look(
        self, album_id: UUID, grant: Hashable, *, anew: bool = False
    ) -> tuple[VisibleAlbum | None, bool]:
        """The album (None: there is none) and whether the grant holds, neither older than the limit.

        `anew`: read after this question, whatever is remembered. Raises what PostgreSQL's absence raises.
        """
        asked = self._begun

        def is_fresh(known: _Known[Any]) -> bool:
            if known.round > asked:  # it began to be read after the question, however long that took
                return True
            return not (anew or known.doubted) and known.read_at >= now - self._max_age_seconds

        while True:
            now = self._clock()
            album = self._albums.setdefault(album_id, _Known(None, now))
            held = self._grants.setdefault(grant, _Known(False, now))
            album.used_at = held.used_at = now
            if is_fresh(album) and is_fresh(held):
                self._albums.move_to_end(album_id)
                self._grants.move_to_end(grant)
                return album.value, held.value
            await asyncio.shield(self._now or self._next_round())

    # ── hints ────────────────────────────────────────────────────────────────────────────────────────────
    def doubt(self, album_ids: Iterable[UUID]) -> None:
        """These albums changed."""
        for album_id in album_ids:
            if (known := self._albums.get(album_id)) is not None:
                known.doubted = True

    def doubt_access(self) -> None:
        """A token or a share link was revoked."""
        for known in self._grants.values():
            known.doubted = True

    def doubt_all(self) -> None:
        """Hints may have been lost."""
        self.doubt(list(self._albums))
        self.doubt_access()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────
    def _next_round(self) -> asyncio.Future[None]:
        """Done when a round that begins from now on has been read."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._next.add_done_callback(_looked_at)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.get_running_loop().create_task(self._run())
        return self._next

    async def _run(self) -> None:
        while (waiting := self._next) is not None:
            self._now, self._next = waiting, None
            try:
                await self._round()
            except Exception as error:
                waiting.set_exception(error)
            except asyncio.CancelledError:
                waiting.cancel()
                raise
            else:
                waiting.set_result(None)
            finally:
                self._now = None

    async def _round(self) -> None:
        """Read all that is in use. What is doubted while the statements run stays in doubt, and nobody is answered from what
        is only being read.
        """
        self._begun += 1
        began, number = self._clock(), self._begun
        in_use = began - _IN_USE_SECONDS
        albums = {album_id: known for album_id, known in self._albums.items() if known.used_at >= in_use}
        grants = {grant: known for grant, known in self._grants.items() if known.used_at >= in_use}
        used: list[_Known[Any]] = [*albums.values(), *grants.values()]
        for known in used:
            known.doubted = False
        seen = {album_id: known.value.last_seq if known.value else 0 for album_id, known in albums.items()}
        try:
            async with self._pool.acquire(timeout=5) as connection:
                changes = await read_visible_albums(connection, seen)
                valid = await valid_grants(connection, list(grants))
        except BaseException:
            for known in used:
                known.doubted = True
            raise
        self.rounds += 1
        for known in used:
            known.read_at, known.round = began, number
        for album_id, album in albums.items():
            self._take(album, changes.get(album_id))
        for grant, held in grants.items():
            held.value = grant in valid
        self._forget()

    def _take(self, known: _Known[VisibleAlbum | None], changes: AlbumChanges | None) -> None:
        self._size -= known.value.size if known.value else 0
        if changes is None:
            known.value = None
        elif known.value is not None and changes.last_seq < known.value.last_seq:
            known.value, known.doubted, known.round = (
                None,
                True,
                0,
            )  # an older database was put back: read it all
        elif known.value is None:
            known.value = VisibleAlbum(changes.workspace_id, changes.originals_shared, 0)
            known.value.take(changes)
        else:
            known.value.take(changes)
        self._size += known.value.size if known.value else 0

    def _forget(self) -> None:
        """What was used longest ago goes first; what is in use stays, whatever its size."""
        in_use = self._clock() - _IN_USE_SECONDS
        while self._albums and (self._size > _MAX_VARIANTS or len(self._albums) > _MAX_ENTRIES):
            oldest = next(iter(self._albums))
            if self._albums[oldest].used_at >= in_use:
                break
            value = self._albums.pop(oldest).value
            self._size -= value.size if value else 0
        while len(self._grants) > _MAX_ENTRIES:
            oldest_grant = next(iter(self._grants))
            if self._grants[oldest_grant].used_at >= in_use:
                break
            del self._grants[oldest_grant]


def _looked_at(future: asyncio.Future[None]) -> None:
    """Whoever waited may have gone meanwhile: an error that nobody hears is no news."""
    if not future.cancelled():
        future.exception()
