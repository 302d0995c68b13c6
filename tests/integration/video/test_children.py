"""Children that decode videos: they know no secrets, write no more than they may, and outlive nobody."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lingxi.video.children import VideoChildren, VideoConfig
from lingxi.video.errors import VideoError
from tests.support.clips import clip
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
CLIP = clip(seconds=0.4)


def of_parent(parent: int) -> list[int]:
    """Living children that decode videos."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            command = (folder / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if fields[1] == str(parent) and fields[0] != "Z" and b"lingxi.video.child" in command:
            found.append(int(folder.name))
    return found


async def test_a_result_that_is_too_large_is_refused(tmp_path: Path) -> None:
    videos = VideoChildren(VideoConfig(threads=1, output_limit_bytes=1000))
    with tempfile.TemporaryFile() as file:
        file.write(CLIP)
        file.flush()
        with pytest.raises(VideoError) as caught:
            await videos.transcode(file.fileno(), tmp_path, lambda done, total: None)
    assert caught.value.code == "too_large"
    assert list(tmp_path.iterdir()) == []
    await videos.close()


async def test_one_that_needs_too_much_memory_costs_itself_alone(tmp_path: Path) -> None:
    large = clip(seconds=0.2, size=(2560, 1440))
    for megabytes, data, code in ((300, large, "decoder_crashed"), (300, CLIP, None), (1000, large, None)):
        videos = VideoChildren(VideoConfig(threads=2, memory_limit_bytes=megabytes << 20))
        with tempfile.TemporaryFile() as file, tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            file.write(data)
            file.flush()
            try:
                await videos.transcode(file.fileno(), Path(folder), lambda done, total: None)
                ended = None
            except VideoError as error:
                ended = error.code
        await videos.close()
        assert ended == code, (megabytes, len(data))


async def test_it_knows_no_secrets_and_dies_when_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINGXI_SECRET_KEY", "not for a process that parses hostile bytes")
    videos = VideoChildren(VideoConfig(threads=1))
    with tempfile.TemporaryFile() as file:
        file.write(CLIP)
        file.flush()
        work = asyncio.create_task(videos.transcode(file.fileno(), tmp_path, lambda done, total: None))
        pids: list[int] = await wait_until(lambda: of_parent(os.getpid()), 20)
        os.kill(pids[0], signal.SIGSTOP)
        assert b"LINGXI" not in Path(f"/proc/{pids[0]}/environ").read_bytes()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    await wait_until(lambda: not of_parent(os.getpid()), 10)
    assert list(tmp_path.iterdir()) == []
    await videos.close()


_PARENT = """
import asyncio, pathlib, sys
from lingxi.video.children import VideoChildren
async def main():
    with open(sys.argv[1], "rb") as file:
        await VideoChildren().transcode(file.fileno(), pathlib.Path(sys.argv[2]), lambda done, total: None)
asyncio.run(main())
"""


async def test_no_child_outlives_a_parent_that_was_killed(tmp_path: Path) -> None:
    source = tmp_path / "in.mp4"
    source.write_bytes(clip(seconds=2.0, size=(320, 240)))
    (tmp_path / "out").mkdir()
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(source), str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    pids: list[int] = await wait_until(lambda: of_parent(parent.pid), 30)
    parent.kill()
    parent.wait()
    await wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 20)
