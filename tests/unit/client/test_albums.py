"""Frames of an album's feed, names of exported files, and files of a folder, without a server."""

import json
from pathlib import Path
from typing import Any

import pytest

from lingxi.cli.album_export import export_name
from lingxi.cli.photo_files import Settling, find_photos
from lingxi.client import AlbumSnapshot, Photo, PhotoChanged, PhotoRemoved, StreamBroken
from lingxi.client.album_model import parse_album_frame
from lingxi.client.sse import ServerSentEvent
from lingxi.domain.photos import Album, album_to_wire

ALBUM = "5c7b7c1e-8f0e-4c0b-9a3c-2f6d1b9e4a01"


def a_photo(**told: Any) -> dict[str, Any]:
    """What a guest is told of a photo."""
    return {
        "id": "p", "albumId": ALBUM, "uploadNumber": 12, "processingState": "ready", "visibility": "published",
        "entityVersion": 1, "generation": 1, "width": 6, "height": 4, "capturedAt": None, "publishedAt": None,
        "createdAt": "2026-12-01T20:00:00Z", "variants": [], **told,
    }  # fmt: skip


def frame(event: str, data: Any) -> Any:
    return parse_album_frame(ServerSentEvent(event, json.dumps(data), "7", "7"))


def test_frames_as_the_server_writes_them() -> None:
    from datetime import UTC, datetime
    from uuid import UUID

    album = Album(UUID(ALBUM), UUID(ALBUM), "Wedding", False, datetime.now(UTC), None, 7)
    for member in (True, False):
        told = frame("snapshot", album_to_wire(album, {"published": 3, "photos": 4}, member=member))
        assert isinstance(told, AlbumSnapshot)
        assert (told.album.name, told.album.cursor, told.album.counts["published"]) == ("Wedding", 7, 3)
    changed = frame("photo", a_photo())
    assert isinstance(changed, PhotoChanged)
    assert (changed.photo.upload_number, changed.photo.file_name, changed.id) == (12, None, "7")
    assert frame("removed", {"id": "p", "visibility": "hidden"}) == PhotoRemoved("p", "7")
    assert frame("of another day", {}) is None
    with pytest.raises(StreamBroken):
        frame("photo", {"id": "p"})


@pytest.mark.parametrize(
    ("given", "exported"),
    [
        ("IMG_1.JPG", "0012 IMG_1.JPG"),
        ("../../etc/passwd", "0012 .._.._etc_passwd"),
        ("a\\b:c*?.jpg", "0012 a_b_c__.jpg"),
        ("..", "0012 photo"),
        (".hidden", "0012 hidden"),
        ("line\nbreak\u202egpj.exe", "0012 line_break_gpj.exe"),
        ("e\u0301.jpg", "0012 \u00e9.jpg"),
        ("照片" * 100 + ".jpg", "0012 " + ("照片" * 100)[:66] + ".jpg"),
    ],
)
def test_an_exported_file_has_a_name_that_is_no_path(given: str, exported: str) -> None:
    name = export_name(Photo.from_wire(a_photo(fileName=given)))
    assert name == exported or (
        name.startswith("0012 ") and not set("/\\\n") & set(name) and ".." in exported
    )
    assert len(name.encode()) < 255
    assert export_name(Photo.from_wire(a_photo(fileName=given)), browse=True).endswith(".jpg")


def test_photos_of_a_folder(tmp_path: Path) -> None:
    for name in ("b.JPG", "a/c.heic", "b.cr2", "d.nef", "notes.txt", "x.JXL", "y.svg", ".e.jpg", ".f/g.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = find_photos(tmp_path)
    assert [path.name for path in found.photos] == ["c.heic", "b.JPG", "x.JXL", "y.svg"]
    assert [path.name for path in found.beside_a_photo] == ["b.cr2"]
    assert [path.name for path in found.raw_only] == ["d.nef"]
    assert [path.name for path in found.others] == ["notes.txt"]


def test_a_file_is_taken_when_it_has_stopped_growing_and_once(tmp_path: Path) -> None:
    file, settling = tmp_path / "a.jpg", Settling(2.0)
    file.write_bytes(b"")
    assert settling.settled([file], 0.0) == []
    assert settling.settled([file], 9.0) == [], "an empty file is one that has not begun"
    file.write_bytes(b"half")
    assert settling.settled([file], 10.0) == []
    assert settling.settled([file], 11.9) == []
    file.write_bytes(b"the whole")
    assert settling.settled([file], 12.0) == []
    assert settling.settled([file], 13.9) == []
    assert settling.settled([file, tmp_path / "gone.jpg"], 14.0) == [file]
    assert settling.settled([file], 20.0) == []
    file.write_bytes(b"another photo under the same name")
    assert settling.settled([file], 21.0) == []
    assert settling.settled([file], 23.0) == [file]
