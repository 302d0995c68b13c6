"""Cut, damaged, hostile and foreign files: a code and a sentence each, and what can be read where that was asked for."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from lingxi.video import limits
from lingxi.video.errors import VideoError
from tests.integration.video.conftest import Poster, Probe, Transcode, assert_upright
from tests.support.clips import Sound, clip
from tests.support.pictures import picture

CLIP: dict[str, Any] = {"seconds": 2.0, "size": (160, 120), "options": {"preset": "ultrafast", "g": "10"}}


async def _refused(work: Any) -> VideoError:
    with pytest.raises(VideoError) as caught:
        await work
    return caught.value


# ── cut files ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["index first", "fragmented", "matroska", "avi", "mpegts", "mpeg", "flv"])
async def half(request: pytest.FixtureRequest, transcode: Transcode) -> bytes:
    """The first half of a video of two seconds."""
    match request.param:
        case "index first":
            whole = (await transcode(clip(**CLIP, sound=Sound()))).data
        case "fragmented":
            whole = clip(**CLIP, mux={"movflags": "frag_keyframe+empty_moov"})
        case "mpegts" | "flv" as container:
            whole = clip(**CLIP, container=container, sound=Sound())
            return whole[: len(whole) // 376 * 188 + 100]  # between two packets nothing tells
        case "mpeg":
            whole = clip("mpeg2video", container="mpeg", seconds=2.0, sound=Sound(codec="mp2"))
            return whole[: len(whole) // 8192 * 2048 + 1000]  # packs are of 2 kB
        case "avi":
            whole = clip("mpeg4", container="avi", seconds=2.0)
            return whole[: len(whole) * 3 // 4]  # its head is a third
        case _:
            whole = clip(**CLIP, container="matroska", sound=Sound(codec="libopus"))
    return whole[: len(whole) // 2]


async def test_a_cut_file_says_how_far_it_could_be_read(transcode: Transcode, half: bytes) -> None:
    error = await _refused(transcode(half))
    assert error.code == "truncated_video"
    seconds = float(error.detail.split("up to ")[1].split(" seconds")[0])
    assert 0.3 < seconds < 1.8


async def test_what_can_be_read_is_made_when_asked(transcode: Transcode, half: bytes) -> None:
    made = await transcode(half, allow_truncated=True)
    ended = made.facts["truncated_at_seconds"]
    assert 0.3 < ended < 1.8
    assert made.seen.times[-1] == pytest.approx(ended, abs=0.1)
    assert_upright(made.seen)


async def test_a_file_without_its_index_cannot_be_read_at_all(transcode: Transcode) -> None:
    whole = clip(**CLIP)
    error = await _refused(transcode(whole[: len(whole) // 2], allow_truncated=True))
    assert (error.code, "0 seconds" in error.detail) == ("truncated_video", True)


async def test_a_stream_shorter_than_it_says_is_cut_too(transcode: Transcode) -> None:
    """Its boxes are whole and its frames end early: as of a camera that fell, or a copy that was mended."""
    data = clip(seconds=1.0, container="matroska")
    at = data.index(b"\x44\x89\x88") + 3
    longer = data[:at] + struct.pack(">d", 4 * struct.unpack(">d", data[at : at + 8])[0]) + data[at + 8 :]
    error = await _refused(transcode(longer))
    assert error.code == "truncated_video"
    assert "up to 1.0 seconds" in error.detail


async def test_a_picture_shorter_than_the_sound_is_whole(transcode: Transcode) -> None:
    for container in ("mp4", "matroska"):
        made = await transcode(clip(seconds=1.0, sound=Sound(seconds=3.0), container=container))
        assert made.facts["truncated_at_seconds"] is None


# ── damaged and foreign files ────────────────────────────────────────────────────────────────────────────


async def test_a_few_damaged_packets_are_left_out(transcode: Transcode) -> None:
    data = bytearray(clip(**CLIP, container="matroska"))
    middle = len(data) // 2
    data[middle : middle + 40] = random.Random(3).randbytes(40)
    made = await transcode(bytes(data))
    assert made.facts["frames"] > 30
    assert_upright(made.seen)


async def test_no_frame_at_all_is_corrupt(transcode: Transcode, poster: Poster) -> None:
    data = bytearray(clip("libvpx-vp9", container="webm"))
    start = data.index(b"\x1f\x43\xb6\x75") + 20
    for at in range(start, len(data) - 200):
        data[at] ^= 0x5A
    for work in (transcode(bytes(data)), poster(bytes(data))):
        assert (await _refused(work)).code == "corrupt_video"


async def test_a_stream_without_pictures_is_corrupt(transcode: Transcode) -> None:
    error = await _refused(transcode(clip(times=[], sound=Sound(), container="matroska")))
    assert error.code == "corrupt_video"


FOREIGN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty_file"),
    "text": (b"this is a text, and a long one" * 50, "unsupported_type"),
    "photo": (picture("jpeg"), "unsupported_type"),
    "avif": (picture("avif"), "unsupported_type"),
    "playlist": (b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n", "unsupported_type"),
    "concat": (b"ffconcat version 1.0\nfile /etc/passwd\n", "unsupported_type"),
    "archive": (b"PK\x03\x04" + bytes(500), "unsupported_type"),
    "junk in a box": (b"\0\0\0\x18ftypisom" + random.Random(1).randbytes(900), "corrupt_video"),
    "sound alone": (clip(None, sound=Sound()), "unsupported_type"),
}


@pytest.mark.parametrize("name", FOREIGN)
async def test_what_is_no_video_is_refused(transcode: Transcode, name: str) -> None:
    data, code = FOREIGN[name]
    error = await _refused(transcode(data))
    assert error.code == code
    assert error.detail.endswith((".", ")."))


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("limit", "value", "code"),
    [
        ("MAX_PIXELS", 100, "too_many_pixels"),
        ("MAX_SECONDS", 0.5, "too_long"),
        ("MAX_STREAMS", 1, "too_many_streams"),
        ("MAX_FILE_BYTES", 1000, "too_large"),
    ],
)
async def test_limits(
    transcode: Transcode, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, code: str
) -> None:
    monkeypatch.setattr(limits, limit, value)
    assert (await _refused(transcode(clip(sound=Sound())))).code == code


async def test_a_video_that_lies_about_its_length_ends_at_the_limit(
    transcode: Transcode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_SECONDS", 0.5)
    stream = clip(container="mpegts")[: 188 * 60]  # so short that it can only be guessed
    live = clip(container="matroska", mux={"live": "1"})  # says nothing
    codes = {(await _refused(transcode(data))).code for data in (live, stream)}
    assert codes <= {"too_long", "truncated_video"}
    assert "too_long" in codes


@pytest.mark.parametrize("seed", range(12))
async def test_random_damage_is_survived(transcode: Transcode, probe: Probe, seed: int) -> None:
    chance = random.Random(seed)
    source = [clip(sound=Sound()), clip("libvpx-vp9", container="webm"), clip("libx265")][seed % 3]
    data = bytearray(source)
    for _ in range(chance.randrange(1, 60)):
        data[chance.randrange(40, len(data))] = chance.randrange(256)
    codes = set()
    for look in (transcode, probe):
        try:
            await look(bytes(data))
        except VideoError as error:
            codes.add(error.code)
    assert codes <= {
        "corrupt_video",
        "truncated_video",
        "unsupported_type",
        "too_many_pixels",
        "too_long",
        "too_many_streams",
    }
