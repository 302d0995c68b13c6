"""What an archive says of itself: a manifest of its files, and a receipt that is signed with Ed25519.

Both are files of the archive, the last two. The manifest names each file with its size and SHA-256. The receipt carries the
manifest's SHA-256 and a signature; since every other byte of the archive follows from the manifest and the contents
(`archive_zip`), the signature stands for all of them. Keys are made of the deployment's secret key by HKDF-SHA256.
"""

import base64
import hashlib
import json
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

VERSION: Final = 1
ALGORITHM: Final = "Ed25519"
_DERIVE: Final = b"lingxi archive receipts, Ed25519, 1"
_SIGNED: Final = b"lingxi archive receipt 1\0"  # before the manifest's SHA-256: no other use of the key fits
_KEY_BYTES: Final = 32
_encode_json: Final = json.JSONEncoder(
    ensure_ascii=False
).encode  # `dumps` would make an encoder for each line


class ReceiptError(ValueError):
    """What is no receipt, no manifest or no public key of ours, or is not what was signed; the sentence says which."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """Who signs. `text` is the key in base64 (44 characters), `id` the first 16 hex digits of its SHA-256."""

    raw: bytes

    @property
    def text(self) -> str:
        return base64.b64encode(self.raw).decode()

    @property
    def id(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()[:16]

    @classmethod
    def parse(cls, text: str) -> "PublicKey":
        """From base64; ReceiptError."""
        try:
            raw = base64.b64decode(text.strip(), validate=True)
        except (Base64Error, ValueError):
            raw = b""
        if len(raw) != _KEY_BYTES:
            raise ReceiptError("A public key is 32 bytes in base64, 44 characters that end in '='.")
        return cls(raw)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The signed statement: an archive with exactly this manifest was made by the owner of this key."""

    manifest_sha256: bytes
    public_key: PublicKey
    signature: bytes

    def as_json(self) -> dict[str, Any]:
        """As the file and results have it."""
        return {
            "v": VERSION,
            "algorithm": ALGORITHM,
            "keyId": self.public_key.id,
            "publicKey": self.public_key.text,
            "manifestSha256": self.manifest_sha256.hex(),
            "signature": base64.b64encode(self.signature).decode(),
        }

    def encode(self) -> bytes:
        """The bytes of `receipt.json`."""
        return (json.dumps(self.as_json(), indent=1) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> "Receipt":
        """From `receipt.json`, to the byte; ReceiptError."""
        try:
            told = json.loads(data)
            receipt = cls(
                bytes.fromhex(told["manifestSha256"]),
                PublicKey.parse(told["publicKey"]),
                base64.b64decode(told["signature"], validate=True),
            )
        except (ValueError, KeyError, TypeError):
            raise ReceiptError("The receipt in it is damaged.") from None
        if receipt.encode() != data:
            raise ReceiptError("The receipt in it was changed.")
        return receipt

    def check(self, manifest: bytes) -> None:
        """ReceiptError unless this very manifest was signed with the key that the receipt names."""
        if hashlib.sha256(manifest).digest() != self.manifest_sha256:
            raise ReceiptError("The manifest in it is not the one that was signed.")
        try:
            Ed25519PublicKey.from_public_bytes(self.public_key.raw).verify(
                self.signature, _SIGNED + self.manifest_sha256
            )
        except InvalidSignature:
            raise ReceiptError("The receipt's signature is wrong.") from None


class SigningKey:
    """Made of a secret key of the deployment: the same secret gives the same key, and the key does not tell the secret."""

    def __init__(self, secret: bytes) -> None:
        seed = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_DERIVE).derive(secret)
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public_key = PublicKey(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, manifest_sha256: bytes) -> Receipt:
        return Receipt(manifest_sha256, self.public_key, self._key.sign(_SIGNED + manifest_sha256))


class ManifestWriter:
    """`manifest.json` in pieces: a line a file, so that it can be read by people and by `grep`."""

    def __init__(self, head: Mapping[str, Any]) -> None:
        opening = _encode_json({"v": VERSION, **head})
        self._lines = [f'{opening[:-1]},\n"files": ['.encode()]
        self.files = 0

    def add(self, name: str, size_bytes: int, sha256: bytes, modified_at: int, source: str) -> None:
        line = {
            "name": name,
            "sizeBytes": size_bytes,
            "sha256": sha256.hex(),
            "modifiedAt": rfc3339(modified_at),
            "source": source,
        }
        separator = "\n" if not self.files else ",\n"
        self._lines.append((separator + _encode_json(line)).encode())
        self.files += 1

    def end(self, skipped: Sequence[Mapping[str, str]]) -> bytes:
        """The whole manifest."""
        tail = '\n],\n"skipped": ' + _encode_json(list(skipped)) + "}\n"
        return b"".join([*self._lines, tail.encode()])


@lru_cache
def rfc3339(seconds: int) -> str:
    """`2026-05-01T12:00:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat() + "Z"


def parse_rfc3339(text: str) -> int:
    """Seconds since 1970 of what `rfc3339` wrote; ValueError."""
    return int(datetime.fromisoformat(text).timestamp())
