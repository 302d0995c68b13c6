"""What a viewer of an album knows after the frames that it was sent, to be compared with what the server lists."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

from lingxi.conformance.sse import Frame, ProtocolError

EVENTS = frozenset({"snapshot", "photo", "removed", "reset", "closing"})


@dataclass(slots=True)
class AlbumModel:
    """Photos by id as last told, those that were told as removed, and the album as last told."""

    album: dict[str, Any] | None = None
    photos: dict[str, dict[str, Any]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    resets: int = 0

    def apply(self, frame: Frame) -> None:
        """Take one frame. `removed` carries the photo where its reader still has it (a member, of a hidden or recalled one)."""
        data = frame.data
        match frame.event:
            case "snapshot":
                self.album = data
            case "photo":
                self.photos[data["id"]] = data
                self.removed.discard(data["id"])
            case "removed":
                self.removed.add(data["id"])
                self.photos.pop(data["id"], None)
                if data.get("photo") is not None:
                    self.photos[data["id"]] = data["photo"]
            case "reset":
                self.photos.clear()
                self.removed.clear()
                self.album = None
                self.resets += 1
            case event if event not in EVENTS:
                raise ProtocolError(f"there is no frame {event!r} in the feed of an album")

    def copy(self) -> Self:
        """The same knowledge, apart."""
        return deepcopy(self)

    def seed(self, listed: Iterable[Mapping[str, Any]]) -> None:
        """Fill in what `GET …/photos` says about photos that no frame has told of."""
        for photo in listed:
            if photo["id"] not in self.photos and photo["id"] not in self.removed:
                self.photos[photo["id"]] = dict(photo)

    def differences(self, listed: Iterable[Mapping[str, Any]]) -> list[str]:
        """How this differs from the photos that the server lists now; empty when it is the same."""
        rows = {photo["id"]: photo for photo in listed}
        found = [f"photo {one} was never told" for one in sorted(rows.keys() - self.photos.keys())]
        found += [
            f"photo {one} was told and is not listed" for one in sorted(self.photos.keys() - rows.keys())
        ]
        for one in sorted(rows.keys() & self.photos.keys()):
            told, row = self.photos[one], rows[one]
            names = sorted(name for name in told.keys() | row.keys() if told.get(name) != row.get(name))
            if names:
                found.append(f"photo {one} differs in {', '.join(names)}")
        return found
