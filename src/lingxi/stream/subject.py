"""What is watched: a task, or an album as one of its two audiences sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self
from uuid import UUID

from lingxi.domain.photos import Album, album_to_wire
from lingxi.domain.wire import Task
from lingxi.stream import frames


class AlbumKey(NamedTuple):
    """An album, and for whom: members of its workspace, or those with a share link (`shared`)."""

    album_id: UUID
    shared: bool


Key = UUID | AlbumKey  # a bare UUID is a task's id


class Subject(Protocol):
    """The state of what is watched, as of one moment, and the frames that tell of it as a whole."""

    @property
    def workspace_id(self) -> UUID: ...

    @property
    def cursor(self) -> int:
        """The number of its last change."""
        ...

    @property
    def final(self) -> bool:
        """Has it ended, so that nothing more comes unless somebody begins anew? Albums never do."""
        ...

    @property
    def gone(self) -> bool:
        """Was it deleted? Streams end, and nobody opens one any more."""
        ...

    @property
    def whole(self) -> bool:
        """Can `snapshot` be told from what was read?"""
        ...

    def after(self, before: "Subject | None") -> "Subject":
        """This state with what only an earlier read had brought."""
        ...

    def snapshot(self, *, with_id: bool = True) -> bytes: ...

    def progress(self) -> bytes:
        """What is told beside the changes; empty when there is no such thing."""
        ...

    def end(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class TaskSubject:
    """A task."""

    task: Task

    @property
    def workspace_id(self) -> UUID:
        return self.task.workspace_id

    @property
    def cursor(self) -> int:
        return self.task.cursor

    @property
    def final(self) -> bool:
        return self.task.final

    @property
    def gone(self) -> bool:
        return False

    @property
    def whole(self) -> bool:
        return True

    def after(self, before: Subject | None) -> Self:
        return self

    def snapshot(self, *, with_id: bool = True) -> bytes:
        return frames.snapshot(self.task, with_id=with_id)

    def progress(self) -> bytes:
        return frames.progress(self.task)

    def end(self) -> bytes:
        return frames.end(self.task)


@dataclass(frozen=True, slots=True)
class AlbumSubject:
    """An album for one audience. Counting its photos costs a look at each, so a read brings `counts` only where a snapshot
    needs them; `whole` says that they are of this very state.
    """

    album: Album
    shared: bool
    counts: Mapping[str, int]
    whole: bool

    @property
    def workspace_id(self) -> UUID:
        return self.album.workspace_id

    @property
    def cursor(self) -> int:
        return self.album.cursor

    @property
    def final(self) -> bool:
        return False

    @property
    def gone(self) -> bool:
        return self.album.deleted_at is not None

    def after(self, before: Subject | None) -> Self:
        if self.whole or not isinstance(before, AlbumSubject):
            return self
        return replace(self, counts=before.counts, whole=before.whole and before.cursor == self.cursor)

    def snapshot(self, *, with_id: bool = True) -> bytes:
        return frames.encode("snapshot", self._wire(self.album), self.cursor if with_id else None)

    def snapshot_as(self, number: int) -> bytes:
        """A `snapshot` among the changes, that stands for the album's own change of this number."""
        return frames.encode("snapshot", self._wire(replace(self.album, cursor=number)), number)

    def progress(self) -> bytes:
        return b""

    def end(self) -> bytes:
        return b""

    def _wire(self, album: Album) -> dict[str, Any]:
        return album_to_wire(album, self.counts, member=not self.shared)
