"""What bad and hostile photos cost: their own variants, bounded time and memory, and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pyvips

from lingxi.domain.errors import FOR_PHOTOGRAPHERS
from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.imaging.errors import ImageError
from lingxi.imaging.facts import MadePhoto
from tests.integration.imaging.conftest import Make
from tests.support.jpeg import with_segments
from tests.support.pictures import (
    HEIC_48x32,
    corners,
    cut,
    damaged,
    jpeg_declaring,
    picture,
    png_declaring,
    tiff_with,
)
from tests.support.waiting import wait_until

BAD = {
    "empty": (b"", "empty_file"),
    "text named as a photo": (b"1 1\n0\n", "unsupported_type"),
    "SVG": (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "unsupported_type"),
    "PDF": (b"%PDF-1.7\n" + picture(), "unsupported_type"),
    "RAW, DNG": (tiff_with({50706: (1, 1), 256: (3, 8)}), "unsupported_type"),
    "RAW, CR3": (b"\0\0\0\x18ftypcrx \0\0\0\x01crx isom" + bytes(64), "unsupported_type"),
    "JPEG XL": (b"\xff\x0a" + bytes(64), "unsupported_type"),
    "GIF that is a script": (b"GIF89a/*" + bytes(30) + b"*/=1;alert(1)", "corrupt_image"),
    "cut JPEG": (cut(picture("jpeg", 900, 600)), "truncated_image"),
    "JPEG cut near its end": (cut(picture("jpeg", 4032, 600), 0.99), "truncated_image"),
    "cut progressive JPEG": (cut(picture("jpeg", 900, 600, interlace=True)), "truncated_image"),
    "cut JPEG with an end marker": (cut(picture("jpeg", 4032, 600)) + b"\xff\xd9", "corrupt_image"),
    "cut PNG": (cut(picture("png", 900, 600)), "truncated_image"),
    "cut WebP": (cut(picture("webp", 900, 600)), "truncated_image"),
    "cut GIF": (cut(picture("gif", 300, 200)), "truncated_image"),
    "cut TIFF": (cut(picture("tiff", 900, 600)), "truncated_image"),
    "cut AVIF": (cut(picture("avif", 900, 600)), "truncated_image"),
    "cut HEIC": (cut(HEIC_48x32, 0.9), "truncated_image"),
    "damaged PNG": (damaged(picture("png", 200, 200)), "corrupt_image"),
    "PNG of 100,000 squared": (png_declaring(100_000, 100_000), "too_many_pixels"),
    "interlaced bomb": (png_declaring(11_000, 11_000, interlaced=True), "too_many_pixels"),
    "JPEG of 65,000 squared": (jpeg_declaring(65_000, 65_000), "too_many_pixels"),
    "progressive bomb": (jpeg_declaring(12_000, 10_000, progressive=True), "too_many_pixels"),
}


@pytest.fixture
async def room_for_one(request: pytest.FixtureRequest) -> AsyncIterator[Decoders]:
    """Two children and room for one picture, whatever its size; the parameter is the time limit."""
    config = DecoderConfig(children=2, decoded_bytes_at_once=1, time_limit_seconds=request.param)
    opened = Decoders(config)
    yield opened
    await opened.close()


@pytest.mark.parametrize("what", BAD)
async def test_it_is_refused_with_its_code(make: Make, decoders: Decoders, what: str) -> None:
    data, code = BAD[what]
    with pytest.raises(ImageError) as caught:
        await make(data)
    assert caught.value.code == code
    assert caught.value.detail.endswith(".")
    assert code in FOR_PHOTOGRAPHERS
    assert not decoders.deaths
    assert (await make(picture())).photo.width == 120


@pytest.mark.parametrize("what", ["PNG of 100,000 squared", "interlaced bomb", "progressive bomb"])
async def test_a_bomb_takes_no_memory(make: Make, what: str) -> None:
    await make(picture())
    with pytest.raises(ImageError):
        await make(BAD[what][0])
    (pid,) = _decoder_pids()
    assert _peak_bytes(pid) < 100 << 20


async def test_a_gif_of_ten_thousand_frames(make: Make) -> None:
    """Takes the time of one, and the memory of one."""
    frames = pyvips.Image.gaussnoise(8, 80_000, mean=128, seed=3).cast("uchar")
    strip = frames.bandjoin([frames, frames]).copy(interpretation="srgb").copy()
    strip.set_type(pyvips.GValue.gint_type, "page-height", 8)
    made = await make(strip.gifsave_buffer(effort=1, keep_duplicate_frames=True))
    assert made.sizes == ((8, 8),) * 3
    (pid,) = _decoder_pids()
    assert _peak_bytes(pid) < 100 << 20


async def test_a_large_photo_stays_small_in_memory(make: Make) -> None:
    """A JPEG of 100 million pixels (300 MB of them) is read line by line."""
    large = (pyvips.Image.black(10_000, 10_000, bands=3) + 128).cast("uchar").copy(interpretation="srgb")
    made = await make(large.jpegsave_buffer(Q=50))
    assert made.sizes == ((10_000, 10_000), (2048, 2048), (400, 400))
    (pid,) = _decoder_pids()
    assert _peak_bytes(pid) < 200 << 20


async def test_junk_between_segments_harms_nobody(make: Make) -> None:
    data = picture("jpeg", 4032, 600)
    made = await make(data[:2] + b"\xff\xfe\x00\x04hijunk" + data[2:])
    assert made.browse == (await make(data)).browse


async def test_exif_that_is_rubbish_harms_nobody(make: Make) -> None:
    rubbish = b"Exif\0\0II*\0\x08\0\0\0" + bytes(range(256)) * 20
    made = await make(with_segments(corners(120, 80).jpegsave_buffer(keep="none"), (0xE1, rubbish)))
    assert made.sizes[0] == (120, 80)
    assert made.photo.captured_at is None


@pytest.mark.parametrize("room_for_one", [60.0], indirect=True)
async def test_two_large_ones_never_meet(room_for_one: Decoders, tmp_path: Path) -> None:
    """While one is being decoded, the other's child has read its header and waits."""
    decoders = room_for_one
    first, pid = await _stopped_in_mid_decode(decoders, tmp_path)
    second = asyncio.create_task(_make(decoders, picture("png"), tmp_path / "second"))
    await wait_until(lambda: decoders.waiting_for_memory == 1)
    assert len(_decoder_pids()) == 2
    os.kill(pid, signal.SIGCONT)
    assert (await first).width == 6000
    assert (await second).width == 120
    assert decoders.waiting_for_memory == 0


@pytest.mark.parametrize("room_for_one", [2.0], indirect=True)
async def test_waiting_for_memory_is_not_held_against_a_photo(room_for_one: Decoders, tmp_path: Path) -> None:
    """It waits longer than its time limit, and is then decoded."""
    decoders = room_for_one
    async with decoders._admission.hold(1):
        photo = asyncio.create_task(_make(decoders, picture("png"), tmp_path / "photo"))
        await wait_until(lambda: decoders.waiting_for_memory == 1)
        over = time.monotonic() + 2.2
        await wait_until(lambda: time.monotonic() > over)
    assert (await photo).decoded_ms > 2200
    assert not decoders.deaths


@pytest.mark.parametrize("room_for_one", [3.0], indirect=True)
async def test_a_photo_that_never_ends_gives_its_room_back(room_for_one: Decoders, tmp_path: Path) -> None:
    decoders = room_for_one
    first, _ = await _stopped_in_mid_decode(decoders, tmp_path)
    second = asyncio.create_task(_make(decoders, picture("png"), tmp_path / "second"))
    with pytest.raises(ImageError) as caught:
        await first
    assert caught.value.code == "decode_timeout"
    assert (await second).width == 120
    assert decoders.deaths == {"decode_timeout": 1}


async def test_a_child_that_is_killed_leaves_no_variant_and_is_counted(
    decoders: Decoders, tmp_path: Path
) -> None:
    victim, pid = await _stopped_in_mid_decode(decoders, tmp_path)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ImageError, match="SIGKILL") as caught:
        await victim
    assert caught.value.code == "decoder_crashed"
    assert decoders.deaths == {"decoder_crashed": 1}
    assert list((tmp_path / "first").iterdir()) == []
    assert (await _make(decoders, picture("png"), tmp_path / "next")).width == 120


async def test_cancelling_leaves_no_variant_and_no_child(decoders: Decoders, tmp_path: Path) -> None:
    victim, pid = await _stopped_in_mid_decode(decoders, tmp_path)
    victim.cancel()
    with pytest.raises(asyncio.CancelledError):
        await victim
    assert list((tmp_path / "first").iterdir()) == []
    await wait_until(lambda: pid not in _decoder_pids())
    assert not decoders.deaths


async def _make(decoders: Decoders, data: bytes, folder: Path) -> MadePhoto:
    folder.mkdir()
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return await decoders.make_variants(file.fileno(), folder)


async def _stopped_in_mid_decode(decoders: Decoders, tmp_path: Path) -> tuple[asyncio.Task[MadePhoto], int]:
    """A photo that takes a while, and its child, stopped after it was let go on."""
    slow = pyvips.Image.black(6000, 6000, bands=4).copy(interpretation="srgb").cast("uchar")
    data = slow.pngsave_buffer(compression=1, interlace=True)
    task = asyncio.create_task(_make(decoders, data, tmp_path / "first"))
    (pid,) = await wait_until(_decoder_pids)
    await wait_until(lambda: _resident_bytes(pid) > 100 << 20)  # of its pixels
    os.kill(pid, signal.SIGSTOP)
    return task, pid


def _decoder_pids() -> list[int]:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in map(int, children) if b"lingxi.imaging.child" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _peak_bytes(pid: int) -> int:
    return _status_bytes(pid, "VmHWM")


def _resident_bytes(pid: int) -> int:
    return _status_bytes(pid, "VmRSS")


def _status_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0
