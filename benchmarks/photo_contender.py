"""One side of the photo benchmark: `python -m benchmarks.photo_contender lingxi|floor LANES`.

Prints `ready`, then for each line `{"photos": [path…], "out": folder}` makes the variants of all photos, LANES at a time, and
prints `{"seconds": wall time, "browse": [[width, height]…]}`. The npm peer speaks the same.

`lingxi` is what a worker does: children that can be killed, a descriptor in, two files out. `floor` is the least that any
program can do with the same decoder: decode at a half where that is large enough for the browse variant, and encode
pixels of the two sizes that were made before the clock started; no resize, no colours, no files; one process a core.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyvips

from benchmarks.processes import die_with_parent
from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.imaging.pipeline import BROWSE_PIXELS, QUALITY, THUMB_PIXELS, TOLERANCE

Run = Callable[[list[Path], Path], Awaitable[dict[str, Any]]]


def main() -> None:
    """Serve one side until the input ends."""
    side, lanes = sys.argv[1], int(sys.argv[2])
    asyncio.run(_lingxi(lanes) if side == "lingxi" else _floor(lanes))


async def _serve(run: Run) -> None:
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        answer = await run([Path(photo) for photo in asked["photos"]], Path(asked["out"]))
        print(json.dumps(answer), flush=True)


async def _lingxi(lanes: int) -> None:
    decoders = Decoders(DecoderConfig(children=lanes))

    async def one(photo: Path, out: Path) -> list[int]:
        folder = out / photo.stem
        folder.mkdir()
        with photo.open("rb") as file:
            browse = (await decoders.make_variants(file.fileno(), folder)).variants[0]
        return [browse.width, browse.height]

    async def run(photos: list[Path], out: Path) -> dict[str, Any]:
        started = time.monotonic()
        sizes = await asyncio.gather(*(one(photo, out) for photo in photos))
        return {"seconds": time.monotonic() - started, "browse": sizes}

    await _serve(run)
    await decoders.close()


async def _floor(lanes: int) -> None:
    with ProcessPoolExecutor(lanes, get_context("spawn"), _prepare_floor) as pool:
        loop = asyncio.get_running_loop()

        async def run(photos: list[Path], out: Path) -> dict[str, Any]:
            shares = [photos[lane::lanes] for lane in range(lanes)]
            spent = await asyncio.gather(*(loop.run_in_executor(pool, _least_of, share) for share in shares))
            wall, cpu = zip(*spent, strict=True)
            return {"seconds": max(wall), "cpuSeconds": sum(cpu), "browse": []}

        await _serve(run)


def _prepare_floor() -> None:
    die_with_parent()
    pyvips.cache_set_max(0)


def _least_of(photos: list[Path]) -> tuple[float, float]:
    """Seconds on the wall and of this process for these photos, without what is made once to be encoded."""
    wall = cpu = 0.0
    for photo in photos:
        ready = _ready_pixels(photo)
        wall, cpu = wall - time.monotonic(), cpu - time.process_time()
        _decoded(photo)
        for image in ready:
            image.jpegsave_buffer(Q=QUALITY, optimize_coding=True, keep="none")
        wall, cpu = wall + time.monotonic(), cpu + time.process_time()
    return wall, cpu


def _decoded(photo: Path) -> pyvips.Image:
    if photo.suffix == ".heic":
        import pi_heif

        pi_heif.options.DECODE_THREADS = 1
        image = pi_heif.open_heif(str(photo))[0]
        pixels = bytes(image.data)
        return pyvips.Image.new_from_memory(pixels, *image.size, 3, "uchar").copy(interpretation="srgb")
    if photo.suffix == ".png":
        return pyvips.Image.pngload(str(photo), access="sequential").copy_memory()
    header = pyvips.Image.jpegload(str(photo))
    half = max(header.width, header.height) / 2 >= BROWSE_PIXELS * TOLERANCE
    return pyvips.Image.jpegload(str(photo), shrink=2 if half else 1, access="sequential").copy_memory()


@cache
def _ready_pixels(photo: Path) -> tuple[pyvips.Image, pyvips.Image]:
    decoded = _decoded(photo)
    long_edge = max(decoded.width, decoded.height)
    browse = decoded if long_edge <= BROWSE_PIXELS else decoded.resize(BROWSE_PIXELS / long_edge)
    browse = browse.copy_memory()
    return browse, browse.resize(THUMB_PIXELS / max(browse.width, browse.height)).copy_memory()


if __name__ == "__main__":
    main()
