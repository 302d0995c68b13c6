"""Decoding in children: what comes out of good, bad and hostile files, and what a dying child costs."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.imaging.errors import ImageError
from lingxi.imaging.facts import ImageFacts
from lingxi.imaging.limits import MAX_FILE_BYTES
from tests.support.pictures import (
    FORMATS,
    HEIC_48x32,
    cut,
    damaged,
    jpeg_declaring,
    picture,
    png_declaring,
)
from tests.support.waiting import wait_until, wait_until_sync

SLOW_PIXELS = 9_000  # squared: takes a decoder seconds


@pytest.fixture
async def decoders() -> AsyncIterator[Decoders]:
    opened = Decoders(DecoderConfig(children=2))
    yield opened
    await opened.close()


@contextmanager
def file_of(data: bytes) -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.fileno()


async def inspect(decoders: Decoders, data: bytes) -> ImageFacts:
    with file_of(data) as descriptor:
        return await decoders.inspect(descriptor)


async def code_of(decoders: Decoders, data: bytes) -> str:
    with pytest.raises(ImageError) as caught:
        await inspect(decoders, data)
    assert str(caught.value.detail).endswith(".")
    return caught.value.code


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def decoder_pids() -> list[int]:
    """Living decoders among the children of this process (started by any of its threads)."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                line = (folder / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == os.getpid() and fields[0] != "Z" and b"lingxi.imaging.child" in line:
                found.append(int(folder.name))
    return found


@pytest.fixture(scope="module")
def slow_png() -> bytes:
    """Small as a file, slow to decode, within the limits."""
    return large_png(SLOW_PIXELS)


def large_png(side: int) -> bytes:
    import pyvips

    image = pyvips.Image.black(side, side, bands=4).copy(interpretation="srgb").cast("uchar")
    data: bytes = image.pngsave_buffer(compression=1, interlace=True)
    return data


# ── good pictures ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", FORMATS)
async def test_every_format_gives_its_type_and_size(decoders: Decoders, kind: str) -> None:
    facts = await inspect(decoders, picture(kind, 123, 77))
    assert (facts.content_type, facts.width, facts.height) == (f"image/{kind}", 123, 77)


@pytest.mark.parametrize("orientation", range(1, 9))
async def test_the_size_is_the_upright_one(decoders: Decoders, orientation: int) -> None:
    facts = await inspect(decoders, picture("jpeg", 120, 80, orientation=orientation))
    assert facts.orientation == orientation
    assert (facts.width, facts.height) == ((80, 120) if orientation >= 5 else (120, 80))


@pytest.mark.parametrize("kind", ["webp", "tiff", "png"])
async def test_other_formats_are_turned_too(decoders: Decoders, kind: str) -> None:
    facts = await inspect(decoders, picture(kind, 120, 80, orientation=6))
    assert (facts.width, facts.height, facts.orientation) == (80, 120, 6)


@pytest.mark.parametrize("orientation", [0, 9, 65535])
async def test_an_invalid_orientation_turns_nothing(decoders: Decoders, orientation: int) -> None:
    data = picture("jpeg", 120, 80, orientation=5)
    at = data.index(b"\x12\x01\x03\x00\x01\x00\x00\x00\x05\x00") + 8
    facts = await inspect(decoders, data[:at] + orientation.to_bytes(2, "little") + data[at + 2 :])
    assert (facts.width, facts.height, facts.orientation) == (120, 80, 1)


async def test_heic_turns_and_crops_itself(decoders: Decoders) -> None:
    """Its EXIF orientation of 6 is not applied once more, its clean aperture is."""
    facts = await inspect(decoders, HEIC_48x32)
    assert (facts.content_type, facts.width, facts.height, facts.orientation) == ("image/heic", 48, 32, 1)


async def test_only_the_first_of_many_frames_counts(decoders: Decoders) -> None:
    import pyvips

    frames = pyvips.Image.black(40, 90, bands=3).copy(interpretation="srgb").cast("uchar").copy()
    frames.set_type(pyvips.GValue.gint_type, "page-height", 30)
    facts = await inspect(decoders, frames.gifsave_buffer(keep_duplicate_frames=True))
    assert (facts.width, facts.height, facts.frames) == (40, 30, 3)


async def test_the_name_plays_no_role_and_the_position_of_the_file_neither(decoders: Decoders) -> None:
    with file_of(picture("png")) as descriptor:
        assert os.lseek(descriptor, 0, os.SEEK_CUR) > 0
        assert (await decoders.inspect(descriptor)).content_type == "image/png"
        assert (await decoders.inspect(descriptor)).content_type == "image/png"


# ── bad and hostile ones ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_cut_file_is_truncated(decoders: Decoders, kind: str) -> None:
    assert await code_of(decoders, cut(picture(kind, 400, 300))) == "truncated_image"


@pytest.mark.parametrize("share", [0.5, 0.9, 0.999])
async def test_a_cut_heic_or_jpeg_is_never_half_a_picture(decoders: Decoders, share: float) -> None:
    assert await code_of(decoders, cut(HEIC_48x32, share)) == "truncated_image"
    assert await code_of(decoders, cut(picture("jpeg", 400, 300), share)) == "truncated_image"


async def test_damage_in_the_middle_is_corrupt(decoders: Decoders) -> None:
    assert await code_of(decoders, damaged(picture("png", 200, 200))) == "corrupt_image"


async def test_junk_between_segments_harms_nobody(decoders: Decoders) -> None:
    """A libjpeg warning: `fail_on="warning"` would refuse good photos."""
    data = picture("jpeg")
    facts = await inspect(decoders, data[:2] + b"\xff\xfe\x00\x04hijunk" + data[2:])
    assert facts.width == 120


@pytest.mark.parametrize(
    "data",
    [
        png_declaring(100_000, 100_000),
        png_declaring(20_000, 20_000, interlaced=True),
        jpeg_declaring(65_000, 65_000),
        jpeg_declaring(20_000, 14_000),
        jpeg_declaring(12_000, 10_000, progressive=True),
    ],
    ids=["png", "interlaced", "jpeg", "280 million", "progressive"],
)
async def test_a_bomb_is_refused_on_its_header(decoders: Decoders, data: bytes) -> None:
    assert await code_of(decoders, data) == "too_many_pixels"


async def test_the_limit_of_a_baseline_jpeg_is_wider(decoders: Decoders) -> None:
    assert (
        await code_of(decoders, jpeg_declaring(12_000, 10_000)) == "corrupt_image"
    )  # 120 million: looked into


async def test_an_end_marker_does_not_make_half_a_jpeg_whole(decoders: Decoders) -> None:
    """For libjpeg that is a mere warning, and the other half is grey."""
    half = cut(picture("jpeg", 400, 300)) + b"\xff\xd9"
    assert await code_of(decoders, half) == "corrupt_image"


async def test_an_empty_file(decoders: Decoders) -> None:
    assert await code_of(decoders, b"") == "empty_file"


async def test_a_file_that_is_too_large_is_not_even_opened(decoders: Decoders) -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(MAX_FILE_BYTES + 1)
        with pytest.raises(ImageError) as caught:
            await decoders.inspect(file.fileno())
    assert caught.value.code == "too_large"
    assert decoder_pids() == []


@pytest.mark.parametrize("data", [b"1 1\n0\n", b"<svg/>", b"not a picture at all", b"%PDF-1.4"])
async def test_what_is_no_picture_is_never_given_to_a_loader(decoders: Decoders, data: bytes) -> None:
    assert await code_of(decoders, data) == "unsupported_type"


async def test_an_encoding_that_nobody_reads_is_said_to_be_one(decoders: Decoders) -> None:
    """A JPEG XL stream in a TIFF, say: whole, and of no use."""
    data = picture("tiff", 20, 20)
    compression = b"\x03\x01\x03\x00\x01\x00\x00\x00\x05\x00"  # 259, short, one, LZW
    assert compression in data
    data = data.replace(compression, compression[:-2] + (50002).to_bytes(2, "little"))
    assert await code_of(decoders, data) == "unsupported_type"


# ── what a child's end costs ─────────────────────────────────────────────────────────────────────────────


async def test_a_child_that_is_killed_costs_only_its_own_picture(decoders: Decoders, slow_png: bytes) -> None:
    victim = asyncio.ensure_future(inspect(decoders, slow_png))
    (pid,) = await wait_until(decoder_pids)
    others = [asyncio.ensure_future(inspect(decoders, picture("jpeg"))) for _ in range(6)]
    await asyncio.sleep(0)
    await wait_until(lambda: _is_decoding(pid))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ImageError, match="SIGKILL") as caught:
        await victim
    assert caught.value.code == "decoder_crashed"
    assert [facts.width for facts in await asyncio.gather(*others)] == [120] * 6
    assert (await inspect(decoders, picture("png"))).width == 120


def _is_decoding(pid: int) -> bool:
    """It has the file open: an unlinked temporary file among its descriptors."""
    try:
        entries = [entry for entry in Path(f"/proc/{pid}/fd").iterdir() if int(entry.name) > 2]
        return any("deleted" in os.readlink(entry) for entry in entries)
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_parent_whose_libvips_has_threads_hurts_no_child(decoders: Decoders) -> None:
    """A forked child would have its parent's locks without the threads that open them, and hang at its first picture."""
    import pyvips

    mine = pyvips.Image.new_from_buffer(picture("jpeg", 900, 700), "").resize(0.5)
    assert mine.jpegsave_buffer(), "the parent's own picture, made by its own threads"
    first = await asyncio.gather(*(inspect(decoders, picture(kind)) for kind in FORMATS))
    assert [(one.width, one.height) for one in first] == [(120, 80)] * len(FORMATS)
    pids = decoder_pids()
    assert len(pids) == 2, "programs of their own: a fork would bear our command line"
    os.kill(pids[0], signal.SIGKILL)
    again = await asyncio.gather(*(inspect(decoders, picture(kind)) for kind in FORMATS))
    assert again == first


async def test_a_child_that_died_idle_costs_nothing(decoders: Decoders) -> None:
    await inspect(decoders, picture("jpeg"))
    (pid,) = decoder_pids()
    os.kill(pid, signal.SIGKILL)
    assert (await inspect(decoders, picture("jpeg"))).width == 120
    assert decoder_pids() != [pid]


async def test_a_child_that_dies_before_it_takes_a_picture_costs_nothing(decoders: Decoders) -> None:
    await inspect(decoders, picture("jpeg"))
    (pid,) = decoder_pids()
    os.kill(pid, signal.SIGSTOP)
    task = asyncio.ensure_future(inspect(decoders, picture("png")))
    await asyncio.sleep(0)  # the picture is sent, and nobody takes it
    os.kill(pid, signal.SIGKILL)
    assert (await task).content_type == "image/png"


async def test_children_are_used_again(decoders: Decoders) -> None:
    for _ in range(3):
        await inspect(decoders, picture("jpeg"))
        await code_of(decoders, cut(picture("png")))
    assert len(decoder_pids()) == 1


async def test_no_more_children_than_configured(decoders: Decoders) -> None:
    await asyncio.gather(*(inspect(decoders, picture("jpeg", 800, 600)) for _ in range(12)))
    assert len(decoder_pids()) == 2


async def test_the_time_limit_ends_the_child(slow_png: bytes) -> None:
    decoders = Decoders(DecoderConfig(children=1, time_limit_seconds=0.2))
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert await code_of(decoders, slow_png) == "decode_timeout"
    assert loop.time() - started < 3
    await wait_until(lambda: decoder_pids() == [])
    assert (await inspect(decoders, picture("jpeg"))).width == 120
    await decoders.close()


async def test_a_child_that_can_do_nothing_any_more_is_ended_too() -> None:
    """C code that never lets go of Python's lock looks like this from outside."""
    decoders = Decoders(DecoderConfig(children=1, time_limit_seconds=0.5))
    await inspect(decoders, picture("jpeg"))
    (pid,) = decoder_pids()
    os.kill(pid, signal.SIGSTOP)
    assert await code_of(decoders, picture("jpeg")) == "decode_timeout"
    await wait_until(lambda: decoder_pids() == [], 5)
    assert (await inspect(decoders, picture("jpeg"))).width == 120
    await decoders.close()


async def test_the_memory_limit_costs_one_picture(slow_png: bytes) -> None:
    """324 MB of pixels do not fit into 300 MB; the next picture does."""
    decoders = Decoders(DecoderConfig(children=1, memory_limit_bytes=300 << 20))
    assert await code_of(decoders, slow_png) == "decoder_crashed"
    assert (await inspect(decoders, picture("jpeg"))).width == 120
    await decoders.close()


async def test_cancelling_ends_the_child(decoders: Decoders, slow_png: bytes) -> None:
    task = asyncio.ensure_future(inspect(decoders, slow_png))
    (pid,) = await wait_until(decoder_pids)
    await wait_until(lambda: _is_decoding(pid))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_until(lambda: decoder_pids() == [])
    assert (await inspect(decoders, picture("jpeg"))).width == 120


async def test_a_decoder_that_cannot_start_says_so() -> None:
    decoders = Decoders(DecoderConfig(children=1, memory_limit_bytes=1 << 20))
    assert await code_of(decoders, picture("jpeg")) == "decoder_crashed"
    await decoders.close()


async def test_a_worn_child_is_replaced() -> None:
    decoders = Decoders(DecoderConfig(children=1, recycle_after_pictures=2))
    seen = []
    for _ in range(3):
        await inspect(decoders, picture("jpeg"))
        seen += decoder_pids()
    assert len(set(seen)) == 2
    await decoders.close()


async def test_close_leaves_no_process(decoders: Decoders) -> None:
    await asyncio.gather(*(inspect(decoders, picture("jpeg")) for _ in range(4)))
    assert decoder_pids() != []
    await decoders.close()
    assert decoder_pids() == []


async def test_children_know_nothing_of_our_environment(
    decoders: Decoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINGXI_SECRET_KEY", "not for a process that parses hostile bytes")
    await inspect(decoders, picture("jpeg"))
    (pid,) = decoder_pids()
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"LINGXI_SECRET_KEY" not in environment
    assert b"MALLOC_ARENA_MAX=2" in environment
    assert b"VIPS_CONCURRENCY=1" in environment


async def test_a_terminals_interrupt_and_terminate_are_left_to_the_parent(decoders: Decoders) -> None:
    await inspect(decoders, picture("jpeg"))
    (pid,) = decoder_pids()
    assert os.getpgid(pid) != os.getpgid(0)
    os.kill(pid, signal.SIGINT)
    os.kill(pid, signal.SIGTERM)
    assert (await inspect(decoders, picture("jpeg"))).width == 120
    assert decoder_pids() == [pid]


def test_no_child_outlives_a_parent_that_was_killed(slow_png: bytes, tmp_path: Path) -> None:
    """Neither an idle one nor one in the midst of a picture: that one does not even finish it."""
    (tmp_path / "slow.png").write_bytes(slow_png)
    (tmp_path / "quick.jpg").write_bytes(picture("jpeg"))
    decode_seconds = asyncio.run(_seconds_to_decode(tmp_path / "slow.png"))
    program = textwrap.dedent("""
        import asyncio, sys
        from lingxi.imaging.children import DecoderConfig, Decoders

        async def main(folder):
            decoders = Decoders(DecoderConfig(children=2))
            with open(f"{folder}/slow.png", "rb") as slow, open(f"{folder}/quick.jpg", "rb") as quick:
                await asyncio.gather(*(decoders.inspect(quick.fileno()) for _ in range(2)))
                print("two idle children", flush=True)
                await decoders.inspect(slow.fileno())
                print("too late", flush=True)

        asyncio.run(main(sys.argv[1]))
    """)
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "two idle children\n"
    pids = children_of(parent.pid)
    assert len(pids) == 2
    wait_until_sync(lambda: any(_has_open(pid, "slow.png") for pid in pids))
    parent.kill()
    parent.wait()
    assert parent.stdout.read() == ""
    wait_until_sync(lambda: not any(_lives(pid) for pid in pids), decode_seconds / 2)


def _has_open(pid: int, name: str) -> bool:
    try:
        return any(os.readlink(entry).endswith(name) for entry in Path(f"/proc/{pid}/fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return False


async def _seconds_to_decode(path: Path) -> float:
    decoders = Decoders(DecoderConfig(children=1))
    await inspect(decoders, picture("jpeg"))
    started = time.monotonic()
    with path.open("rb") as file:
        await decoders.inspect(file.fileno())
    seconds = time.monotonic() - started
    await decoders.close()
    return seconds


def _lives(pid: int) -> bool:
    try:
        return "lingxi" in Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
