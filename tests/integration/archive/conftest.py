"""A bench with objects to archive, and the archive of them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lingxi.processors.archive_check import Checked, check_archive
from lingxi.processors.archive_receipt import PublicKey, SigningKey
from lingxi.processors.contract import Processor
from lingxi.processors.export_archive import ArchiveInput, ExportArchive
from lingxi.testing import Bench, open_bench
from tests.support.servers import Servers

SECRET = b"a secret of the tests, long enough"
KEY = SigningKey(SECRET).public_key
EXPORT: Processor[ArchiveInput] = ExportArchive(lambda: [SECRET]).processor()
FILES = {
    "shoot/1.jpg": b"one",
    "shoot/2.jpg": b"two" * 500_000,
    "shoot/empty.txt": b"",
    "shoot/Größe ☃.jpg": b"snow",
    "shoot/large.bin": random.Random(4).randbytes(
        (16 << 20) + 5
    ),  # just above what is read before it is written
}


@dataclass(frozen=True, slots=True)
class Made:
    """An archive of FILES as a file of the test's own, and what its item ended with."""

    path: Path
    result: dict[str, object]


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bench's: `objects` is its storage."""
    return tmp_path_factory.mktemp("archive")


@pytest.fixture(scope="package")
def bench(servers: Servers, folder: Path) -> Iterator[Bench]:
    with open_bench(folder, database_url=servers.database_url) as opened:
        for name, data in FILES.items():
            opened.put(name, data)
        yield opened


@pytest.fixture(scope="package")
def original(bench: Bench, folder: Path) -> Made:
    ran = bench.run(EXPORT, {"objects": list(FILES), "into": "all.zip"})
    assert ran.state == "succeeded", ran.item
    data = bench.get("all.zip")
    assert data is not None
    (folder / "all.zip").write_bytes(data)
    return Made(folder / "all.zip", ran.result)


@pytest.fixture
def archive(original: Made, tmp_path: Path) -> Made:
    """A copy that the test may change."""
    shutil.copyfile(original.path, tmp_path / "all.zip")
    return Made(tmp_path / "all.zip", original.result)


def check(path: Path, key: PublicKey | None = KEY) -> Checked:
    with path.open("rb") as file:
        return check_archive(file, key)


def problems(path: Path) -> list[tuple[str, str | None]]:
    return [(one.what, one.name) for one in check(path).problems]


def stored_files(folder: Path) -> set[Path]:
    """All that lies in the bench's storage, finished or not."""
    return {path for path in (folder / "objects").rglob("*") if path.is_file()}
