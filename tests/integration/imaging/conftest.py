"""Decoders, and photos given to them."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import pyvips

from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.imaging.errors import ImageError
from lingxi.imaging.facts import MadePhoto


@dataclass(frozen=True, slots=True)
class Made:
    """What came of a photo, with the bytes of its variants."""

    photo: MadePhoto
    browse: bytes
    thumb: bytes

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Width and height of the original, the browse variant and the thumb."""
        variants = [(variant.width, variant.height) for variant in self.photo.variants]
        return ((self.photo.width, self.photo.height), *variants)

    @property
    def pixels(self) -> pyvips.Image:
        """Of the browse variant."""
        return pyvips.Image.jpegload_buffer(self.browse)

    def colour(self, x: float, y: float) -> list[float]:
        """Of the browse variant around a place, given as shares of its width and height."""
        image = self.pixels
        side = max(1, min(image.width, image.height) // 8)
        left = min(image.width - side, int(x * image.width))
        top = min(image.height - side, int(y * image.height))
        return [band.avg() for band in image.crop(left, top, side, side).bandsplit()]


Make = Callable[[bytes], Awaitable[Made]]


@pytest.fixture
async def decoders() -> AsyncIterator[Decoders]:
    opened = Decoders(DecoderConfig(children=2))
    yield opened
    await opened.close()


@pytest.fixture
def make(decoders: Decoders, tmp_path: Path) -> Make:
    """Both variants of a photo."""

    async def make_it(data: bytes) -> Made:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            try:
                photo = await decoders.make_variants(file.fileno(), folder)
            except ImageError:
                assert list(folder.iterdir()) == [], "nothing is left of a photo that is refused"
                raise
        browse, thumb = (variant.path.read_bytes() for variant in photo.variants)
        return Made(photo, browse, thumb)

    return make_it


RED, GREEN, BLUE, WHITE = (220, 30, 30), (30, 200, 30), (30, 30, 220), (240, 240, 240)
PLACES = {(0.2, 0.2): RED, (0.8, 0.2): GREEN, (0.2, 0.8): BLUE, (0.8, 0.8): WHITE}


def assert_colour(found: list[float], wanted: tuple[float, ...], tolerance: float = 4) -> None:
    assert len(found) == len(wanted)
    assert all(abs(a - b) <= tolerance for a, b in zip(found, wanted, strict=True)), (found, wanted)


def assert_upright(made: Made, tolerance: float = 4) -> None:
    for place, colour in PLACES.items():
        assert_colour(made.colour(*place), colour, tolerance)


def gray(value: int, width: int = 64, height: int = 48, *, interpretation: str = "b-w") -> pyvips.Image:
    return (pyvips.Image.black(width, height) + value).cast("uchar").copy(interpretation=interpretation)


def flat(*values: int, interpretation: str = "srgb", kind: str = "uchar") -> pyvips.Image:
    image = (pyvips.Image.black(64, 48, bands=len(values)) + list(values)).cast(kind)
    return image.copy(interpretation=interpretation)
