"""The shapes of albums, photos and share links on the wire; see `schemas.py`."""

from typing import Literal

from pydantic import Field

from lingxi.api.schemas import Lifetime, Task, Time, Uuid, Wire

MAX_ALBUM_NAME = 200


class AlbumCounts(Wire):
    photos: int | None = Field(default=None, description="Absent for share links, like the two below.")
    published: int
    failed: int | None = None
    processing: int | None = None


class Album(Wire):
    """An album. `cursor` is its feed's number, where an event stream may resume."""

    id: str = Uuid
    name: str
    originals_shared: bool = Field(description="May share links fetch the original files?")
    created_at: str = Time
    cursor: int
    counts: AlbumCounts


class AlbumPage(Wire):
    albums: list[Album]
    next_cursor: str | None = Field(description="Ask for the next page with it; null on the last one.")


class NewAlbum(Wire):
    name: str = Field(min_length=1, max_length=MAX_ALBUM_NAME)
    originals_shared: bool = False


class AlbumChange(Wire):
    """What is not named, or null, stays as it is."""

    name: str | None = Field(default=None, min_length=1, max_length=MAX_ALBUM_NAME)
    originals_shared: bool | None = None


class Variant(Wire):
    kind: Literal["thumb", "browse"]
    width: int
    height: int
    bytes: int
    content_type: str
    url: str = Field(description="Relative to this server; it changes with the content.")


class PhotoProblem(Wire):
    code: str
    message: str
    advice: str | None = Field(
        default=None, description="For the person whose photo it is: what is the matter, and what to do."
    )


class Photo(Wire):
    """A photo. The last five members are told to the workspace, not to share links."""

    id: str = Uuid
    album_id: str = Uuid
    upload_number: int = Field(description="In its album, from 1.")
    processing_state: Literal["uploaded", "ready", "processing_failed"]
    visibility: Literal["unpublished", "published", "hidden", "recalled"]
    entity_version: int = Field(description="One more with each change that viewers may see.")
    generation: int = Field(description="Of the variants that are there; 0: none yet.")
    width: int | None = Field(description="Of the upright photo, in pixels.")
    height: int | None
    captured_at: str | None = Time
    published_at: str | None = Time
    created_at: str = Time
    variants: list[Variant]
    file_name: str | None = None
    size_bytes: int | None = None
    sha256: str | None = Field(
        default=None, description="Of the original, in hex: whoever has a file can tell whether it is here."
    )
    content_type: str | None = None
    error: PhotoProblem | None = None


class PhotoPage(Wire):
    photos: list[Photo]
    next_cursor: str | None = Field(description="Ask for the next page with it; null on the last one.")


StageName = Literal[
    "received",
    "stored",
    "enqueued",
    "started",
    "decoded",
    "encoded",
    "variantsStored",
    "committed",
    "firstFrame",
]


class TimelineStage(Wire):
    stage: StageName
    at: str = Time
    ms: float | None = Field(description="Milliseconds since the stage before; null for the first.")


class Timeline(Wire):
    """When a photo passed each stage of its first publication; stages that it has not reached are absent."""

    photo_id: str = Uuid
    stages: list[TimelineStage]
    total_ms: float | None = Field(
        description="From the first stage to the last one; null with fewer than two."
    )


class UploadedFile(Wire):
    """What became of one file of a form: `photo`, or where it was refused `error`."""

    file_name: str = Field(description="As it is kept: one line, without folders, at most 255 characters.")
    status: Literal["created", "exists", "refused"] = Field(
        description="`exists`: the album has the same bytes, and this is their photo; one that had failed is processed anew."
    )
    photo: Photo | None = None
    error: PhotoProblem | None = None


class UploadedFiles(Wire):
    files: list[UploadedFile]


class StageSummary(Wire):
    stage: str = Field(
        description="A stage, since the one before; `published` is received to committed, `seen` received to firstFrame."
    )
    count: int
    p50_ms: float
    p95_ms: float
    max_ms: float


class AlbumStats(Wire):
    album_id: str = Uuid
    stages: list[StageSummary]


class Reprocess(Wire):
    tasks: list[Task] = Field(
        description="Of `photo:process`, each of at most 10,000 photos, in bulk priority."
    )


class FingerprintTasks(Wire):
    tasks: list[Task] = Field(
        description="Of `photo:fingerprint`, each of at most 10,000 photos, in bulk priority; none when nothing is missing."
    )


class AlikePhoto(Wire):
    photo: Photo
    sharpness: float = Field(
        description="Grows with detail; of two photos of one size the larger is the sharper."
    )
    thumb_hash: str = Field(description="A ThumbHash, in base64.")


class DuplicateGroup(Wire):
    """Photos that belong together, the best one first: the largest, then the sharpest, then the first upload."""

    kind: Literal["duplicate", "burst"] = Field(
        description="`burst`: of one camera within seconds. One that is also a group of duplicates is told as such only."
    )
    count: int
    photos: list[AlikePhoto] = Field(description="The best 100 at most.")


class DuplicatesPage(Wire):
    groups: list[DuplicateGroup]
    photos: int = Field(description="Of the album.")
    fingerprinted: int = Field(description="How many of them were looked at.")
    next_cursor: str | None = Field(description="Ask for the next page with it; null on the last one.")


class ShareLink(Wire):
    id: str = Uuid
    album_id: str = Uuid
    created_at: str = Time
    expires_at: str | None = Time
    revoked_at: str | None = Time


class CreatedShareLink(ShareLink):
    secret: str = Field(description="It is shown this once.")
    url: str = Field(description="The page to send to guests, relative to this server.")


class ShareLinkList(Wire):
    shares: list[ShareLink]


class NewShareLink(Wire):
    lifetime_seconds: Lifetime | None = Field(default=None, description="Null: until revoked.")
