"""What `lingxi submit` sends: a task read from JSON, or one made from files that are uploaded first."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingxi.cli.exits import not_possible, usage
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.client import Client

UPLOADS_AT_ONCE = 4
MAX_REF_CHARACTERS = 200


def extras(priority: str | None, metadata: str | None) -> dict[str, Any]:
    """The members that options add to the body."""
    found: dict[str, Any] = {}
    if priority is not None:
        if priority not in ("live", "normal", "bulk"):
            raise usage("--priority is one of live, normal, bulk")
        found["priority"] = priority
    if metadata is not None:
        found["metadata"] = _json_object(metadata, "--metadata")
    return found


def read_body(files: Sequence[Path]) -> dict[str, Any]:
    """The task in the one JSON file given, `-` being stdin."""
    if len(files) != 1:
        raise usage("One JSON file is one task; to work on several files, say of what --type the task is")
    (file,) = files
    if str(file) == "-":
        return _json_object(sys.stdin.buffer.read().decode(errors="replace"), "stdin")
    return _json_object(_read(file).decode(errors="replace"), str(file))


async def upload(client: Client, type_: str, files: Sequence[Path], output: Output) -> list[dict[str, Any]]:
    """Uploads the files and answers an item for each: the object to work on, and the file's name as its ref.

    An object's name begins with its content's hash, so the same file again is the same object.
    """
    refs = _refs(files)
    at_once = asyncio.Semaphore(UPLOADS_AT_ONCE)

    async def one(file: Path, ref: str) -> dict[str, Any]:
        async with at_once:
            digest = await asyncio.to_thread(_sha256, file)
            name = object_name(file, digest)
            await client.put_object(name, file)
            return {"ref": ref, "input": item_input(type_, name, digest)}

    items = await asyncio.gather(*(one(file, ref) for file, ref in zip(files, refs, strict=True)))
    output.say(f"uploaded {len(items)} files")
    return items


def object_name(file: Path, digest: str) -> str:
    """A name that tells content apart: `<16 hex digits>-<the file's name, made plain>`."""
    plain = "".join(
        char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in file.name
    )
    return f"{digest[:16]}-{plain[-100:]}"


def item_input(type_: str, name: str, digest: str) -> dict[str, Any]:
    """The input of an item that works on one object; `media:verify` is told what its content must be."""
    return {"object": name, **({"expectedSha256": digest} if type_ == "media:verify" else {})}


def _refs(files: Sequence[Path]) -> list[str]:
    """File names where they differ, else the paths as given; a ref is unique in its task."""
    names = [file.name for file in files]
    refs = names if len(set(names)) == len(names) else [str(file) for file in files]
    if len(set(refs)) != len(refs):
        raise usage("A file was named twice")
    return [ref[-MAX_REF_CHARACTERS:] for ref in refs]


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(file, error) from None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: OSError) -> Exception:
    if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return usage(f"{file} is no file that can be read: {error.strerror}")
    return not_possible(f"{file} cannot be read: {error.strerror}")


def _json_object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = (
            f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        )
        raise usage(f"{where} is not JSON{place}") from None
    if not isinstance(value, dict):
        raise usage(f"{where} is JSON, but not an object")
    return value
