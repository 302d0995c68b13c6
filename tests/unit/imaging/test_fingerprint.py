"""What a picture looks like: hashes that stay when a file changes and the picture does not, and facts beside them."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
import pyvips

from lingxi.domain.duplicates import BURST_BITS, NEAR_BITS, NEAR_DIFFERENCE_BITS
from lingxi.imaging.fingerprint import fingerprint
from tests.integration.fingerprint.looks import SUBJECTS, alike, cropped, jpeg, subject


def looks(data: bytes) -> dict[str, Any]:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return fingerprint(file.fileno(), lambda needed_bytes: None)


def bits(one: dict[str, Any], other: dict[str, Any], name: str) -> int:
    return (int(one[name], 16) ^ int(other[name], 16)).bit_count()


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_same_photo_is_near(name: str) -> None:
    original = looks(jpeg(subject(name), 92))
    for what, data in alike(name).items():
        other = looks(data)
        assert bits(original, other, "perceptual_hash") <= NEAR_BITS, what
        assert bits(original, other, "difference_hash") <= NEAR_DIFFERENCE_BITS, what


def test_other_photos_are_far() -> None:
    known = [looks(jpeg(subject(name))) for name in SUBJECTS]
    turned = [looks(jpeg(subject(name).rot90())) for name in SUBJECTS]
    mirrored = [looks(jpeg(subject(name).fliphor())) for name in SUBJECTS]
    every = [*known, *turned, *mirrored]
    distances = [
        bits(one, other, "perceptual_hash") for at, one in enumerate(every) for other in every[at + 1 :]
    ]
    assert min(distances) > BURST_BITS


def test_sharpness_falls_with_blur_and_not_with_size() -> None:
    image = subject("raccoon")
    sharp, blurred = looks(jpeg(image, 92)), looks(jpeg(image.gaussblur(2), 92))
    assert sharp["sharpness"] > 3 * blurred["sharpness"]
    large = looks(jpeg(image.resize(2), 92))
    assert large["sharpness"] < 2 * sharp["sharpness"]  # both are looked at in one size
    assert (large["width"], large["height"]) == (2 * image.width, 2 * image.height)


def test_sixteen_bits_alpha_and_gray_are_looked_at_as_people_see_them() -> None:
    image = subject("cat")
    plain = looks(bytes(image.pngsave_buffer(compression=1)))
    deep = (image.cast("ushort") * 257).cast("ushort").copy(interpretation="rgb16")
    clear = image.bandjoin(255).copy(interpretation="srgb")
    for other in (deep, clear):
        seen = looks(bytes(other.pngsave_buffer(compression=1)))
        assert bits(plain, seen, "perceptual_hash") <= 2
    gray = looks(bytes(image.colourspace("b-w").pngsave_buffer(compression=1)))
    assert len(bytes.fromhex(gray["thumb_hash"])) == len(bytes.fromhex(plain["thumb_hash"]))


def test_damaged_metadata_cost_a_field_and_never_the_photo() -> None:
    assert looks(jpeg(subject("cat"), taken="2026:02:31 12:00:00"))["captured_local"] is None
    assert looks(jpeg(subject("cat"), taken="2026:02:28 12:00:00"))["captured_local"] == "2026-02-28T12:00:00"
    tiny = pyvips.Image.black(1, 1, bands=3).cast("uchar").copy(interpretation="srgb")
    assert looks(jpeg(tiny))["perceptual_hash"] is None
    assert looks(jpeg(cropped(subject("cat"), 0.99)))["sharpness"] >= 0
