"""The headers of tus 1.0.0: what a client may say, read strictly; each mistake is named."""

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from lingxi.domain.errors import MalformedRequest

VERSION: Final = "1.0.0"
EXTENSIONS: Final = "creation,creation-with-upload,checksum,expiration,termination"
CHECKSUM_ALGORITHMS: Final = ("sha1", "sha256", "md5")
BODY_TYPE: Final = "application/offset+octet-stream"
MAX_METADATA_BYTES: Final = 16 * 1024

_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_KEY = re.compile(r"[!-+\--~]+")  # visible ASCII without the comma


@dataclass(frozen=True, slots=True)
class Checksum:
    """Of the body of one request: the name of the algorithm, and the digest that it must have."""

    algorithm: str
    digest: bytes


def refuse_other_version(request: Request) -> None:
    """MalformedRequest (412) unless the client speaks 1.0.0."""
    if request.headers.getlist("tus-resumable") != [VERSION]:
        raise MalformedRequest(f"Tus-Resumable must be {VERSION}.", status=412)


def number_of(request: Request, name: str) -> int:
    """A header that must be one whole number ≥ 0."""
    given = request.headers.getlist(name)
    if len(given) != 1 or not _NUMBER.fullmatch(given[0]):
        raise MalformedRequest(f"{name} must be a whole number, given once.")
    return int(given[0])


def metadata_of(request: Request) -> tuple[str, dict[str, bytes]]:
    """Upload-Metadata as it came, and its values by key."""
    text = ",".join(request.headers.getlist("upload-metadata")).strip()
    if len(text) > MAX_METADATA_BYTES:
        raise MalformedRequest(f"Upload-Metadata is longer than {MAX_METADATA_BYTES} bytes.")
    values: dict[str, bytes] = {}
    for pair in text.split(",") if text else ():
        key, _, value = pair.strip().partition(" ")
        if not _KEY.fullmatch(key) or key in values:
            raise MalformedRequest("Upload-Metadata: each pair needs a key of its own, in visible ASCII.")
        values[key] = _base64(value.strip(), "Upload-Metadata: each value must be Base64")
    return text, values


def checksum_of(request: Request) -> Checksum | None:
    """Upload-Checksum; MalformedRequest when it cannot be read or names an algorithm that is not known."""
    given = request.headers.getlist("upload-checksum")
    if not given:
        return None
    algorithm, _, value = given[0].partition(" ")
    if len(given) > 1 or algorithm not in CHECKSUM_ALGORITHMS:
        raise MalformedRequest(f"Upload-Checksum: known algorithms are {', '.join(CHECKSUM_ALGORITHMS)}.")
    return Checksum(algorithm, _base64(value.strip(), "Upload-Checksum: the digest must be Base64"))


def refuse_unknown_creation(request: Request) -> None:
    """MalformedRequest for the extensions that are not offered, so that no client takes them for granted."""
    refused: Sequence[tuple[str, str]] = (
        ("upload-defer-length", "creation-defer-length is not offered; send Upload-Length."),
        ("upload-concat", "concatenation is not offered."),
    )
    for name, why in refused:
        if name in request.headers:
            raise MalformedRequest(f"The extension {why}")


def _base64(text: str, otherwise: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedRequest(f"{otherwise}.") from None
