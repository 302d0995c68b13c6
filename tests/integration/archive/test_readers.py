"""Others open it: Info-ZIP's unzip, Python, and yauzl in Node; also past 65,535 files and past 4 GiB."""

from __future__ import annotations

import hashlib
import json
import subprocess
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from lingxi.processors.archive_names import archive_name, unique_names
from lingxi.processors.archive_receipt import parse_rfc3339, rfc3339
from lingxi.processors.archive_zip import Entry, ZipBytes, header_size
from tests.integration.archive.conftest import FILES, Made
from tests.support.node_packages import node_modules
from tests.support.programs import need_program

NODE = Path(__file__).parent / "node"
MANY = 65_540
EDGE = 65_535  # of the old count: itself says "look in the other place"
GIBIBYTE = 1 << 30
NOON = 1_777_638_600


def by_node(path: Path, what: str = "read") -> Any:
    modules = node_modules(NODE, "to read archives with yauzl")
    command = ["node", str(NODE / "read.js"), str(path), what]
    ran = subprocess.run(
        command,
        env={"NODE_PATH": str(modules), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def unzip(*arguments: str) -> str:
    need_program("unzip", "to open archives as most people do")
    ran = subprocess.run(["unzip", *arguments], capture_output=True, timeout=600)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    return ran.stdout.decode()


def test_unzip_unpacks_it_with_its_times(original: Made, tmp_path: Path) -> None:
    unzip("-q", str(original.path), "-d", str(tmp_path))
    found = {path.relative_to(tmp_path).as_posix(): path for path in tmp_path.rglob("*") if path.is_file()}
    assert set(found) == {*FILES, "manifest.json", "receipt.json"}
    assert {name: found[name].read_bytes() for name in FILES} == FILES
    manifest = json.loads(found["manifest.json"].read_text("utf-8"))
    for one in manifest["files"]:
        seconds = int(found[one["name"]].stat().st_mtime)
        assert one["modifiedAt"] == _rfc3339(seconds)  # to the second, whatever the machine's time zone
    assert found["shoot/1.jpg"].stat().st_mode & 0o777 == 0o644


def _rfc3339(seconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_node_reads_it(original: Made) -> None:
    read = by_node(original.path)
    assert [(name, size, sha) for name, size, sha, _ in read[:-2]] == [
        (name, len(data), hashlib.sha256(data).hexdigest()) for name, data in FILES.items()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("count", [EDGE - 1, EDGE, EDGE + 1])
def test_at_the_edge_of_65535_files(tmp_path: Path, count: int) -> None:
    path, zipped, crc = tmp_path / "edge.zip", ZipBytes(), zlib.crc32(b"")
    entries = [Entry(f"{number:05}", 0, NOON) for number in range(count)]
    parts = [zipped.header(entry, crc) + zipped.footer(entry, crc) for entry in entries]
    path.write_bytes(b"".join([*parts, *zipped.directory()]))
    with zipfile.ZipFile(path) as opened:
        assert len(opened.infolist()) == count
    assert f"{count} files" in unzip("-l", str(path)).splitlines()[-1]
    assert by_node(path, "count") == count


def test_more_than_65535_files(tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    zipped, parts = ZipBytes(), []
    for number in range(MANY):
        data = b"%d" % number
        entry = Entry(f"{number:05}.txt", len(data), NOON)
        parts += [zipped.header(entry, zlib.crc32(data)), data, zipped.footer(entry, zlib.crc32(data))]
    path.write_bytes(b"".join([*parts, *zipped.directory()]))
    with zipfile.ZipFile(path) as opened:
        assert len(opened.infolist()) == MANY
        assert opened.read("65539.txt") == b"65539"
    assert by_node(path, "count") == MANY
    assert f"{MANY} files" in unzip("-l", str(path)).splitlines()[-1]
    assert unzip("-p", str(path), "65539.txt") == "65539"


def test_times_that_zip_cannot_say_are_the_nearest_it_can(tmp_path: Path) -> None:
    """MS-DOS begins in 1980 and ends in 2107, the extra field reaches from 1901 to 2038. The manifest has the time itself."""
    years = {-62_135_596_800: 1, -2_208_988_800: 1900, -1: 1969, 4_294_967_295: 2106, 253_402_300_799: 9999}
    path, zipped = tmp_path / "times.zip", ZipBytes()
    entries = [Entry(f"{year}.txt", 1, seconds) for seconds, year in years.items()]
    parts = [zipped.header(entry, zlib.crc32(b"x")) + b"x" + zipped.footer(entry, 0) for entry in entries]
    path.write_bytes(b"".join([*parts, *zipped.directory()]))
    with zipfile.ZipFile(path) as opened:
        shown = {one.filename: (one.date_time[0], bool(one.extra)) for one in opened.infolist()}
    assert shown == {
        "1.txt": (1980, False),
        "1900.txt": (1980, False),
        "1969.txt": (1980, True),
        "2106.txt": (2106, False),
        "9999.txt": (2107, False),
    }
    assert "5 files" in unzip("-l", str(path)).splitlines()[-1]
    assert [parse_rfc3339(rfc3339(seconds)) for seconds in years] == list(years)


@pytest.mark.parametrize("size", [(1 << 32) - 2, (1 << 32) - 1, 1 << 32, 5 * GIBIBYTE])
def test_beyond_4_gib_at_the_edges_of_32_bits(tmp_path: Path, size: int) -> None:
    """A hole of that size, and a file behind it: directories and offsets are read, not the hole. The slow test reads all."""
    path = tmp_path / "large.zip"
    big, small = Entry("big.bin", size, NOON), Entry("small.txt", 5, NOON)
    zipped = ZipBytes()
    with path.open("wb") as file:
        file.write(zipped.header(big, None))
        assert file.tell() == header_size(big)
        file.seek(size, 1)
        file.write(zipped.footer(big, 0))
        file.write(zipped.header(small, zlib.crc32(b"small")) + b"small")
        zipped.footer(small, zlib.crc32(b"small"))
        file.write(b"".join(zipped.directory()))
    with zipfile.ZipFile(path) as opened:
        assert [one.file_size for one in opened.infolist()] == [size, 5]
        assert opened.read("small.txt") == b"small"
    assert by_node(path, "count") == 2
    if (
        size != (1 << 32) - 1
    ):  # unzip 6 takes this very size, where it was read, for one that it has still to look up
        assert str(size) in unzip("-l", str(path))
        assert unzip("-p", str(path), "small.txt") == "small"


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("a/b.jpg", "a/b.jpg"),
        ("/a//b", "a/b"),
        ("../a", "_/a"),
        ("a\\b:c?.jpg", "a_b_c_.jpg"),
        ("con.txt", "_con.txt"),
        ("LPT1", "_LPT1"),
        ("trail. ", "trail"),
        ("nul\x00\u202e.png", "nul__.png"),
        ("", "file"),
        ("x" * 300 + ".jpeg", "x" * 200 + ".jpeg"),
        ("e\u0301", "é"),
        ("x" * 199 + " " + "y" * 50, "x" * 199),
        ("x" * 199 + "." + "y" * 50, "x" * 199),
        ("COM¹.txt", "_COM¹.txt"),
        ("aux .txt", "_aux .txt"),
        ("CONIN$", "_CONIN$"),
        ("/etc/passwd", "etc/passwd"),
        ("C:\\x\\..\\y", "C__x_.._y"),
        ("a/. /..", "a/_/_"),
    ],
)
def test_names_that_any_system_takes(given: str, made: str) -> None:
    assert archive_name(given) == made


def test_names_are_unique() -> None:
    given = [
        "a.jpg",
        "A.JPG",
        "a (2).jpg",
        "a.jpg",
        "b",
        "b/c",
        "manifest.json",
        "x/Manifest.json",
        "Receipt.json",
        "Straße",
        "STRASSE",
        "B/d",
    ]
    assert list(unique_names(given)) == [
        "a.jpg",
        "A (2).JPG",
        "a (2) (2).jpg",
        "a (3).jpg",
        "b (2)",  # `b` is the folder of another
        "b/c",
        "manifest (2).json",
        "x/Manifest.json",
        "Receipt (2).json",
        "Straße",
        "STRASSE (2)",
        "B/d",
    ]
    assert len({name.casefold() for name in unique_names(["same"] * 20_000)}) == 20_000


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_of_4_gib_is_read(tmp_path: Path) -> None:
    """Every reader reads through the hole and finds its CRC right."""
    path, size, block = tmp_path / "large.zip", (4 << 30) + 7, bytes(1 << 24)
    crc, left = 0, size
    while left:
        crc = zlib.crc32(memoryview(block)[: min(left, len(block))], crc)
        left -= min(left, len(block))
    entry, zipped = Entry("hole.bin", size, NOON), ZipBytes()
    with path.open("wb") as file:
        file.write(zipped.header(entry, None))
        file.seek(size, 1)
        file.write(zipped.footer(entry, crc) + b"".join(zipped.directory()))
    assert "No errors detected" in unzip("-t", str(path))
    with zipfile.ZipFile(path) as opened:
        assert opened.testzip() is None
    ((name, node_size, _, _),) = by_node(path)
    assert (name, node_size) == ("hole.bin", size)
