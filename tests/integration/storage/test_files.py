"""Files into storage and objects as files, on the local folder and on a real S3 server."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from lingxi.observability import failpoints
from lingxi.storage import CHUNK_BYTES, ObjectTooLarge, StorageUnavailable
from lingxi.storage.local_reader import OpenFile
from tests.integration.storage.places import LIMIT, Place, chunks_of, read
from tests.support.waiting import wait_until

KEY = "photo-live/dev/albums/a1/variants/p1/1/browse-0123456789abcdef.jpg"


@pytest.mark.parametrize("size", [0, 1, 100_000, CHUNK_BYTES, 9 * CHUNK_BYTES + 17])
async def test_a_file_is_put_like_a_stream_and_stays(place: Place, tmp_path: Path, size: int) -> None:
    source = tmp_path / "browse.jpg"
    source.write_bytes(data := os.urandom(size))
    stored = await place.storage.put_file(source, max_bytes=size, key=KEY)
    assert (stored.key, stored.size_bytes, stored.sha256) == (KEY, size, hashlib.sha256(data).digest())
    assert await read(place.storage, KEY) == source.read_bytes() == data


async def test_a_file_above_the_limit_or_that_is_missing_leaves_nothing(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "browse.jpg"
    source.write_bytes(bytes(1001))
    with pytest.raises(ObjectTooLarge):
        await place.storage.put_file(source, max_bytes=1000)
    with pytest.raises((StorageUnavailable, FileNotFoundError)):
        await place.storage.put_file(tmp_path / "gone", max_bytes=1000)
    assert await place.everything() == []


async def test_a_file_whose_put_is_cancelled_leaves_nothing(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "browse.jpg"
    source.write_bytes(bytes(1000))
    failpoints.arm("storage.after_put=pause", tmp_path)
    try:
        task = asyncio.ensure_future(place.storage.put_file(source, max_bytes=LIMIT))
        await wait_until((tmp_path / "storage.after_put.reached").exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    finally:
        failpoints.disarm()
    assert await place.everything() == []


@pytest.mark.parametrize("size", [0, 1, 3 * CHUNK_BYTES + 17])
async def test_an_object_in_a_folder_is_a_file_with_its_hash(place: Place, size: int) -> None:
    data = os.urandom(size)
    reader = await place.storage.open((await place.storage.put(chunks_of(data), max_bytes=LIMIT)).key)
    whole = await reader.whole_file()
    assert (whole is not None) == (place.kind == "local")
    if whole is not None:
        assert whole.sha256 == hashlib.sha256(data).digest()
        assert os.pread(whole.descriptor, size + 1, 0) == data
    await reader.close()
    await reader.close()


async def test_what_others_may_change_is_no_file_of_ours(place: Place) -> None:
    place.beside("a.jpg", b"bytes of somebody")
    reader = await place.storage.open("media:a.jpg")
    assert await reader.whole_file() is None
    assert b"".join([chunk async for chunk in reader]) == b"bytes of somebody"


def test_a_file_that_was_closed_is_not_read_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    file = OpenFile(os.open(tmp_path / "a", os.O_RDONLY))
    file.close()
    assert file.digest() == hashlib.sha256(b"").digest()
    assert file.read(1, 0) == b""
