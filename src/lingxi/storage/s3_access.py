"""How an S3 server is reached, and what its refusals mean."""

import re
from dataclasses import dataclass, field
from typing import Final

from lingxi.storage.errors import StorageUnavailable


@dataclass(frozen=True, slots=True)
class S3Access:
    """Endpoint (`https://host[:port]`), region and static credentials.

    `public_endpoint` is put into signed addresses when clients reach the server by another one.
    `timeout_seconds` bounds every request that carries little, and every silence of one that carries much.
    """

    endpoint: str
    region: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    public_endpoint: str = ""
    timeout_seconds: float = 30.0


_CODE: Final = re.compile(r"<Code>\s*([A-Za-z0-9]{1,60})\s*</Code>")
_MEANINGS: Final = {
    "NoSuchBucket": "there is no bucket of this name",
    "InvalidAccessKeyId": "the access key is not known there",
    "SignatureDoesNotMatch": "the secret key is not the one of the access key",
    "InvalidToken": "the session token is not valid",
    "ExpiredToken": "the session token has expired",
    "AccessDenied": "the credentials do not allow this in the bucket",
    "RequestTimeTooSkewed": "this machine's clock and the server's differ too much",
    "SlowDown": "the server asks for less traffic",
    "QuotaExceeded": "the bucket's quota is used up",
    "XMinioStorageFull": "the server's disks are full",
    "InsufficientStorage": "the server's disks are full",
    "PermanentRedirect": "the bucket is in another region or at another endpoint",
    "AuthorizationHeaderMalformed": "the region is not the bucket's",
    "EntityTooLarge": "the server takes no object of this size",
}
_BY_STATUS: Final = {
    401: "the credentials are refused",
    403: "the credentials are refused",
    507: "the server's disks or the bucket's quota are full",
}
_STATUS: Final = re.compile(r"\bstatus:? ?(?:code:? ?)?\(?(\d{3})\b|\b([45]\d\d) [A-Z][a-z]+", re.IGNORECASE)


def error_code(text: str) -> str | None:
    """The code in an error document of S3, e.g. `NoSuchBucket`."""
    found = _CODE.search(text)
    return found[1] if found else None


def refused(text: str, status: int | None = None) -> StorageUnavailable:
    """What an answer (its document, or the text of a client's error) means, without its addresses and ids."""
    code = error_code(text)
    if status is None and (found := _STATUS.search(text)):
        status = int(found[1] or found[2])
    meaning = _MEANINGS.get(code or "") or _BY_STATUS.get(status or 0)
    if meaning is None:
        meaning = (
            f"it answered {' '.join(filter(None, (str(status or ''), code)))}"
            if status or code
            else "it does not answer"
        )
    return StorageUnavailable(f"storage cannot serve: {meaning}")


def unreachable(reason: str = "it does not answer") -> StorageUnavailable:
    """No answer at all, or not in time."""
    return StorageUnavailable(f"storage cannot serve: {reason}")
