"""The shapes of what goes past the API: media registered by key, links to objects, direct uploads."""

from typing import Annotated

from pydantic import Field

from lingxi.api.album_schemas import Photo
from lingxi.api.schemas import StoredObject, Time, Uuid, Wire, whole
from lingxi.storage.port import MAX_MEDIA_BYTES

Name = Annotated[str, Field(min_length=1, max_length=1024, description="As in `PUT /objects/{name}`.")]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class MediaRegistration(Wire):
    """Media that lie in the bucket already."""

    name: Name
    media_key: str = Field(
        min_length=1,
        max_length=MAX_MEDIA_BYTES,
        description="The object's key in the bucket, to the letter; below a prefix that the operator allowed.",
    )


class LinkRequest(Wire):
    name: Name
    lifetime_seconds: Annotated[int, Field(ge=1, le=86_400), whole] = 300


class ObjectLink(Wire):
    """Whoever has it gets the bytes until it expires: keep it as a secret."""

    url: str = Field(
        description="An address of the storage, or one of this server, which then begins with `/`."
    )
    expires_at: str = Time


class DirectUploadRequest(Wire):
    """An upload that goes straight to storage. With `albumId` it becomes a photo, else the object `name`."""

    name: Name
    size_bytes: Annotated[int, Field(ge=0, le=5 * 1024**3), whole]
    sha256: Sha256 | None = None
    album_id: str | None = Field(default=None, json_schema_extra={"format": "uuid"})


class DirectUpload(Wire):
    """Send the bytes with this method, to this address, with these headers; then confirm."""

    id: str = Uuid
    method: str
    url: str
    headers: dict[str, str]
    expires_at: str = Time


class ArchiveKey(Wire):
    """A public key that signs receipts of archives."""

    id: str
    algorithm: str
    public_key: str = Field(description="32 bytes in base64.")


class ArchiveKeyList(Wire):
    keys: list[ArchiveKey]


class ConfirmedUpload(Wire):
    """What it has become: one of the two."""

    object: StoredObject | None
    photo: Photo | None
