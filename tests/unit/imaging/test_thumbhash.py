"""ThumbHash, to the byte as the reference (thumbhash 0.1.1 of npm) encodes the same pixels."""

from __future__ import annotations

import numpy as np
import pytest

from lingxi.imaging.thumbhash import thumb_hash

# Width, height, which picture (see `pixels`), and what the reference's rgbaToThumbHash gave.
VECTORS = [
    (100, 75, 0, "de270a2d967544796067897787687777977069f877"),
    (100, 75, 1, "1e080a459e8f85898188887878a888777f71f8e878"),
    (100, 75, 2, "3f0802058087878888877880877888760000000000"),
    (75, 100, 0, "dd17061d10478170850977b8777397676b8080c5f7"),
    (75, 100, 1, "1e080a3d1e7f8581878788a8788868887f71f7e788"),
    (75, 100, 2, "3f0802050077787787877777777887070000000000"),
    (100, 100, 0, "de27061f107614796147897077b877377779852a06866e0f"),
    (100, 100, 1, "1e080a3f1e8f85897178788888a887878876f817788f7e08"),
    (100, 100, 2, "3f0802070086878878788788787878b87878000000000000"),
    (100, 7, 0, "52e70a318a51707a73885888ba8f0c9787"),
    (100, 7, 1, "dd270a419e8f8589717797787f82f9e868"),
    (100, 7, 2, "3f080201809597988787f7770000000000"),
    (3, 100, 0, "12890d3910749048888975798f477398f8"),
    (3, 100, 1, "a1480a391c3f7077878978853f72f8e378"),
    (3, 100, 2, "3f080201000c87b8878678880000000000"),
    (1, 1, 0, "000802070000000000000000000000000000000000000000"),
    (1, 1, 1, "156c2f075908f708888788708f7088f80888808008088800"),
    (1, 1, 2, "3f087e070008f708888788708f7088f80888000000000000"),
    (2, 1, 0, "0008020482720d8d888887d028877288208708"),
    (2, 1, 1, "4eaa1e9caa8a058588888750a8778b88d08808"),
    (2, 1, 2, "3f087e04807808878888878078870000000000"),
    (33, 32, 0, "14670a1f9060667771888886886888778887779ffa708a08"),
    (33, 32, 1, "1e080a3f9e7f85797178878888a787767786f817787f8e07"),
    (33, 32, 2, "3f080207807878697787878288f87877778c070000000000"),
    (64, 48, 0, "59570a1d9405788461878676786887770a837bd077"),
    (64, 48, 1, "1e080a3d9e8f85897177788888a887887f81f7e887"),
    (64, 48, 2, "3f080205804f477576788788878888870000000000"),
]


def pixels(width: int, height: int, kind: int) -> np.ndarray:
    y, x = np.mgrid[0:height, 0:width]
    if kind == 0:
        bands = [(x * 5 + y) % 256, (y * 3) % 256, (x * y) % 256]
    elif kind == 1:
        bands = [np.where(x < width / 2, 220, 30), np.where(y < height / 2, 40, 200), (x + y) % 17 * 15]
    else:
        bands = [np.full((height, width), 255)] * 3
    return np.stack(bands, axis=-1).astype(np.uint8)


@pytest.mark.parametrize(("width", "height", "kind", "expected"), VECTORS)
def test_as_the_reference(width: int, height: int, kind: int, expected: str) -> None:
    made = thumb_hash(pixels(width, height, kind))
    # White all over has terms that are zero but for rounding. Their scale is written as zero, so that they decode to nothing.
    told = 5 if kind == 2 else 25
    assert made[:told] == bytes.fromhex(expected)[:told]
    assert len(made) == len(bytes.fromhex(expected))
