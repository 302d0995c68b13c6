"""Each benchmark runs to its end at a small size and ends with the JSON line that was agreed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import need_program

ROOT = Path(__file__).parents[3]


def run_quick(name: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name, "--quick", "--json"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    body: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert body["bench"] == name
    assert all(claim["holds"] for claim in body["claims"])
    return body


def test_submit() -> None:
    body = run_quick("submit")
    assert body["lingxi"]["milliseconds"]["runs"] == 5
    assert set(body["ratios"]) == set(body["peers"]) == {"insert-with-key", "insert-no-key"}


@pytest.mark.slow
def test_sse() -> None:
    body = run_quick("sse")
    assert body["lingxi"]["20-on-5"]["p99Milliseconds"]["median"] > 0
    assert set(body["lingxi"]["statements"]) == {"2", "20"}


@pytest.mark.slow
def test_live() -> None:
    body = run_quick("live")
    assert body["lingxi"]["idle"]["uploads"] == body["lingxi"]["reprocess"]["uploads"] == 4
    assert {"stored", "started", "committed", "firstFrame"} <= set(body["lingxi"]["stagesMilliseconds"])


@pytest.mark.slow
def test_video_beside_ffmpeg() -> None:
    """Both sides make the same file, as near as two versions of x264 do."""
    need_program("ffmpeg", "as the peer of the benchmark")
    body = run_quick("video")
    assert set(body["peers"]) == {"ffmpeg"}
    assert body["lingxi"]["360p30 to 360p"]["peakMegabytes"]["median"] > 0


@pytest.mark.slow
def test_archive_beside_zip() -> None:
    """Both archives hold the same files, and ours is made in bounded memory."""
    need_program("zip", "as the peer of the benchmark")
    body = run_quick("archive")
    assert set(body["peers"]) == {"zip -0"}
    assert 0 < body["lingxi"]["sparse"]["peakMegabytes"] < 200


@pytest.mark.slow
def test_sweep() -> None:
    assert run_quick("sweep")["lingxi"]["items"] == 20_000


@pytest.mark.slow
def test_recovery() -> None:
    body = run_quick("recovery")["lingxi"]
    assert 0 < body["lostAfterSeconds"]["max"] <= body["firstRunsAgainAfterSeconds"]["max"]


@pytest.mark.slow
def test_growth() -> None:
    assert run_quick("growth")["ratios"]["lingxi-empty"] > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_photos_beside_sharp() -> None:
    """Both sides make the same sizes and the same pictures."""
    body = run_quick("photos")
    assert {"camera", "phone", "p3", "png"} <= set(body["lingxi"])
    assert body["peers"]["sharp"]["camera"]["compared"]["maxHashDistance"] <= 6
    assert len(body["claims"]) == 4


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_items_beside_its_peers() -> None:
    body = run_quick("items")
    assert set(body["ratios"]) == {"procrastinate", "celery", "pgqueuer-10", "pgqueuer-100"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_photo_memory() -> None:
    body = run_quick("photo-memory")
    assert body["lingxi"]["photos"] == 40
    assert body["lingxi"]["decoderMegabytes"]["max"] < 250
