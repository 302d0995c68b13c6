"""The three processors on a bench: objects in, objects and typed results out; crashed, stopped and frozen on the way."""

from __future__ import annotations

import hashlib
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pyvips

from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.processors.contract import StopReason
from lingxi.processors.media_probe import MediaProbe
from lingxi.processors.video_poster import VideoPoster
from lingxi.processors.video_transcode import VideoTranscode
from lingxi.testing import Bench, open_bench
from lingxi.testing.ran import Said
from lingxi.video.children import VideoChildren, VideoConfig
from tests.support.clips import Sound, clip, seen
from tests.support.pictures import picture
from tests.support.servers import Servers
from tests.support.waiting import wait_until_sync
from tests.unit.imaging.test_exif import GPS, exif

CONFIG = VideoConfig(threads=1, stall_limit_seconds=60.0)
CLIP = clip(sound=Sound(), rotation=(270.0, False, False))


@pytest.fixture(scope="module")
def bench(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with open_bench(tmp_path_factory.mktemp("bench"), database_url=servers.database_url) as opened:
        opened.put("clip.mov", CLIP)
        opened.put("long.mp4", clip(seconds=2.0, size=(320, 240)))
        opened.put("cut.mp4", CLIP[: len(CLIP) // 2])
        opened.put("text.mp4", b"this is no video, whatever its name says" * 10)
        opened.put("photo.jpg", picture("jpeg", 300, 200, orientation=6))
        yield opened


def transcode(**config: Any) -> Any:
    return VideoTranscode(VideoChildren(VideoConfig(threads=1, **config))).processor()


def poster() -> Any:
    return VideoPoster(VideoChildren(CONFIG)).processor()


def probe() -> Any:
    return MediaProbe(Decoders(DecoderConfig(children=1)), VideoChildren(CONFIG)).processor()


def made(bench: Bench, told: dict[str, Any]) -> bytes:
    """The bytes of an object that a result tells of, which have to be what it says."""
    data = bench.get(told["object"])
    assert data is not None
    assert (len(data), hashlib.sha256(data).hexdigest()) == (told["sizeBytes"], told["sha256"])
    rows = bench.fetch("select content_type from objects where name = $1", told["object"])
    assert rows[0]["content_type"] == told["contentType"]
    return data


# ── what they make ───────────────────────────────────────────────────────────────────────────────────────


def test_a_video_is_transcoded(bench: Bench) -> None:
    ran = bench.run(transcode(), {"object": "clip.mov", "resolution": 480})
    assert ran.state == "succeeded", ran.item
    video = ran.result.pop("video")
    assert (video["object"], video["contentType"]) == ("clip.mov.web.mp4", "video/mp4")
    assert seen(made(bench, video)).size == (video["width"], video["height"]) == (120, 160)
    assert ran.result == {
        "durationSeconds": pytest.approx(1.0, abs=0.05),
        "frames": 25,
        "rotation": 90,
        "toneMapped": False,
        "audioChannels": 2,
        "damagedPackets": 0,
        "truncatedAtSeconds": None,
    }
    assert ran.progress[-1].note == "milliseconds of the video"
    assert 0 < ran.progress[-1].done <= (ran.progress[-1].total or 0)
    assert bench.scratch_left() == []


def test_a_poster_and_a_preview_are_made(bench: Bench) -> None:
    ran = bench.run(poster(), {"object": "clip.mov", "poster": "p/één.jpg"})
    assert ran.state == "succeeded", ran.item
    image, preview = ran.result["poster"], ran.result["preview"]
    assert (image["object"], image["contentType"]) == ("p/één.jpg", "image/jpeg")
    assert made(bench, image).startswith(b"\xff\xd8\xff")
    assert (preview["object"], preview["contentType"]) == ("clip.mov.preview.mp4", "video/mp4")
    assert seen(made(bench, preview)).sound is None
    assert preview["durationSeconds"] == pytest.approx(1.0, abs=0.05)
    assert ran.result["rotation"] == 90
    assert ran.result["isPoor"] is False
    without = bench.run(poster(), {"object": "clip.mov", "poster": "p/2.jpg", "previewSeconds": 0.0})
    assert without.result["preview"] is None


def test_the_same_again_is_the_same_object(bench: Bench) -> None:
    given = {"object": "clip.mov", "output": "same.mp4"}
    first, second = bench.run(transcode(), given), bench.run(transcode(), given)
    assert first.result == second.result
    assert len(bench.fetch("select from objects where name = 'same.mp4'")) == 1
    other = bench.run(transcode(), {**given, "quality": 32})
    assert (other.state, other.code) == ("failed", "object_exists")
    assert made(bench, first.result["video"])


def test_probe_tells_videos_and_pictures_by_their_content(bench: Bench) -> None:
    video = bench.run(probe(), {"object": "clip.mov"}).result
    assert (video["kind"], video["contentType"]) == ("video", "video/mp4")
    assert (video["width"], video["height"], video["video"][0]["rotation"]) == (120, 160, 90)
    assert video["audio"][0]["channels"] == 2
    photo = bench.run(probe(), {"object": "photo.jpg"}).result
    assert (photo["kind"], photo["width"], photo["height"]) == ("image", 200, 300)
    assert photo["sha256"] == hashlib.sha256(bench.get("photo.jpg") or b"").hexdigest()


def test_where_it_was_taken_is_told_only_when_asked(bench: Bench) -> None:
    image = pyvips.Image.black(8, 8, bands=3).copy(interpretation="srgb")
    image.set_type(pyvips.GValue.blob_type, "exif-data", b"Exif\0\0" + exif(main=[], gps=GPS))
    bench.put("here.jpg", image.jpegsave_buffer())
    bench.put("here.mp4", clip(seconds=0.2, metadata={"location": "+52.5200+013.4050/"}))
    for name, latitude in (("here.jpg", -33.86), ("here.mp4", 52.52)):
        silent = bench.run(probe(), {"object": name}).result
        assert (silent["hasPosition"], silent["position"], silent["places"]) == (True, None, None)
        told = bench.run(probe(), {"object": name, "position": True}).result
        assert told["position"]["latitude"] == pytest.approx(latitude, abs=0.01)


@pytest.mark.parametrize("name", ["transcode", "poster", "probe"])
def test_codes(bench: Bench, name: str) -> None:
    processor = {"transcode": transcode, "poster": poster, "probe": probe}[name]()
    assert bench.run(processor, {"object": "nothing"}).code == "object_not_found"
    ran = bench.run(processor, {"object": "text.mp4"})
    assert (ran.state, ran.code, ran.outcomes) == ("failed", "unsupported_type", ["failed"])
    cut = bench.run(processor, {"object": "cut.mp4"})
    assert (cut.code, cut.outcomes) == ("truncated_video", ["failed"])
    assert "0 seconds" in (cut.message or "")


def test_an_object_of_another_workspace_does_not_exist(bench: Bench) -> None:
    other = uuid.uuid4()
    bench.fetch("insert into workspaces (id, name) values ($1, 'other')", other)
    bench.put("theirs.mp4", CLIP)
    bench.fetch("update objects set workspace_id = $1 where name = 'theirs.mp4'", other)
    for processor in (transcode(), poster(), probe()):
        assert bench.run(processor, {"object": "theirs.mp4"}).code == "object_not_found"


@pytest.mark.parametrize(
    ("processor", "given", "field"),
    [
        (transcode, {"object": "a", "output": "a"}, "another name"),
        (transcode, {"object": "a", "resolution": 2160}, "resolution"),
        (transcode, {"object": "x" * 250}, "too long"),
        (poster, {"object": "a", "poster": "b", "preview": "b"}, "names that differ"),
        (poster, {"object": "a", "previewSeconds": 6.0}, "previewSeconds"),
        (probe, {"object": "../a"}, "object"),
    ],
)
def test_bad_inputs_are_refused_at_submit(
    bench: Bench, processor: Callable[[], Any], given: dict[str, Any], field: str
) -> None:
    with pytest.raises(ValueError, match=field):
        bench.run(processor(), given)


# ── what befalls them ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "point"),
    [("transcode", "before_commit"), ("transcode", "after_commit"), ("poster", "before_commit")],
)
def test_whatever_point_it_crashes_at_the_objects_are_there_once(bench: Bench, name: str, point: str) -> None:
    processor = transcode() if name == "transcode" else poster()
    names = (
        {"output": f"{point}.mp4"}
        if name == "transcode"
        else {"poster": f"{point}.jpg", "preview": f"{point}.p.mp4"}
    )
    ran = bench.crash(processor, {"object": "clip.mov", **names}, at=point)
    assert ran.state == "succeeded"
    assert ran.outcomes == (["succeeded"] if point == "after_commit" else ["lost", "succeeded"])
    for one in names.values():
        assert len(bench.fetch("select from objects where name = $1", one)) == 1
        assert bench.get(one)
    assert bench.scratch_left() == []


class Freeze:
    """At the first word of progress the child is frozen, so that it ends by itself never, and `then` is done."""

    def __init__(self, then: Callable[[], None], *, times: int = 1) -> None:
        self._then, self._left = then, times
        self.frozen: list[int] = []

    def __call__(self, said: Said) -> None:
        if self._left:
            self._left -= 1
            (pid,) = children()
            self.frozen.append(pid)
            os.kill(pid, signal.SIGSTOP)
            self._then()


def children() -> list[int]:
    """Living ones of ours that decode videos."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            command = (folder / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if fields[1] == str(os.getpid()) and fields[0] != "Z" and b"lingxi.video.child" in command:
            found.append(int(folder.name))
    return found


@pytest.mark.parametrize("reason", [StopReason.SHUTDOWN, StopReason.LEASE_LOST, "deadline"])
def test_a_stop_ends_it_at_once(bench: Bench, reason: StopReason | str) -> None:
    """A frozen child cannot end: that the attempt does means that it was killed."""

    def stop() -> None:
        if isinstance(reason, StopReason):
            bench.stop(reason)
        else:
            bench.clock.advance(100_000)

    freeze = Freeze(stop)
    name = f"stopped-{reason}.mp4"
    ran = bench.run(
        transcode(), {"object": "long.mp4", "output": name, "resolution": 480}, on_progress=freeze
    )
    assert freeze.frozen
    assert not set(freeze.frozen) & set(children())
    assert (ran.state, len(ran.outcomes)) == ("succeeded", 2)
    assert ran.outcomes[0] == ("retrying" if reason == "deadline" else "released")
    assert len(bench.fetch("select from objects where name = $1", name)) == 1
    assert bench.scratch_left() == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, "decoder_crashed"), (signal.SIGSTOP, "decode_timeout")]
)
def test_a_child_that_dies_or_stands_still(bench: Bench, number: signal.Signals, code: str) -> None:
    def hit(_: Said) -> None:
        for pid in children():
            os.kill(pid, number)

    given = {"object": "long.mp4", "output": f"{code}.mp4"}
    ran = bench.run(transcode(stall_limit_seconds=1.0), given, on_progress=hit)
    assert (ran.state, ran.code) == ("failed", code)
    assert ran.outcomes == ["retrying", "retrying", "failed"]
    assert bench.get(f"{code}.mp4") is None
    wait_until_sync(lambda: not children(), message="no child is left")
