"""What an archive reads ahead: in order, in few requests, and never more than a bound in memory."""

from __future__ import annotations

import asyncio
import hashlib
import random
import string
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingxi.domain.errors import Permanent
from lingxi.processors import archive_contents, archive_names
from lingxi.processors.archive_contents import Content, Later, Missing, contents
from lingxi.processors.archive_zip import DESCRIBED_ABOVE_BYTES
from lingxi.services.archive_files import ArchiveFile
from lingxi.storage import ObjectMissing, Storage

MEDIUM = 300_000


class Shelf:
    """A storage of things that are read slowly, and that counts what it is asked."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.asked = 0
        self.reading_bytes = 0
        self.released: asyncio.Event | None = None

    def add(self, name: str, data: bytes) -> ArchiveFile:
        self.data[name] = data
        return ArchiveFile(name, name, name, len(data), hashlib.sha256(data).digest(), 0)

    async def read_small(self, keys: Sequence[str], *, max_bytes: int) -> list[bytes | None]:
        self.asked += 1
        await self._come(sum(len(self.data.get(key, b"")) for key in keys))
        return [data[:max_bytes] if (data := self.data.get(key)) is not None else None for key in keys]

    async def open(self, key: str) -> Shelf._Reader:
        self.asked += 1
        if key not in self.data:
            raise ObjectMissing
        await self._come(len(self.data[key]))
        return Shelf._Reader(self.data[key])

    async def _come(self, size_bytes: int) -> None:
        self.reading_bytes += size_bytes
        if self.released is not None:
            await self.released.wait()

    class _Reader:
        def __init__(self, data: bytes) -> None:
            self._data = data

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for start in range(0, len(self._data), 70_000):
                yield self._data[start : start + 70_000]

        async def close(self) -> None:
            pass


async def _all(shelf: Shelf, files: list[ArchiveFile]) -> list[archive_contents.Found]:
    return [found async for batch in contents(cast(Storage, shelf), files) for found in batch]


async def test_files_come_in_their_order_with_their_bytes() -> None:
    shelf, chance = Shelf(), random.Random(4)
    files = [
        shelf.add(f"{number}", chance.randbytes(chance.choice([0, 10, 9_000, 200_000, MEDIUM])))
        for number in range(300)
    ]
    files[7] = files[7]._replace(storage_key=None)
    for gone in (5, 90, 200):
        del shelf.data[str(gone)]
    large = ArchiveFile("large", "large", "large", DESCRIBED_ABOVE_BYTES + 1, b"", 0)
    found = await _all(shelf, [*files[:50], large, *files[50:]])
    assert [file.name for file, _ in found] == [str(n) for n in range(50)] + ["large"] + [
        str(n) for n in range(50, 300)
    ]
    for file, content in found:
        if file.name in ("5", "7", "90", "200"):
            assert isinstance(content, Missing)
        elif file.name == "large":
            assert isinstance(content, Later)
        else:
            assert isinstance(content, Content)
            data = b"".join(content.chunks)
            assert (data, content.crc) == (shelf.data[file.name], zlib.crc32(data))


async def test_many_small_files_are_few_requests() -> None:
    shelf = Shelf()
    found = await _all(shelf, [shelf.add(f"{number}", b"x" * 1_000) for number in range(1_280)])
    assert (len(found), shelf.asked) == (1_280, 10)


@pytest.mark.parametrize(("size", "count"), [(16_000_000, 10), (2_500_000, 40), (200_000, 400)])
async def test_what_is_read_ahead_is_bounded(size: int, count: int) -> None:
    shelf, data = Shelf(), bytes(size)
    files = [shelf.add(f"{number}", data) for number in range(count)]
    shelf.released = asyncio.Event()
    async with aclosing(contents(cast(Storage, shelf), files)) as batches:
        first = asyncio.ensure_future(anext(batches))
        for _ in range(100):
            await asyncio.sleep(0)
        assert 0 < shelf.reading_bytes <= 24 << 20
        if size < 16_000_000:
            assert shelf.reading_bytes > size, "nothing is read ahead"
        shelf.released.set()
        await first


@pytest.mark.parametrize("change", [b"", b"other", b"12345678901"])
@pytest.mark.parametrize("size", [10, MEDIUM])
async def test_other_bytes_than_were_put_are_noticed_and_named(size: int, change: bytes) -> None:
    shelf = Shelf()
    files = [shelf.add(f"{number}", b"0" * size) for number in range(5)]
    shelf.data["3"] = (change * size)[: size + len(change) - 5] if change else b""
    with pytest.raises(Permanent, match="'3'") as caught:
        await _all(shelf, files)
    assert caught.value.code == "checksum_mismatch"


async def test_a_stop_leaves_nothing_running() -> None:
    shelf = Shelf()
    files = [shelf.add(f"{number}", b"0" * MEDIUM) for number in range(20)]
    before = asyncio.all_tasks()
    async with aclosing(contents(cast(Storage, shelf), files)) as batches:
        await anext(batches)
        shelf.released = asyncio.Event()
    assert asyncio.all_tasks() == before


@given(st.text(alphabet=string.ascii_letters + string.digits + "._- /", max_size=12))
def test_plain_names_are_not_looked_at_twice(name: str) -> None:
    assert archive_names.archive_name(name) == archive_names.archive_name(name + "/")
