"""The sample photographs are what they say they are, and quick to make."""

from __future__ import annotations

from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.imaging.errors import ImageError
from lingxi.imaging.samples import SamplePhoto, make_sample_photos


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[SamplePhoto]:
    return make_sample_photos(tmp_path_factory.mktemp("photos") / "made")


async def test_each_is_good_or_broken_as_it_says(photos: list[SamplePhoto]) -> None:
    decoders = Decoders(DecoderConfig())
    for photo in photos:
        outcome = "ok"
        with photo.path.open("rb") as file:
            try:
                await decoders.inspect(file.fileno())
            except ImageError as error:
                outcome = error.code
        assert outcome == photo.expected, photo.name
        assert ("broken" in photo.name) is (photo.expected != "ok")
    await decoders.close()


def test_they_vary_in_what_people_send(photos: list[SamplePhoto]) -> None:
    suffixes = Counter(photo.path.suffix for photo in photos if photo.expected == "ok")
    assert set(suffixes) == {".jpg", ".png", ".webp", ".tif", ".avif", ".gif"}
    assert sum(suffixes.values()) == 54
    assert {photo.expected for photo in photos} - {"ok"} == {
        "truncated_image",
        "unsupported_type",
        "empty_file",
        "too_many_pixels",
        "corrupt_image",
    }


def test_no_two_are_the_same(photos: list[SamplePhoto]) -> None:
    assert len({photo.path.read_bytes() for photo in photos}) == len(photos) == 60


def test_they_are_the_same_each_time(photos: list[SamplePhoto], tmp_path: Path) -> None:
    again = make_sample_photos(tmp_path)
    assert [photo.path.read_bytes() for photo in again] == [photo.path.read_bytes() for photo in photos]


def test_each_source_has_its_licence_on_record() -> None:
    folder = resources.files("lingxi.imaging") / "sample_photos"
    licences = (folder / "LICENCES.md").read_text("utf-8")
    for entry in folder.iterdir():
        assert entry.name == "LICENCES.md" or f"| `{entry.name}` |" in licences
