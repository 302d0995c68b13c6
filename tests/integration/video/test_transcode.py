"""Whatever a camera, a phone or an editor writes becomes an MP4 that every browser plays."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lingxi.video.errors import VideoError
from tests.integration.video.conftest import Poster, Transcode, assert_colour, assert_upright
from tests.support.clips import CORNERS, Sound, clip, seen, top_level_boxes

STEREO = Sound()
SOURCES: dict[str, dict[str, Any]] = {
    "h264 in mov": {"container": "mov", "sound": STEREO},
    "hevc": {"codec": "libx265", "sound": STEREO},
    "vp9 in webm": {"codec": "libvpx-vp9", "container": "webm", "sound": Sound(codec="libopus")},
    "h264 in mkv": {"container": "matroska", "sound": Sound(codec="ac3", layout="5.1(side)")},
    "av1": {"codec": "libsvtav1"},
    "fragmented": {"mux": {"movflags": "frag_keyframe+empty_moov+default_base_moof"}, "sound": STEREO},
    "mpeg4 in avi": {"codec": "mpeg4", "container": "avi", "sound": Sound(codec="libmp3lame")},
    "h264 in ts": {"container": "mpegts", "sound": STEREO},
    "4:4:4": {"pix_fmt": "yuv444p"},
    "rgb": {"codec": "libx264rgb", "pix_fmt": "rgb24"},
    "full range": {"pix_fmt": "yuvj420p"},
    "ten bits": {"pix_fmt": "yuv420p10le", "codec": "libx265"},
}


@pytest.mark.parametrize("name", SOURCES)
async def test_every_kind_becomes_a_web_ready_mp4(transcode: Transcode, name: str) -> None:
    source = clip(**SOURCES[name])
    made = await transcode(source)
    video = made.seen
    times = seen(source).times  # a muxer may have moved the first frames
    assert video.codecs[0] == "h264"
    assert video.codecs[1:] == (("aac",) if "sound" in SOURCES[name] else ())
    assert video.pix_fmt == "yuv420p"
    assert top_level_boxes(made.data)[:2] == ["ftyp", "moov"]
    assert (video.size, len(video.times), video.rotation) == ((160, 120), 25, 0)
    assert video.times == pytest.approx([time - times[0] for time in times], abs=0.002)
    assert made.facts["frames"] == 25
    assert made.facts["duration_seconds"] == pytest.approx(1.0, abs=0.05)
    assert_upright(video, 12)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
async def test_rotation_is_applied_to_the_pixels(transcode: Transcode, degrees: int, mirrored: bool) -> None:
    stored = clip(seconds=0.2, rotation=(degrees, mirrored, False))
    made = await transcode(stored)
    width, height = (120, 160) if degrees in (90, 270) else (160, 120)
    assert (made.seen.size, made.seen.rotation) == ((width, height), 0)
    for (x, y), colour in CORNERS.items():
        assert_colour(made.seen.colour(*_turned(x, y, degrees, mirrored)), colour)


def _turned(x: float, y: float, degrees: int, mirrored: bool) -> tuple[float, float]:
    """Where a place of the stored picture is shown: turned anticlockwise and then mirrored."""
    for _ in range(degrees // 90):
        x, y = y, 1 - x
    return (1 - x if mirrored else x), y


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        ((161, 121), (160, 120)),
        ((16, 16), (16, 16)),
        ((2, 2), (2, 2)),
        ((1, 1), (2, 2)),
        ((90, 160), (90, 160)),
    ],
)
async def test_odd_tiny_and_upright_sizes(
    transcode: Transcode, size: tuple[int, int], shown: tuple[int, int]
) -> None:
    made = await transcode(clip("ffv1", container="matroska", size=size, seconds=0.2, pix_fmt="yuv444p"))
    assert made.seen.size == shown


@pytest.mark.parametrize(
    ("size", "short_edge", "shown"),
    [((2560, 1440), 1080, (1920, 1080)), ((400, 1200), 480, (284, 852)), ((1080, 1920), 480, (480, 852))],
)
async def test_it_is_made_to_fit(
    transcode: Transcode, size: tuple[int, int], short_edge: int, shown: tuple[int, int]
) -> None:
    made = await transcode(clip(size=size, seconds=0.12), short_edge=short_edge)
    assert made.seen.size == shown
    assert_upright(made.seen)


async def test_pixels_become_square(transcode: Transcode) -> None:
    made = await transcode(clip(size=(120, 96), aspect=Fraction(4, 3), seconds=0.2))
    assert made.seen.size == (160, 96)
    assert made.seen.aspect in (None, 0, 1)


async def test_a_variable_rate_keeps_its_times(transcode: Transcode) -> None:
    times = [0.0, 0.01, 0.02, 0.5, 0.533, 0.566, 1.2, 1.21, 1.5]
    for source in (clip(times=times), clip(times=times, container="matroska")):
        made = await transcode(source)
        assert made.seen.times == pytest.approx(times, abs=0.002)
        assert_upright(made.seen, 4)


async def test_the_last_frame_is_shown_for_as_long_as_the_source_says(transcode: Transcode) -> None:
    made = await transcode(
        clip(times=[0.0, 0.1, 0.2, 0.9], options={"preset": "veryfast"}, container="matroska")
    )
    assert made.facts["duration_seconds"] == pytest.approx(0.94, abs=0.001), (
        "not for as long as the one before"
    )
    header = made.data.index(b"mvhd")
    assert int.from_bytes(made.data[header + 20 : header + 24]) == 940, "milliseconds, for players"


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
async def test_a_file_without_times_keeps_every_frame(
    transcode: Transcode, poster: Poster, codec: str
) -> None:
    source = clip(
        codec,
        container="avi",
        options={"bf": "2", "preset": "veryfast"} if codec == "libx264" else {"bf": "2"},
    )
    made = await transcode(source, threads=2)
    assert made.seen.times == pytest.approx([index / 25 for index in range(25)], abs=0.001)
    assert made.facts["duration_seconds"] == pytest.approx(1.0, abs=0.001)
    facts, _, _ = await poster(source)
    assert facts["preview"]["frames"] == 25


@pytest.mark.parametrize("container", ["matroska", "webm", "flv", "mpegts"])
async def test_a_recording_that_begins_at_ten_seconds_is_whole(transcode: Transcode, container: str) -> None:
    codec = "libvpx-vp9" if container == "webm" else "libx264"
    made = await transcode(clip(codec, container=container, times=[10 + index / 25 for index in range(25)]))
    assert made.seen.times == pytest.approx([index / 25 for index in range(25)], abs=0.002)
    assert made.progress[-1][1] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("container", ["mp4", "avi"])
async def test_one_frame_alone(transcode: Transcode, container: str) -> None:
    made = await transcode(clip(times=[0.0], container=container))
    assert (len(made.seen.times), made.facts["frames"]) == (1, 1)
    assert made.seen.seconds > 0


# ── sound ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sound", "channels"),
    [(Sound("5.1"), 2), (Sound("mono"), 1), (Sound("stereo", rate=22_050), 2)],
)
async def test_sound_has_two_channels_at_most(transcode: Transcode, sound: Sound, channels: int) -> None:
    made = await transcode(clip(sound=sound, flash_at=0.4))
    assert made.facts["audio_channels"] == channels
    assert made.seen.sound is not None
    assert made.seen.sound.shape[0] == channels
    assert np.abs(made.seen.sound).max() > 0.25


B_FRAMES: dict[str, Any] = {"options": {"preset": "veryfast", "bf": "2"}}
STEPS: dict[str, dict[str, Any]] = {
    "together": {},
    "sound begins later": {"sound": Sound(start=0.3)},
    "opus": {"container": "webm", "codec": "libvpx-vp9", "sound": Sound(codec="libopus")},
    "transport stream": {"container": "mpegts"},
    "variable rate": {"times": [0.0, 0.1, 0.2, 0.25, 0.6, 0.62, 0.7, 0.9]},
    "other clock": {"sound": Sound(rate=44_100)},
    "picture begins later": {"times": [0.2 + index / 25 for index in range(20)]},
    "no times in the file": {**B_FRAMES, "container": "avi", "sound": Sound(codec="libmp3lame")},
}


@pytest.mark.parametrize("name", STEPS)
async def test_sound_is_in_step_within_40_ms(transcode: Transcode, name: str) -> None:
    given = {"sound": STEREO, "flash_at": 0.6, **STEPS[name]}
    video = (await transcode(clip(**given))).seen
    assert abs(video.flash_time() - video.beep_time()) < 0.040
    assert video.sound_start < 0.03, "silence comes first: players that know no edit lists are in step too"


async def test_a_recording_whose_sound_and_size_change_goes_on_in_step(transcode: Transcode) -> None:
    """As of television: one program after the other, and where they meet both have sound."""
    before = clip(container="mpegts", sound=Sound("mono"))
    later = {"times": [1 + index / 25 for index in range(25)], "sound": Sound(start=1.0, seconds=2.0)}
    after = clip(container="mpegts", size=(320, 240), flash_at=1.4, **later)
    video = (await transcode(before + after)).seen
    assert (len(video.times), video.size) == (50, (160, 120))
    assert abs(video.flash_time() - video.beep_time()) < 0.040
    assert video.sound is not None
    assert video.sound.shape[1] / 48_000 == pytest.approx(2.0, abs=0.06)


async def test_a_gap_in_the_sound_is_silence(transcode: Transcode) -> None:
    """Half of the packets are lost in the middle: what comes after them is still in step."""
    source = clip(container="matroska", sound=Sound(codec="pcm_s16le"), flash_at=0.7)
    made = await transcode(_without_some_sound(source))
    assert abs(made.seen.flash_time() - made.seen.beep_time()) < 0.040


def _without_some_sound(data: bytes) -> bytes:
    import io

    import av

    out = io.BytesIO()
    with av.open(io.BytesIO(data), "r") as source, av.open(out, "w", format="matroska") as target:
        streams = {one.index: target.add_stream_from_template(one) for one in source.streams}
        for packet in source.demux():
            lost = packet.stream.type == "audio" and 0.2 < float((packet.pts or 0) * packet.time_base) < 0.5
            if packet.dts is not None and not lost:
                packet.stream = streams[packet.stream.index]
                target.mux(packet)
    return out.getvalue()


# ── colours ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("transfer", [16, 18])
async def test_hdr_becomes_sdr(transcode: Transcode, transfer: int) -> None:
    source = clip("libx265", pix_fmt="yuv420p10le", colours=(transfer, 9, 9), seconds=0.2)
    made = await transcode(source)
    assert made.facts["tone_mapped"] is True
    assert made.seen.colours == (1, 1, 1, 1), "transfer, primaries, matrix of BT.709, limited range"
    red, white = made.seen.colour(0.2, 0.2), made.seen.colour(0.8, 0.8)
    assert red[0] > 150 > 80 > red[1]
    assert min(white) > 225
    assert max(white) - min(white) < 12


async def test_sdr_keeps_its_matrix(transcode: Transcode) -> None:
    made = await transcode(clip(colours=(1, 1, 1), seconds=0.2))
    assert made.seen.colours == (1, 1, 1, 1)
    assert made.facts["tone_mapped"] is False


async def test_dolby_vision_alone_is_refused(transcode: Transcode) -> None:
    data = clip("libx265", seconds=0.2).replace(b"hev1", b"dvh1")
    with pytest.raises(VideoError) as caught:
        await transcode(data)
    assert caught.value.code == "hdr_unsupported"


async def test_nothing_of_the_metadata_is_kept(transcode: Transcode) -> None:
    """Where it was taken, by which phone: what is made is for everybody."""
    source = clip(seconds=0.2, metadata={"location": "+52.5200+013.4050/", "title": "at home"})
    words = (b"loci", b"at home")  # the box of the place, and a title
    assert all(word in source for word in words)
    made = await transcode(source)
    assert not any(word in made.data for word in (*words, b"\xa9xyz"))


# ── progress ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_progress_is_by_time(transcode: Transcode) -> None:
    made = await transcode(clip(size=(640, 480), seconds=2.0, rate=50))
    done = [one for one, _ in made.progress]
    assert len(done) >= 1
    assert done == sorted(done)
    assert all(total == pytest.approx(2.0, abs=0.1) for _, total in made.progress)
    assert 0 < done[-1] <= 2.05
