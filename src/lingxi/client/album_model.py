"""Albums, their photos and share links as typed values. `raw` is the object as it came."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lingxi.client.errors import StreamBroken
from lingxi.client.frames import Closing, Reset
from lingxi.client.model import Json
from lingxi.client.sse import ServerSentEvent


@dataclass(frozen=True, slots=True)
class Album:
    """An album. `counts` are its photos by what is known of them; `cursor` is where its feed may be resumed."""

    id: str
    name: str
    originals_shared: bool
    created_at: str
    cursor: int
    counts: dict[str, int]
    raw: Json

    @classmethod
    def from_wire(cls, wire: Json) -> Album:
        return cls(
            id=wire["id"],
            name=wire["name"],
            originals_shared=bool(wire.get("originalsShared")),
            created_at=wire["createdAt"],
            cursor=int(wire["cursor"]),
            counts={name: int(count) for name, count in wire["counts"].items() if count is not None},
            raw=wire,
        )


@dataclass(frozen=True, slots=True)
class Variant:
    """A picture made of a photo, `thumb` or `browse`. `path` is relative to the server's `/api/v1/`."""

    kind: str
    width: int
    height: int
    size_bytes: int
    path: str


@dataclass(frozen=True, slots=True)
class Photo:
    """A photo. `error` is the code and the sentence of its last failure."""

    id: str
    album_id: str
    upload_number: int
    processing_state: str
    visibility: str
    entity_version: int
    generation: int
    width: int | None
    height: int | None
    captured_at: str | None
    file_name: str | None
    size_bytes: int | None
    sha256: str | None
    error: tuple[str, str] | None
    variants: tuple[Variant, ...]
    raw: Json

    @classmethod
    def from_wire(cls, wire: Json) -> Photo:
        error = wire.get("error")
        return cls(
            id=wire["id"],
            album_id=wire["albumId"],
            upload_number=int(wire["uploadNumber"]),
            processing_state=wire["processingState"],
            visibility=wire["visibility"],
            entity_version=int(wire["entityVersion"]),
            generation=int(wire["generation"]),
            width=wire.get("width"),
            height=wire.get("height"),
            captured_at=wire.get("capturedAt"),
            file_name=wire.get("fileName"),
            size_bytes=wire.get("sizeBytes"),
            sha256=wire.get("sha256"),
            error=(error["code"], error["message"]) if error else None,
            variants=tuple(_variant(one) for one in wire.get("variants", ())),
            raw=wire,
        )

    @property
    def is_settled(self) -> bool:
        """Is it known what became of it? A failed one may be tried again, by uploading it again."""
        return self.processing_state in ("ready", "processing_failed")


def _variant(wire: Json) -> Variant:
    path = str(wire["url"]).removeprefix("/api/v1/")
    return Variant(wire["kind"], int(wire["width"]), int(wire["height"]), int(wire["bytes"]), path)


@dataclass(frozen=True, slots=True)
class ShareLink:
    """A link to an album. `secret` and `url` (of the page to send to guests) are told once, when it is made."""

    id: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    secret: str | None
    url: str | None
    raw: Json

    @classmethod
    def from_wire(cls, wire: Json) -> ShareLink:
        return cls(
            id=wire["id"],
            created_at=wire["createdAt"],
            expires_at=wire.get("expiresAt"),
            revoked_at=wire.get("revokedAt"),
            secret=wire.get("secret"),
            url=wire.get("url"),
            raw=wire,
        )


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What became of an upload; not `created`: the same bytes were there already."""

    photo_id: str
    created: bool


# ── the feed ─────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class AlbumSnapshot:
    """The album, first on a fresh connection; its photos are listed by themselves."""

    album: Album
    id: str | None


@dataclass(frozen=True, slots=True)
class PhotoChanged:
    """A photo in its latest state."""

    photo: Photo
    id: str | None


@dataclass(frozen=True, slots=True)
class PhotoRemoved:
    """A photo that is not to be seen any more."""

    photo_id: str
    id: str | None


AlbumFrame = AlbumSnapshot | PhotoChanged | PhotoRemoved | Reset | Closing


def parse_album_frame(event: ServerSentEvent) -> AlbumFrame | None:
    """The typed frame, or None for an event this client does not know. Raises StreamBroken on nonsense."""
    try:
        data = json.loads(event.data) if event.data else {}
        match event.event:
            case "snapshot":
                return AlbumSnapshot(Album.from_wire(data), event.id)
            case "photo":
                return PhotoChanged(Photo.from_wire(data), event.id)
            case "removed":
                return PhotoRemoved(str(data["id"]), event.id)
            case "reset":
                return Reset()
            case "closing":
                return Closing()
            case _:
                return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StreamBroken(f"The event stream sent a {event.event!r} frame that cannot be read") from error
