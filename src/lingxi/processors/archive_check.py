"""Is this archive, to its last byte, the one that was signed? Asked offline, with nothing but the file and the public key.

The manifest says which files there are, and the archive's own bytes follow from it: so the archive is written once more in mind,
and compared. Nothing is unpacked.
"""

import errno
import json
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final, NamedTuple

from lingxi.processors.archive_names import MANIFEST, RECEIPT
from lingxi.processors.archive_receipt import PublicKey, Receipt, ReceiptError, parse_rfc3339
from lingxi.processors.archive_zip import Digest, Entry, ZipBytes, described, header_size

_MAX_MANIFEST_BYTES: Final = 1 << 30
_MAX_RECEIPT_BYTES: Final = 1 << 16
_READ_BYTES: Final = 1 << 20
# what zipfile raises at one that is damaged: a name that is no UTF-8 is a ValueError, an unknown method a NotImplementedError
_DAMAGE: Final = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    ValueError,
    struct.error,
    zlib.error,
    OSError,  # from a seek to before the beginning; see `_raise_if_unreadable`
)


class Problem(NamedTuple):
    """`what` is added, removed, changed, or unsigned; `name` is the file's, or None for the archive as a whole."""

    what: str
    name: str | None
    sentence: str


@dataclass(slots=True)
class Checked:
    """What was found. The archive is the one that was signed when `problems` is empty; the rest is what it says of itself."""

    archive: str | None = None
    issued_at: str | None = None
    key: PublicKey | None = None
    files: int = 0
    skipped: int = 0
    size_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)


class _File(NamedTuple):
    entry: Entry
    sha256: bytes


def check_archive(
    file: BinaryIO, key: PublicKey | None, *, say: Callable[[int, int], None] = lambda done, total: None
) -> Checked:
    """Look at every byte. `key`: whose archive it has to be; None: anybody's. `say(done, total)` is told the bytes.

    OSError when the file cannot be read; whatever is wrong with its content is a problem in what is answered.
    """
    checked = Checked(size_bytes=file.seek(0, 2))
    try:
        with zipfile.ZipFile(file) as archive:
            receipt, receipt_bytes, manifest = _signed_parts(archive)
            checked.key = receipt.public_key
            receipt.check(manifest)
            if key is not None and key != receipt.public_key:
                raise ReceiptError(f"It was signed with another key: {receipt.public_key.text}")
            files = _read_manifest(manifest, checked)
            names = Counter(one.filename for one in archive.infolist())
            expected = Counter([*(one.entry.name for one in files), MANIFEST, RECEIPT])
            for name in sorted((names - expected).elements()):
                checked.problems.append(Problem("added", name, f"{name}: was added"))
            for name in sorted((expected - names).elements()):
                checked.problems.append(Problem("removed", name, f"{name}: was removed"))
            if checked.problems:
                checked.problems += _changed_among(archive, files, names)
            else:
                issued_at = parse_rfc3339(checked.issued_at or "")
                own = [
                    _File(Entry(name, len(data), issued_at), b"")
                    for name, data in ((MANIFEST, manifest), (RECEIPT, receipt_bytes))
                ]
                checked.problems += _differences(file, [*files, *own], checked.size_bytes, say)
    except ReceiptError as error:
        checked.problems.append(Problem("unsigned", None, str(error)))
    except _DAMAGE as error:
        _raise_if_unreadable(error)
        checked.problems.append(Problem("changed", None, "It is no whole ZIP file: damaged, or cut off."))
    return checked


def _signed_parts(archive: zipfile.ZipFile) -> tuple[Receipt, bytes, bytes]:
    parts = []
    for name, most in ((RECEIPT, _MAX_RECEIPT_BYTES), (MANIFEST, _MAX_MANIFEST_BYTES)):
        try:
            info = archive.getinfo(name)
            if info.file_size > most or info.compress_type != zipfile.ZIP_STORED:
                raise ReceiptError(f"Its {name} is none of ours.")
            parts.append(archive.read(info))
        except KeyError:
            raise ReceiptError(f"It has no {name}: it is none of ours, or that was removed.") from None
        except zipfile.BadZipFile:
            raise ReceiptError(f"Its {name} was changed.") from None
    return Receipt.decode(parts[0]), parts[0], parts[1]


def _read_manifest(manifest: bytes, checked: Checked) -> list[_File]:
    try:
        told = json.loads(manifest)
        if told["v"] != 1:
            raise ReceiptError("Its manifest is of a later version: check it with a later `lingxi`.")
        checked.archive, checked.issued_at = told["archive"], told["issuedAt"]
        files = [
            _File(
                Entry(one["name"], one["sizeBytes"], parse_rfc3339(one["modifiedAt"])),
                bytes.fromhex(one["sha256"]),
            )
            for one in told["files"]
        ]
        checked.files, checked.skipped = len(files), len(told["skipped"])
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, ReceiptError):
            raise
        raise ReceiptError("Its manifest cannot be read.") from error
    return files


def _changed_among(archive: zipfile.ZipFile, files: list[_File], names: Counter[str]) -> Iterator[Problem]:
    """Where files were added or removed, the others are compared by content alone."""
    for one in files:
        if not names[one.entry.name]:
            continue
        digest = Digest()
        try:
            with archive.open(one.entry.name) as content:
                while chunk := content.read(_READ_BYTES):
                    digest.update(chunk)
        except _DAMAGE as error:
            _raise_if_unreadable(
                error
            )  # else its CRC says so: what was read does not have the right SHA-256 either
        if digest.sha256 != one.sha256:
            yield _changed(one.entry.name)


def _differences(
    file: BinaryIO, files: list[_File], size_bytes: int, say: Callable[[int, int], None]
) -> Iterator[Problem]:
    """Every byte from the first to the last, against what the manifest makes of it."""
    zipped, changed = ZipBytes(), False
    for one in files:
        entry, start = one.entry, zipped.offset
        digest = Digest()
        file.seek(start + header_size(entry))
        left = entry.size_bytes
        while left and (chunk := file.read(min(left, _READ_BYTES))):
            left -= len(chunk)
            digest.update(chunk)
            say(file.tell(), size_bytes)
        late = described(entry) and bool(one.sha256)
        header = zipped.header(entry, None if late else digest.crc)
        footer = zipped.footer(entry, digest.crc)
        if one.sha256 and digest.sha256 != one.sha256:
            changed = True
            yield _changed(entry.name)
        elif not _is_at(file, start, header) or not _is_at(file, zipped.offset - len(footer), footer):
            yield Problem("changed", entry.name, f"{entry.name}: what the archive says of it was changed")
    if changed:
        return  # the directory has the CRC of what was there before, which nobody knows
    position = zipped.offset
    for piece in zipped.directory():
        if not _is_at(file, position, piece):
            yield Problem("changed", None, "The archive's directory was changed.")
            return
        position += len(piece)
    if position != size_bytes:
        yield Problem("changed", None, f"{size_bytes - position} bytes were added at its end.")


def _raise_if_unreadable(error: Exception) -> None:
    """A disk that fails is no fault of the archive's."""
    if isinstance(error, OSError) and error.errno != errno.EINVAL:
        raise error


def _is_at(file: BinaryIO, position: int, expected: bytes) -> bool:
    file.seek(position)
    return file.read(len(expected)) == expected


def _changed(name: str) -> Problem:
    return Problem("changed", name, f"{name}: its content was changed")
