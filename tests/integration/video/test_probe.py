"""What is told of videos, sounds and pictures, and that the place is told only when it is asked for."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
import pyvips

from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.imaging.errors import ImageError
from lingxi.processors.media_probe import is_image
from lingxi.video.errors import VideoError
from tests.integration.video.conftest import Probe
from tests.support.clips import Sound, clip
from tests.support.pictures import HEIC_GREEN_P3, HEIC_48x32, picture
from tests.unit.imaging.test_exif import GPS, MAIN, PHOTO, exif, iptc, photoshop

PLACE = {"location": "+52.5200+013.4050+034.000/"}


async def test_streams_of_a_video(probe: Probe) -> None:
    facts = await probe(
        clip(
            "libx265",
            pix_fmt="yuv420p10le",
            colours=(18, 9, 9),
            sound=Sound("5.1"),
            rotation=(90, False, False),
        )
    )
    (video,), (audio,) = facts["video"], facts["audio"]
    assert (facts["content_type"], facts["is_cut"], facts["damaged"]) == ("video/mp4", False, [])
    assert facts["duration_seconds"] == pytest.approx(1.0, abs=0.05)
    assert (video["codec"], video["bit_depth"], video["hdr"]) == ("hevc", 10, "hlg")
    assert (video["width"], video["height"], video["coded_width"], video["rotation"]) == (120, 160, 160, 270)
    assert video["frame_rate"] == pytest.approx(25.0, abs=0.5)
    assert (audio["codec"], audio["channels"], audio["layout"], audio["sample_rate"]) == (
        "aac",
        6,
        "5.1",
        48_000,
    )


KINDS: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "webm": ({"codec": "libvpx-vp9", "container": "webm"}, "video/webm", "vp9"),
    "matroska": ({"container": "matroska"}, "video/x-matroska", "h264"),
    "quicktime": ({"container": "mov"}, "video/quicktime", "h264"),
    "avi": ({"codec": "mpeg4", "container": "avi"}, "video/x-msvideo", "mpeg4"),
    "ts": ({"container": "mpegts"}, "video/mp2t", "h264"),
    "m4a": ({"codec": None, "container": "ipod", "sound": Sound()}, "audio/mp4", None),
    "mp3": ({"codec": None, "container": "mp3", "sound": Sound(codec="libmp3lame")}, "audio/mpeg", None),
    "flac": ({"codec": None, "container": "flac", "sound": Sound(codec="flac")}, "audio/flac", None),
    "wav": ({"codec": None, "container": "wav", "sound": Sound(codec="pcm_s16le")}, "audio/wav", None),
    "ogg": ({"codec": None, "container": "ogg", "sound": Sound(codec="libopus")}, "audio/ogg", None),
}


@pytest.mark.parametrize("name", KINDS)
async def test_types_by_content(probe: Probe, name: str) -> None:
    given, content_type, codec = KINDS[name]
    facts = await probe(clip(**given))
    assert facts["content_type"] == content_type
    assert [one["codec"] for one in facts["video"]] == ([codec] if codec else [])
    if codec is None:
        assert facts["audio"][0]["channels"] == 2


async def test_what_phones_write(probe: Probe) -> None:
    facts = await probe(
        clip(metadata={**PLACE, "creation_time": "2026-05-01T10:30:00.000000Z", "make": "X"}, seconds=0.2)
    )
    assert facts["captured_at"] == "2026-05-01T10:30:00.000000+00:00"
    assert facts["has_position"] is True
    assert facts["position"] == {"latitude": 52.52, "longitude": 13.405, "altitude_meters": 34.0}
    plain = await probe(clip(seconds=0.2))
    assert (plain["has_position"], plain["position"], plain["captured_at"]) == (False, None, None)


@pytest.mark.parametrize("moment", ["yesterday", "2026-02-31T10:30:00+0200", "2026-05-01T10:30:00+9900"])
async def test_damaged_metadata_costs_a_field(probe: Probe, moment: str) -> None:
    times = {"com.apple.quicktime.creationdate": moment, "com.apple.quicktime.make": "X\x07"}
    facts = await probe(
        clip(container="mov", seconds=0.2, metadata=times, mux={"movflags": "use_metadata_tags"})
    )
    assert (facts["captured_at"], facts["damaged"]) == (None, ["captured_at"])
    assert (facts["make"], facts["video"][0]["width"]) == ("X", 160)


async def test_a_cut_video_is_still_told(probe: Probe) -> None:
    whole = clip(container="matroska", seconds=2.0)
    facts = await probe(whole[: len(whole) // 2])
    assert (facts["is_cut"], facts["video"][0]["width"]) == (True, 160)


SIXTEEN_BITS = pyvips.Image.black(8, 8).cast("ushort").copy(interpretation="grey16")

# ── pictures ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def describe() -> Any:
    decoders = Decoders(DecoderConfig(children=1))

    async def look(data: bytes) -> dict[str, Any]:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            return await decoders.describe(file.fileno())

    yield look
    await decoders.close()


async def test_a_photo_with_everything(describe: Any) -> None:
    image = pyvips.Image.black(60, 40, bands=3).copy(interpretation="srgb")
    image = image.icc_transform("p3", input_profile="srgb")
    for name, data in (
        ("exif-data", b"Exif\0\0" + exif(main=[*MAIN, (274, 3, 6)], photo=PHOTO, gps=GPS)),
        ("iptc-data", photoshop(iptc((5, b"The gate"), (90, b"Berlin")))),
    ):
        image = image.copy()
        image.set_type(pyvips.GValue.blob_type, name, data)
    facts = await describe(image.jpegsave_buffer())
    assert (facts["width"], facts["height"], facts["orientation"]) == (40, 60, 6)
    assert (facts["camera"]["model"], facts["camera"]["iso"]) == ("EOS R5", 400)
    assert facts["captured_local"] == "2026-05-01T12:30:00"
    assert facts["captured_at"] is None, "no offset, no moment"
    assert facts["has_position"] is True
    assert facts["position"]["latitude"] == pytest.approx(-33.8598333)
    assert (facts["texts"]["title"], facts["texts"]["creator"]) == ("The gate", "Ana Müller")
    assert facts["places"] == {"city": "Berlin"}
    assert "P3" in facts["color_profile"]
    assert facts["damaged"] == []


@pytest.mark.parametrize(
    ("data", "content_type", "size", "bits"),
    [
        (picture("png", 30, 20), "image/png", (30, 20), 8),
        (picture("webp", 30, 20), "image/webp", (30, 20), 8),
        (picture("avif", 32, 24), "image/avif", (32, 24), 8),
        (picture("tiff", 30, 20), "image/tiff", (30, 20), 8),
        (picture("gif", 30, 20), "image/gif", (30, 20), 8),
        (HEIC_48x32, "image/heic", (48, 32), 8),
        (SIXTEEN_BITS.pngsave_buffer(bitdepth=16), "image/png", (8, 8), 16),
    ],
)
async def test_pictures(
    describe: Any, data: bytes, content_type: str, size: tuple[int, int], bits: int
) -> None:
    facts = await describe(data)
    assert (facts["content_type"], (facts["width"], facts["height"])) == (content_type, size)
    assert (facts["bit_depth"], facts["has_position"], facts["damaged"]) == (bits, False, [])


async def test_a_profile_that_only_boxes_tell(describe: Any) -> None:
    assert "P3" in (await describe(HEIC_GREEN_P3))["color_profile"]


async def test_damaged_exif_costs_itself(describe: Any) -> None:
    image = pyvips.Image.black(8, 8, bands=3).copy(interpretation="srgb")
    image.set_type(pyvips.GValue.blob_type, "xmp-data", b"<x:xmpmeta><broken")
    facts = await describe(image.jpegsave_buffer())
    assert (facts["width"], facts["damaged"]) == (8, ["xmp"])


def test_what_is_neither_is_refused_in_fitting_words() -> None:
    def look(data: bytes) -> bool:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            return is_image(file.fileno())

    assert look(picture("png")) is True
    assert look(clip(None, container="wav", sound=Sound(codec="pcm_s16le"))) is False
    with pytest.raises(ImageError, match="PDF"):
        look(b"%PDF-1.7")
    with pytest.raises(ImageError, match="RAW"):
        look(b"FUJIFILMCCD-RAW " + bytes(100))
    with pytest.raises(VideoError, match="MP4"):
        look(b"just a text")
    with pytest.raises((ImageError, VideoError)) as caught:
        look(b"")
    assert getattr(caught.value, "code", "") == "empty_file"
