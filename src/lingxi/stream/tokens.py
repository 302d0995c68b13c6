"""Signed stream tokens: what a browser puts into an EventSource's address, as it can set no header there.

A stream token opens the stream of one task, for some minutes, in the name of the bearer token that asked for
it. It is checked without a database; whether the bearer token still holds is asked when the stream opens and
while it is open. It belongs in no log.

base64url( version, expiry, workspace id, task id, token id, HMAC-SHA256 of all before ), without padding: 114
characters
"""

import base64
import binascii
import hashlib
import hmac
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

LIFETIME_SECONDS = 300
_VERSION = 1
_FIELDS = struct.Struct(">BI16s16s16s")
_MAC_BYTES = 32
_LENGTH = len(base64.urlsafe_b64encode(bytes(_FIELDS.size + _MAC_BYTES)).rstrip(b"="))
_PURPOSE = b"lingxi stream token v1"


@dataclass(frozen=True, slots=True)
class StreamGrant:
    """What a stream token allows: the events of one task of a workspace, for as long as the bearer token
    `token_id` holds.
    """

    workspace_id: UUID
    task_id: UUID
    token_id: UUID


class StreamTokens:
    """Signs with the first of `secrets`, and takes what any of them has signed (so that the secret can be
    changed).
    """

    def __init__(self, secrets: Sequence[str | bytes]) -> None:
        if not secrets:
            raise ValueError("stream tokens need a secret")
        encoded = [secret.encode() if isinstance(secret, str) else secret for secret in secrets]
        # a key of its own: nothing else that is signed with the same secret can pass as a stream token
        self._keys = [hmac.digest(secret, _PURPOSE, hashlib.sha256) for secret in encoded]

    def sign(self, grant: StreamGrant, *, lifetime_seconds: int = LIFETIME_SECONDS) -> tuple[str, int]:
        """The token, and the Unix time at which it stops opening streams."""
        expires_at = int(time.time()) + lifetime_seconds
        fields = _FIELDS.pack(
            _VERSION, expires_at, grant.workspace_id.bytes, grant.task_id.bytes, grant.token_id.bytes
        )
        mac = hmac.digest(self._keys[0], fields, hashlib.sha256)
        return base64.urlsafe_b64encode(fields + mac).rstrip(b"=").decode("ascii"), expires_at

    def verify(self, text: str, task_id: UUID) -> StreamGrant | None:
        """What the token allows; None when it is forged, malformed, out of date or for another task."""
        if len(text) != _LENGTH or not text.isascii():
            return None
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except binascii.Error:
            return None
        fields, mac = raw[: _FIELDS.size], raw[_FIELDS.size :]
        if not any(hmac.compare_digest(mac, hmac.digest(key, fields, hashlib.sha256)) for key in self._keys):
            return None
        version, expires_at, workspace, task, token = _FIELDS.unpack(fields)
        grant = StreamGrant(UUID(bytes=workspace), UUID(bytes=task), UUID(bytes=token))
        return (
            grant if version == _VERSION and time.time() < expires_at and grant.task_id == task_id else None
        )
