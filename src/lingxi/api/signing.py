"""Small values that go out and come back signed: page cursors and session cookies.

HMAC-SHA-256 cut to 16 bytes, under the deployment's secret key. Two keys may be set for a rotation: the first one signs,
both are accepted. The purpose is part of what is signed, so that a cursor is no session.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

_MAC_BYTES = 16


class Signer:
    """Seals bytes into URL-safe text, and opens what it sealed."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys:
            raise ValueError("a secret key is needed")
        self._keys = tuple(hashlib.sha256(b"lingxi.api\0" + key).digest() for key in keys)

    def seal(self, purpose: str, payload: bytes, bound_to: Sequence[str] = ()) -> str:
        """Text that only `open` with the same purpose and the same `bound_to` accepts; the payload is readable."""
        mac = _mac(self._keys[0], purpose, payload, bound_to)
        return base64.urlsafe_b64encode(mac + payload).rstrip(b"=").decode()

    def open(self, purpose: str, sealed: str, bound_to: Sequence[str] = ()) -> bytes | None:
        """The payload, or None when the text is garbage, was changed, or belongs to something else."""
        try:
            raw = base64.b64decode(sealed + "=" * (-len(sealed) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        mac, payload = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if any(hmac.compare_digest(mac, _mac(key, purpose, payload, bound_to)) for key in self._keys):
            return payload
        return None


def _mac(key: bytes, purpose: str, payload: bytes, bound_to: Sequence[str]) -> bytes:
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for part in (purpose.encode(), *(text.encode() for text in bound_to), payload):
        digest.update(len(part).to_bytes(4, "big"))
        digest.update(part)
    return digest.digest()[:_MAC_BYTES]
