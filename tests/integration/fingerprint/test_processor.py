"""photo:fingerprint on a bench: alike and unlike photos, every code it can give, crashed at every point."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.processors.contract import Processor
from lingxi.processors.photo_fingerprint import PhotoFingerprint
from lingxi.testing import POINTS, Bench
from tests.integration.fingerprint.conftest import Album
from tests.integration.fingerprint.looks import SUBJECTS, alike, cropped, jpeg, moved, subject
from tests.support.pictures import cut, png_declaring

NOON = "2026:05:01 12:00:0"


def ids(links: list[dict[str, Any]]) -> set[UUID]:
    return {UUID(link["photoId"]) for link in links}


def test_the_same_photo_in_other_files_is_found_and_another_is_not(album: Album) -> None:
    originals = {name: album.add(jpeg(subject(name), 92)) for name in SUBJECTS}
    for photo in originals.values():
        assert album.result(photo)["duplicates"] == []
    copies = {name: album.add(data) for name, data in alike("raccoon").items()}
    for name, copy in copies.items():
        assert originals["raccoon"] in ids(album.result(copy)["duplicates"]), name
    far = album.add(jpeg(cropped(subject("raccoon"), 0.3)))
    flipped = album.add(jpeg(subject("raccoon").fliphor()))
    assert album.result(far)["duplicates"] == album.result(flipped)["duplicates"] == []


def test_whichever_comes_first_the_pair_is_one(album: Album) -> None:
    first, second = album.add(jpeg(subject("cat"))), album.add(jpeg(subject("cat"), 50))
    assert album.result(first)["duplicates"] == []
    assert ids(album.result(second)["duplicates"]) == {first}
    again = album.result(first)  # kept already, and now it has a neighbour
    assert (again["outcome"], ids(again["duplicates"])) == ("already", {second})
    assert album.rows(first) == album.rows(second) == 1


def test_the_result_tells_what_it_looks_like(album: Album) -> None:
    photo = album.add(jpeg(subject("coffee"), taken=NOON + "0"))
    result = album.result(photo)
    told = result.pop("fingerprint")
    assert result == {
        "photoId": str(photo),
        "outcome": "fingerprinted",
        "duplicates": [],
        "burst": [],
    }
    assert (told["width"], told["height"], told["generation"]) == (600, 400, 1)
    assert (told["camera"], told["capturedLocal"]) == ("Canon EOS R5", "2026-05-01T12:00:00")
    assert len(told["perceptualHash"]) == len(told["differenceHash"]) == 16
    assert 20 <= len(base64.b64decode(told["thumbHash"])) <= 25
    blurred = album.result(album.add(jpeg(subject("coffee").gaussblur(3))))["fingerprint"]
    assert told["sharpness"] > 2 * blurred["sharpness"] > 0


def test_a_burst_is_of_one_camera_within_seconds(album: Album) -> None:
    image = subject("raccoon")
    first = album.add(jpeg(moved(image, 0.0), taken=NOON + "0"))
    second = album.add(jpeg(moved(image, 0.05), taken=NOON + "2"))
    late = album.add(jpeg(moved(image, 0.05), 80, taken=NOON + "9"))
    other = album.add(jpeg(moved(image, 0.05), 75, taken=NOON + "1", model="EOS R6"))
    unlike = album.add(jpeg(subject("rocket"), taken=NOON + "1"))
    results = {photo: album.result(photo) for photo in (first, second, late, other, unlike)}
    assert ids(results[second]["burst"]) == {first}
    assert results[late]["burst"] == results[other]["burst"] == results[unlike]["burst"] == []


def test_what_shows_nothing_is_like_nothing(album: Album) -> None:
    import pyvips

    black = pyvips.Image.black(300, 200, bands=3).cast("uchar").copy(interpretation="srgb")
    photos = [album.add(jpeg(black + level)) for level in (0, 128)]
    for result in map(album.result, photos):
        assert result["fingerprint"]["perceptualHash"] is None
        assert result["duplicates"] == []


def test_other_albums_and_workspaces_are_not_looked_at(
    bench: Bench, album: Album, processor: Processor[Any]
) -> None:
    data, foreign = jpeg(subject("cat")), uuid4()
    bench.fetch("insert into workspaces (id, name) values ($1, $2)", foreign, str(foreign))
    beside = Album(bench, processor).open()
    elsewhere = Album(bench, processor, workspace_id=foreign).open()
    there = elsewhere.add(data)
    album.result(album.add(data))
    assert beside.result(beside.add(data))["duplicates"] == []
    assert elsewhere.run(there).code == "photo_not_found"
    assert album.rows(there) == 0


def test_deleted_and_recalled_photos_leave(bench: Bench, album: Album) -> None:
    one, two, three = (album.add(jpeg(subject("cat"), quality)) for quality in (90, 70, 50))
    for photo in (one, two, three):
        album.result(photo)
    bench.fetch("update photos set deleted_at = now() where id = $1", one)
    assert ids(album.result(three)["duplicates"]) == {two}
    skipped = album.result(one)
    assert (skipped["outcome"], skipped["fingerprint"], skipped["duplicates"]) == ("skipped", None, [])
    bench.fetch("update photos set visibility = 'recalled' where id = $1", two)
    assert album.result(three)["duplicates"] == []
    assert album.result(album.add(jpeg(subject("cat"), 30)))["duplicates"] != []


def test_a_later_generation_is_looked_at_again(bench: Bench, album: Album) -> None:
    photo = album.add(jpeg(subject("cat")))
    album.result(photo)
    bench.fetch("update photos set requested_generation = 2, published_generation = 2 where id = $1", photo)
    again = album.result(photo)
    assert (again["outcome"], again["fingerprint"]["generation"]) == ("fingerprinted", 2)
    assert album.result(photo)["outcome"] == "already"
    assert album.rows(photo) == 1


@pytest.mark.parametrize("point", [point for point in POINTS if point != "after_fetch"])
def test_crashed_at_any_point_it_ends_once(bench: Bench, album: Album, point: str) -> None:
    photo = album.add(jpeg(subject("rocket")))
    ran = bench.crash(album.processor, {"photoId": str(photo)}, at=point)
    assert ran.state == "succeeded"
    assert ran.result is not None and ran.result["fingerprint"] is not None
    assert album.rows(photo) == 1
    assert bench.scratch_left() == []


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (cut(jpeg(subject("cat"))), "truncated_image"),
        (jpeg(subject("cat"))[:3000] + b"\xff\xff" * 40 + jpeg(subject("cat"))[9000:], "corrupt_image"),
        (b"no picture at all" * 10, "unsupported_type"),
        (b"", "empty_file"),
        (png_declaring(20_000, 20_000), "too_many_pixels"),
    ],
)
def test_codes_of_files(album: Album, data: bytes, code: str) -> None:
    photo = album.add(data)
    ran = album.run(photo)
    assert (ran.state, ran.code, ran.outcomes) == ("failed", code, ["failed"])
    assert album.rows(photo) == 0


def test_codes_of_photos_storage_and_decoders(bench: Bench, album: Album, tmp_path: Path) -> None:
    assert bench.run(album.processor, {"photoId": str(uuid4())}).code == "photo_not_found"
    with pytest.raises(ValueError, match="photoId"):
        bench.run(album.processor, {"photoId": "x"})
    photo = album.add(jpeg(subject("cat")))
    slow = PhotoFingerprint(Decoders(DecoderConfig(children=1, time_limit_seconds=0.0001))).processor()
    ran = bench.run(slow, {"photoId": str(photo)})
    assert (ran.code, ran.outcomes) == ("decode_timeout", ["retrying", "retrying", "failed"])
    small = PhotoFingerprint(Decoders(DecoderConfig(children=1, memory_limit_bytes=64 << 20))).processor()
    assert bench.run(small, {"photoId": str(photo)}).code == "decoder_crashed"
    bench.fetch("update photos set sha256 = '\\x00' where id = $1", photo)
    ran = album.run(photo)
    assert (ran.code, ran.outcomes) == ("storage_unavailable", ["retrying", "retrying", "failed"])
    bench.fetch("update photos set storage_key = 'photo-live/dev/gone.jpg' where id = $1", photo)
    assert album.run(photo).code == "object_not_found"
    assert album.rows(photo) == 0
