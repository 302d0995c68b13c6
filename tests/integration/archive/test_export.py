"""export:archive on a bench: objects and albums in, one ZIP out, or a code; crashed and stopped on the way."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import re
import uuid
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lingxi.db.session import connect
from lingxi.processors.contract import StopReason
from lingxi.processors.export_archive import ExportArchive
from lingxi.services.secret_keys import agree_on_key
from lingxi.testing import Bench
from lingxi.testing.ran import Said
from tests.integration.archive.conftest import EXPORT, FILES, KEY, SECRET, Made, stored_files

ALBUM = uuid.uuid4()
TAKEN = 1_777_638_601  # an odd second: 2026-05-01T12:30:01Z


def opened(bench: Bench, name: str) -> zipfile.ZipFile:
    data = bench.get(name)
    assert data is not None
    return zipfile.ZipFile(io.BytesIO(data))


def manifest_of(archive: zipfile.ZipFile) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(archive.read("manifest.json"))
    return told


@pytest.fixture(scope="module")
def album(bench: Bench) -> uuid.UUID:
    """Three published photos of one name, one hidden, one recalled; with browse pictures but for the hidden one."""
    bench.fetch(
        "insert into albums (id, workspace_id, name) values ($1, $2, 'Wedding')", ALBUM, bench.workspace_id
    )
    states = ["published"] * 3 + ["hidden", "recalled"]
    for number, visibility in enumerate(states, 1):
        photo = uuid.uuid4()
        original = _take_bytes(bench, f"photo-{number}", b"original %d" % number)
        bench.fetch(
            "insert into photos (id, workspace_id, album_id, upload_number, file_name, storage_key, size_bytes, sha256,"
            " content_type, processing_state, visibility, published_generation, width, height, published_at,"
            " captured_at, last_seq) values ($1, $2, $3, $4, 'IMG.JPG', $5, $6, $7, 'image/jpeg', 'ready', $8, 1, 9, 9,"
            " now(), to_timestamp($9), 1)",
            *(photo, bench.workspace_id, ALBUM, number, *original, visibility, float(TAKEN)),
        )
        if visibility == "published":
            browse = _take_bytes(bench, f"browse-{number}", b"browse %d" % number)
            bench.fetch(
                "insert into photo_variants (photo_id, kind, generation, file_name, width, height, content_type, storage_key,"
                " size_bytes, sha256) values ($1, 'browse', 1, 'x', 9, 9, 'image/jpeg', $2, $3, $4)",
                *(photo, *browse),
            )
    return ALBUM


def _take_bytes(bench: Bench, name: str, data: bytes) -> tuple[str, int, bytes]:
    """Bytes in storage that no object names any more: key, size, SHA-256."""
    bench.put(name, data)
    (row,) = bench.fetch(
        "delete from objects where name = $1 returning storage_key, size_bytes, sha256", name
    )
    return row["storage_key"], row["size_bytes"], row["sha256"]


# ── what it makes ────────────────────────────────────────────────────────────────────────────────────────


def test_an_archive_is_what_its_result_says(bench: Bench, original: Made) -> None:
    data, result = original.path.read_bytes(), original.result
    assert (result["object"], result["files"], result["skipped"]) == ("all.zip", len(FILES), [])
    assert (result["sizeBytes"], result["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    (row,) = bench.fetch("select content_type from objects where name = 'all.zip'")
    assert row["content_type"] == "application/zip"
    with zipfile.ZipFile(original.path) as archive:
        assert archive.namelist() == [*FILES, "manifest.json", "receipt.json"]
        assert {name: archive.read(name) for name in FILES} == FILES
        manifest = archive.read("manifest.json")
        assert json.loads(archive.read("receipt.json")) == result["receipt"]
    assert result["receipt"]["manifestSha256"] == hashlib.sha256(manifest).hexdigest()  # type: ignore[index]
    assert result["receipt"]["publicKey"] == KEY.text  # type: ignore[index]
    assert [(one["name"], one["sizeBytes"], one["sha256"]) for one in json.loads(manifest)["files"]] == [
        (name, len(data), hashlib.sha256(data).hexdigest()) for name, data in FILES.items()
    ]


def test_an_album_in_its_order_with_its_times(bench: Bench, album: uuid.UUID) -> None:
    ran = bench.run(EXPORT, {"albumId": str(album), "into": "album.zip"})
    assert ran.state == "succeeded", ran.item
    with opened(bench, "album.zip") as archive:
        infos = archive.infolist()[:-2]
        assert [(one.filename, archive.read(one)) for one in infos] == [
            ("IMG.JPG", b"original 1"),
            ("IMG (2).JPG", b"original 2"),
            ("IMG (3).JPG", b"original 3"),
        ]
        assert {one.date_time for one in infos} == {(2026, 5, 1, 12, 30, 0)}  # MS-DOS knows even seconds only
        assert all(one.extra.startswith(b"UT\5\0\1" + TAKEN.to_bytes(4, "little")) for one in infos)
        told = manifest_of(archive)
    assert told["album"] == {"id": str(album), "name": "Wedding", "pictures": "originals"}
    assert {one["modifiedAt"] for one in told["files"]} == {"2026-05-01T12:30:01Z"}


def test_an_album_as_it_is_shown_or_with_what_is_hidden(bench: Bench, album: uuid.UUID) -> None:
    given = {"albumId": str(album), "pictures": "browse"}
    ran = bench.run(EXPORT, given)
    assert re.fullmatch(r"archives/[0-9a-f-]{36}\.zip", ran.result["object"])
    with opened(bench, ran.result["object"]) as archive:
        assert archive.namelist()[:3] == ["IMG.jpg", "IMG (2).jpg", "IMG (3).jpg"]
        assert archive.read("IMG (3).jpg") == b"browse 3"
    missing = bench.run(EXPORT, {**given, "unpublished": True})  # the hidden one has no browse picture
    assert (missing.code, "'IMG.jpg' (photo " in str(missing.message)) == ("object_not_found", True)
    skipping = bench.run(EXPORT, {**given, "unpublished": True, "onMissing": "skip"})
    assert (skipping.result["files"], skipping.result["skippedCount"]) == (3, 1)
    all_of_them = bench.run(EXPORT, {"albumId": str(album), "unpublished": True})
    assert all_of_them.result["files"] == 4  # the recalled one never


def test_a_list_in_an_object(bench: Bench) -> None:
    bench.put("list.txt", "\ufeffshoot/1.jpg\r\n\n shoot/empty.txt \nshoot/1.jpg\n".encode())
    ran = bench.run(EXPORT, {"objectList": "list.txt", "into": "listed.zip"})
    with opened(bench, ran.result["object"]) as archive:
        assert archive.namelist()[:-2] == ["shoot/1.jpg", "shoot/empty.txt"]
    bench.put("bad.txt", b"shoot/1.jpg\n../1.jpg\n")
    ran = bench.run(EXPORT, {"objectList": "bad.txt"})
    assert (ran.code, ran.message) == (
        "input_invalid",
        "Line 2 of 'bad.txt': The name has the segment '..'.",
    )
    bench.put("latin.txt", "Größe".encode("latin-1"))
    assert bench.run(EXPORT, {"objectList": "latin.txt"}).code == "input_invalid"
    bench.put("blank.txt", b"\n \n")
    assert bench.run(EXPORT, {"objectList": "blank.txt"}).code == "nothing_to_archive"


def test_progress_is_in_bytes(bench: Bench) -> None:
    ran = bench.run(EXPORT, {"objects": list(FILES)})
    total = sum(map(len, FILES.values()))
    assert {said.total for said in ran.progress} == {total}
    assert [said.done for said in ran.progress] == sorted(said.done for said in ran.progress)
    assert ran.progress[-1] == (total, total, f"{len(FILES)} of {len(FILES)} files")
    assert len(ran.progress) > len(FILES) + 5  # the large one is told on the way


# ── what is missing, damaged or refused ──────────────────────────────────────────────────────────────────


def test_what_is_missing_is_named_or_skipped(bench: Bench, folder: Path) -> None:
    bench.put("gone.bin", b"its bytes will be gone")
    (row,) = bench.fetch("select storage_key from objects where name = 'gone.bin'")
    (path,) = (folder / "objects").rglob(row["storage_key"])
    path.unlink()
    for missing in ("nothing.jpg", "gone.bin"):
        before = stored_files(folder)
        ran = bench.run(EXPORT, {"objects": ["shoot/1.jpg", missing], "into": "without.zip"})
        assert (ran.state, ran.code, ran.outcomes) == ("failed", "object_not_found", ["failed"])
        assert repr(missing) in str(ran.message)
        assert stored_files(folder) == before
    names = ["nothing.jpg", "shoot/1.jpg", "gone.bin"]
    ran = bench.run(EXPORT, {"objects": names, "into": "without.zip", "onMissing": "skip"})
    assert (ran.result["files"], ran.result["skippedCount"]) == (1, 2)
    assert [one["source"] for one in ran.result["skipped"]] == ["nothing.jpg", "gone.bin"]
    with opened(bench, "without.zip") as archive:
        assert manifest_of(archive)["skipped"] == ran.result["skipped"]
        assert archive.namelist()[:-2] == ["shoot/1.jpg"]


@pytest.mark.parametrize("size", [10, (16 << 20) + 1])
def test_bytes_that_changed_in_storage_are_noticed(bench: Bench, folder: Path, size: int) -> None:
    name = f"changed-{size}"
    bench.put(name, bytes(size))
    (row,) = bench.fetch("select storage_key from objects where name = $1", name)
    (path,) = (folder / "objects").rglob(row["storage_key"])
    with path.open("r+b") as file:
        file.seek(size - 1)
        file.write(b"\1")
    before = stored_files(folder)
    ran = bench.run(EXPORT, {"objects": [name]})
    assert (ran.code, ran.outcomes) == ("checksum_mismatch", ["failed"])
    assert repr(name) in str(ran.message)
    assert stored_files(folder) == before


def test_codes(bench: Bench) -> None:
    taken = bench.run(EXPORT, {"objects": ["shoot/1.jpg"], "into": "shoot/2.jpg"})
    assert (taken.code, "'shoot/2.jpg'" in str(taken.message)) == ("object_exists", True)
    assert bench.run(EXPORT, {"albumId": str(uuid.uuid4())}).code == "album_not_found"
    assert bench.run(EXPORT, {"objectList": "nothing.txt"}).code == "object_not_found"
    bench.fetch("insert into workspaces (id, name) values ($1, 'other')", other := uuid.uuid4())
    bench.fetch(
        "insert into albums (id, workspace_id, name) values ($1, $2, 'x')", foreign := uuid.uuid4(), other
    )
    assert bench.run(EXPORT, {"albumId": str(foreign)}).code == "album_not_found"
    empty = uuid.uuid4()
    bench.fetch("insert into albums (id, workspace_id, name) values ($1, $2, 'x')", empty, bench.workspace_id)
    assert bench.run(EXPORT, {"albumId": str(empty)}).code == "nothing_to_archive"
    bench.put("huge.bin", b"huge")
    bench.fetch("update objects set size_bytes = (1::bigint << 40) + 1 where name = 'huge.bin'")
    assert bench.run(EXPORT, {"objects": ["huge.bin"]}).code == "too_large"
    assert bench.run(EXPORT, {"objectList": "huge.bin"}).code == "too_large"
    bench.fetch("update objects set name = 'theirs', workspace_id = $1 where name = 'huge.bin'", other)
    assert bench.run(EXPORT, {"objects": ["theirs"]}).code == "object_not_found"


def test_an_hour_is_its_limit(bench: Bench, folder: Path) -> None:
    before = stored_files(folder)
    ran = bench.run(
        EXPORT, {"objects": ["shoot/large.bin"]}, on_progress=lambda said: bench.clock.advance(3_601)
    )
    assert (ran.code, ran.outcomes) == ("deadline_exceeded", ["retrying", "retrying", "failed"])
    assert stored_files(folder) == before


def test_a_worker_with_another_secret_key_signs_nothing(bench: Bench) -> None:
    given = {"objects": ["shoot/1.jpg"]}
    rotated = ExportArchive(lambda: [b"the new key of the deployment", SECRET]).processor()
    stranger = ExportArchive(lambda: [b"the key of some other data folder"]).processor()
    assert bench.run(stranger, given).state == "succeeded", "nobody has decided yet"
    with asyncio.Runner() as runner:
        assert runner.run(agreed(bench.database_url, [SECRET]))
    try:
        ran = bench.run(stranger, given)
        assert (ran.code, ran.outcomes) == ("signing_key_differs", ["retrying", "retrying", "failed"])
        assert "LINGXI_SECRET_KEY" in str(ran.message)
        assert bench.run(EXPORT, given).state == "succeeded"
        assert bench.run(rotated, given).state == "succeeded"
    finally:
        bench.fetch("delete from deployment where key = 'secret_key'")


async def agreed(url: str, keys: list[bytes]) -> bool:
    connection = await connect(url, name="test")
    try:
        return await agree_on_key(connection, keys)
    finally:
        await connection.close()


def test_storage_that_takes_nothing(bench: Bench, folder: Path) -> None:
    unfinished = folder / "objects" / "unfinished"
    aside = unfinished.rename(folder / "aside")
    unfinished.touch()  # no folder: also root cannot write into it
    try:
        ran = bench.run(EXPORT, {"objects": ["shoot/1.jpg"]})
    finally:
        unfinished.unlink()
        aside.rename(unfinished)
    assert (ran.code, ran.outcomes) == ("storage_unavailable", ["retrying", "retrying", "failed"])


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"objects": ["a"], "objectList": "b"},
        {"objects": []},
        {"objects": ["../a"]},
        {"albumId": "x"},
        {"objects": ["a"], "onMissing": "ignore"},
    ],
)
def test_bad_inputs_are_refused_at_submit(bench: Bench, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"items\[0\]\.input"):
        bench.run(EXPORT, given)


# ── what befalls it ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("point", ["claimed", "before_commit", "after_commit", "finished"])
def test_whatever_point_it_crashes_at_the_archive_is_there_once(
    bench: Bench, folder: Path, point: str
) -> None:
    ran = bench.crash(EXPORT, {"objects": ["shoot/1.jpg"], "into": f"{point}.zip"}, at=point)
    assert ran.state == "succeeded"
    assert len(bench.fetch("select from objects where name = $1", f"{point}.zip")) == 1
    with opened(bench, f"{point}.zip") as archive:
        assert archive.testzip() is None


@pytest.mark.parametrize("reason", [StopReason.SHUTDOWN, StopReason.LEASE_LOST, StopReason.DEADLINE])
def test_a_stop_ends_it_at_its_next_megabyte_and_leaves_nothing(
    bench: Bench, folder: Path, reason: StopReason
) -> None:
    said: list[int] = []
    before = stored_files(folder)

    def stop(word: Said) -> None:
        said.append(word.done)
        if len(said) == 1:
            bench.stop(reason)

    given = {"objects": ["shoot/large.bin"], "into": f"{reason}.zip"}
    ran = bench.run(EXPORT, given, on_progress=stop)
    assert (ran.state, len(ran.outcomes)) == ("succeeded", 2)
    assert ran.outcomes[0] == ("retrying" if reason is StopReason.DEADLINE else "released")
    assert said[1] <= said[0]  # the first attempt said no second word; this is the second attempt's first
    assert len(stored_files(folder) - before) == 1  # the second attempt's
