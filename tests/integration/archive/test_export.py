"""export:archive on a bench: objects and albums in, an archive out that others open and that proves itself."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lingxi.processors.archive_check import check_archive
from lingxi.processors.archive_receipt import SigningKey
from lingxi.processors.export_archive import ExportArchive
from lingxi.testing import Bench, open_bench
from tests.support.servers import Servers

SECRET = b"a secret of the tests, long enough"
KEY = SigningKey(SECRET).public_key
EXPORT = ExportArchive(lambda: [SECRET]).processor()
LARGE = os.urandom((16 << 20) + 5)  # just above what is read before it is written
FILES = {
    "shoot/1.jpg": b"one",
    "shoot/2.jpg": b"two" * 500_000,
    "shoot/empty.txt": b"",
    "shoot/Größe ☃.jpg": b"snow",
    "shoot/large.bin": LARGE,
}


@pytest.fixture(scope="module")
def bench(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with open_bench(tmp_path_factory.mktemp("bench"), database_url=servers.database_url) as opened:
        for name, data in FILES.items():
            opened.put(name, data)
        yield opened


@pytest.fixture(scope="module")
def archive(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of FILES, as a file."""
    ran = bench.run(EXPORT, {"objects": list(FILES), "into": "all.zip"})
    assert ran.state == "succeeded", ran
    path = tmp_path_factory.mktemp("archive") / "all.zip"
    data = bench.get("all.zip")
    assert data is not None
    assert (ran.result["sizeBytes"], ran.result["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert (ran.result["files"], ran.result["skipped"]) == (5, [])
    path.write_bytes(data)
    return path


def problems(path: Path) -> list[tuple[str, str | None]]:
    with path.open("rb") as file:
        return [(one.what, one.name) for one in check_archive(file, KEY).problems]


def test_python_opens_it_and_it_is_as_it_was_signed(archive: Path, bench: Bench) -> None:
    with zipfile.ZipFile(archive) as opened:
        assert opened.testzip() is None
        assert opened.namelist() == [*FILES, "manifest.json", "receipt.json"]
        assert {name: opened.read(name) for name in FILES} == FILES
        manifest = json.loads(opened.read("manifest.json"))
    assert [(one["name"], one["sizeBytes"], one["sha256"]) for one in manifest["files"]] == [
        (name, len(data), hashlib.sha256(data).hexdigest()) for name, data in FILES.items()
    ]
    assert problems(archive) == []
