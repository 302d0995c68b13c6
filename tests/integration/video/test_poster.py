"""A poster that is not black or blurred, upright and in the colours of the video, and a short silent preview."""

from __future__ import annotations

import io
from typing import Any

import av
import numpy as np
import pytest
import pyvips

from lingxi.video.score import score
from tests.integration.video.conftest import Poster, assert_colour, assert_upright
from tests.support.clips import CORNERS, Sound, clip, seen, top_level_boxes


def colour(image: pyvips.Image, x: float, y: float) -> list[float]:
    side = max(1, min(image.width, image.height) // 10)
    left, top = min(int(x * image.width), image.width - side), min(int(y * image.height), image.height - side)
    return [band.avg() for band in image.crop(left, top, side, side).bandsplit()]


def upright(data: bytes, tolerance: float = 14) -> pyvips.Image:
    """Each colour in its corner."""
    image = pyvips.Image.jpegload_buffer(data)
    for place, wanted in CORNERS.items():
        assert_colour(colour(image, *place), wanted, tolerance)
    return image


@pytest.mark.parametrize(
    "given",
    [
        {"rotation": (270.0, False, False), "sound": Sound()},
        {"codec": "libvpx-vp9", "container": "webm"},
        {"colours": (1, 1, 1)},
        {"pix_fmt": "yuvj420p"},
    ],
)
async def test_a_poster_and_a_preview(poster: Poster, given: dict[str, Any]) -> None:
    facts, image, preview = await poster(clip(**given))
    turned = "rotation" in given
    size = (120, 160) if turned else (160, 120)
    assert (facts["width"], facts["height"]) == size
    if turned:
        assert facts["rotation"] == 90
        return  # its corners have moved; test_pictures.py follows them
    made = upright(image)
    assert (made.width, made.height) == size
    assert made.get_typeof("exif-data") == 0
    video = seen(preview)
    assert (video.codecs, video.size, video.rotation) == (("h264",), size, 0)
    assert top_level_boxes(preview)[:2] == ["ftyp", "moov"]
    assert_upright(video)


async def test_a_video_that_begins_black_gets_a_poster_that_is_not(poster: Poster) -> None:
    facts, image, _ = await poster(clip(seconds=2.0, black_seconds=1.8))
    assert facts["at_seconds"] >= 1.8
    assert facts["is_poor"] is False
    upright(image)


async def test_black_throughout_is_told(poster: Poster) -> None:
    facts, image, _ = await poster(clip(seconds=0.4, black_seconds=9))
    assert facts["is_poor"] is True
    assert pyvips.Image.jpegload_buffer(image).avg() < 20


async def test_the_sharpest_of_the_frames_is_taken(poster: Poster) -> None:
    """All but a tenth of a second is blurred, as by a hand that moves."""
    facts, _, _ = await poster(_blurred_but(0.88, 1.12))
    assert 0.88 <= facts["at_seconds"] <= 1.12


def _blurred_but(begin: float, end: float) -> bytes:
    from fractions import Fraction

    out = io.BytesIO()
    texture = np.random.default_rng(5).integers(40, 215, (120, 160), dtype=np.uint8)
    smooth = np.asarray(
        pyvips.Image.new_from_memory(texture.tobytes(), 160, 120, 1, "uchar").gaussblur(6).cast("uchar")
    )
    with av.open(out, "w", format="mp4") as output:
        stream: Any = output.add_stream("libx264", rate=25, options={"crf": "12", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 160, 120, "yuv420p"
        for index in range(50):
            sharp = begin <= index / 25 < end
            gray = texture if sharp else smooth.reshape(120, 160)
            frame = av.VideoFrame.from_ndarray(np.repeat(gray[:, :, None], 3, axis=2), "rgb24")
            frame.pts, frame.time_base = index, Fraction(1, 25)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return out.getvalue()


async def test_a_given_moment_is_taken(poster: Poster) -> None:
    facts, _, _ = await poster(clip(seconds=2.0), at_seconds=1.2)
    assert facts["at_seconds"] == pytest.approx(1.2, abs=0.05)
    facts, _, _ = await poster(clip(), at_seconds=500.0)
    assert facts["at_seconds"] <= 1.0, "the last there is"


async def test_a_preview_is_short_small_and_silent(poster: Poster) -> None:
    source = clip(seconds=5.6, rate=36, size=(700, 400), sound=Sound(seconds=0.2))
    _, _, preview = await poster(source)
    video = seen(preview)
    assert video.size == (630, 360)
    assert video.sound is None
    assert 4.5 < video.seconds <= 5.0
    assert len(video.times) <= 151, "at most 30 a second"
    assert video.times[0] == 0.0


@pytest.mark.parametrize("transfer", [16, 18])
async def test_hdr_posters_are_srgb(poster: Poster, transfer: int) -> None:
    facts, image, _ = await poster(
        clip("libx265", pix_fmt="yuv420p10le", colours=(transfer, 9, 9), seconds=0.2)
    )
    assert facts["tone_mapped"] is True
    made = pyvips.Image.jpegload_buffer(image)
    white = colour(made, 0.8, 0.8)
    assert min(white) > 225
    assert max(white) - min(white) < 14


async def test_one_frame_and_no_index(poster: Poster) -> None:
    facts, image, preview = await poster(clip(times=[0.0]))
    upright(image)
    assert facts["preview"]["frames"] == 1
    facts, image, _ = await poster(clip(mux={"movflags": "frag_keyframe+empty_moov"}))
    upright(image)
    facts, image, _ = await poster(clip(container="mpegts"))
    upright(image)
    assert len(seen(preview).times) == 1


async def test_without_a_preview(poster: Poster) -> None:
    facts, _, preview = await poster(clip(), preview_seconds=0)
    assert (facts["preview"], preview) == (None, b"")


def test_a_score_knows_black_flat_and_blurred() -> None:
    sharp = np.random.default_rng(1).integers(0, 255, (90, 160), dtype=np.uint8)
    smooth = np.repeat(np.linspace(30, 220, 160, dtype=np.uint8)[None, :], 90, axis=0)

    def of(gray: Any) -> Any:
        return score(av.VideoFrame.from_ndarray(np.repeat(gray[:, :, None], 3, axis=2), "rgb24"))

    black, flat = of(np.zeros_like(sharp)), of(np.full_like(sharp, 128))
    assert black.is_poor and flat.is_poor and not of(sharp).is_poor and not of(smooth).is_poor
    assert of(sharp).value > of(smooth).value > max(black.value, flat.value)
