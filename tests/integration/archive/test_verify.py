"""`lingxi verify-archive`: one changed byte anywhere, a file removed, a file added; and whose archive it is."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lingxi.cli.app import run
from lingxi.processors.archive_receipt import PublicKey, SigningKey
from lingxi.processors.archive_stream import ArchiveStream
from lingxi.services.archive_files import ArchiveFile
from lingxi.storage import open_storage
from tests.integration.archive.conftest import FILES, KEY, SECRET, Made, check, problems
from tests.support.programs import need_program


def test_it_is_as_it_was_signed(original: Made) -> None:
    checked = check(original.path)
    assert checked.problems == []
    assert (checked.archive, checked.files, checked.skipped, checked.key) == ("all.zip", len(FILES), 0, KEY)


def test_one_changed_byte_is_noticed_wherever_it_is(original: Made, tmp_path: Path) -> None:
    """Each bit 0 of a small archive in turn; the large one is of the same format."""
    small = tmp_path / "small.zip"
    make_small(small)
    data = bytearray(small.read_bytes())
    assert problems(small) == []
    missed = []
    for at in range(len(data)):
        data[at] ^= 1
        small.write_bytes(data)
        if not problems(small):
            missed.append(at)
        data[at] ^= 1
    assert missed == []


def make_small(path: Path) -> None:
    """An archive of two small files, with a key of this test."""

    async def make() -> bytes:
        storage = open_storage((path.parent / "objects").as_uri())

        async def one(data: bytes) -> ArchiveFile:
            async def chunks() -> AsyncIterator[bytes]:
                yield data

            stored = await storage.put(chunks(), max_bytes=100)
            return ArchiveFile("é.txt", "é.txt", stored.key, stored.size_bytes, stored.sha256, 1_777_638_601)

        stream = ArchiveStream(
            storage,
            [await one(b"first"), await one(b"")],
            SigningKey(SECRET),
            head={"archive": "small.zip", "item": "x", "issuedAt": "2026-05-01T12:30:01Z"},
            issued_at=1_777_638_601,
            skip_missing=False,
            say=lambda done, files: None,
        )
        made = b"".join([chunk async for chunk in stream.chunks()])
        await storage.close()
        return made

    path.write_bytes(asyncio.run(make()))


def test_a_changed_content_is_named(archive: Made) -> None:
    data = archive.path.read_bytes()
    for name, content in FILES.items():
        if content:
            at = data.index(content) + random.Random(1).randrange(len(content))
            with archive.path.open("r+b") as file:
                file.seek(at)
                file.write(bytes([data[at] ^ 1]))
            assert problems(archive.path) == [("changed", name)]
            archive.path.write_bytes(data)


@pytest.mark.parametrize("at", [0, 30, -1, -10])
def test_a_structure_that_changed_is_noticed(archive: Made, at: int) -> None:
    data = bytearray(archive.path.read_bytes())
    data[at] ^= 1
    archive.path.write_bytes(data)
    assert problems(archive.path)


def test_cut_or_prolonged(archive: Made) -> None:
    data = archive.path.read_bytes()
    archive.path.write_bytes(data + b"more")
    assert problems(archive.path)
    archive.path.write_bytes(b"more" + data)
    assert problems(archive.path)
    archive.path.write_bytes(data[:-1000])
    assert problems(archive.path) == [("changed", None)]
    archive.path.write_bytes(b"")
    assert problems(archive.path) == [("changed", None)]


def test_a_removed_and_an_added_file_are_named(archive: Made, tmp_path: Path) -> None:
    need_program("zip", "to change an archive as others do")
    (tmp_path / "extra.txt").write_text("smuggled in")
    change = ["zip", "-q", str(archive.path)]
    subprocess.run([*change, "extra.txt"], cwd=tmp_path, check=True)
    assert problems(archive.path) == [("added", "extra.txt")]
    subprocess.run([*change, "-d", "shoot/1.jpg"], check=True)
    assert problems(archive.path) == [("added", "extra.txt"), ("removed", "shoot/1.jpg")]
    subprocess.run([*change, "-d", "extra.txt"], check=True)
    assert problems(archive.path) == [("removed", "shoot/1.jpg")]
    subprocess.run([*change, "-d", "receipt.json"], check=True)
    (problem,) = check(archive.path).problems
    assert (problem.what, "receipt.json" in problem.sentence) == ("unsigned", True)


def test_a_file_of_a_name_that_is_there_is_an_added_one(archive: Made) -> None:
    with zipfile.ZipFile(archive.path, "a") as opened, pytest.warns(UserWarning, match="Duplicate"):
        opened.writestr("shoot/1.jpg", b"the other one")
    assert ("added", "shoot/1.jpg") in problems(archive.path)
    assert ("changed", "shoot/1.jpg") in problems(archive.path)


def test_who_signed_counts(archive: Made) -> None:
    other = SigningKey(b"another secret").public_key
    (problem,) = check(archive.path, other).problems
    assert (problem.what, KEY.text in problem.sentence) == ("unsigned", True)
    assert check(archive.path, None).problems == []
    assert PublicKey.parse(KEY.text) == KEY


def test_a_forged_manifest_needs_the_key(original: Made, tmp_path: Path) -> None:
    """Everything made anew by somebody who has the program and not the key: the signature of the old one does not fit."""
    forged = tmp_path / "forged.zip"
    with zipfile.ZipFile(original.path) as source, zipfile.ZipFile(forged, "w") as target:
        manifest = json.loads(source.read("manifest.json"))
        manifest["files"] = manifest["files"][:1]
        target.writestr("shoot/1.jpg", source.read("shoot/1.jpg"))
        target.writestr("manifest.json", json.dumps(manifest))
        target.writestr("receipt.json", source.read("receipt.json"))
    (problem,) = check(forged, None).problems
    assert problem == ("unsigned", None, "The manifest in it is not the one that was signed.")


def test_the_command_line(
    original: Made, archive: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def verify(path: Path, *arguments: str) -> tuple[int, str, str]:
        code = run(["verify-archive", str(path), *arguments])
        return code, *capsys.readouterr()

    code, out, _ = verify(original.path, "--key", KEY.text, "--json")
    assert (code, json.loads(out)["ok"]) == (0, True)
    code, out, _ = verify(original.path, "--any-key")
    assert (code, KEY.text in out, "was not checked" in out) == (0, True, True)
    (tmp_path / "key").write_text(f"{KEY.text}\n")
    with archive.path.open("r+b") as file:
        file.seek(45)
        file.write(b"#")
    code, out, _ = verify(archive.path, "--key", str(tmp_path / "key"))
    assert (code, out.splitlines()[-1]) == (1, f"{archive.path}: NOT as it was signed")
    assert "shoot/1.jpg" in out
    for arguments, said in (
        ((), "--any-key"),
        (("--key", "x"), "44 characters"),
        (("--key", KEY.text, "--any-key"), "--any-key"),
    ):
        code, _, complaint = verify(archive.path, *arguments)
        assert (code, said in complaint) == (2, True), complaint
    code, _, complaint = verify(tmp_path / "none.zip", "--any-key")
    assert (code, "No such file" in complaint) == (6, True)
