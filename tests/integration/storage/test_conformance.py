"""What every storage does, tried on the local folder and on a real S3 server: one suite, and no exception for either."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator

import pytest

from lingxi.observability import failpoints
from lingxi.storage import CHUNK_BYTES, ObjectMissing, ObjectTooLarge, StorageUnavailable
from tests.integration.storage.places import LIMIT, FolderPlace, Place, Stalled, chunks_of, read
from tests.support.waiting import wait_until

COMPOSED = "photo-live/dev/albums/a1/variants/p1/1/thumb-0123456789abcdef.jpg"
SMALL = 3 * CHUNK_BYTES + 17
LARGE = 9 * CHUNK_BYTES + 17  # two parts of a multipart upload


@pytest.mark.parametrize("size", [0, 1, SMALL, LARGE, 8 * CHUNK_BYTES, 17 * CHUNK_BYTES])
async def test_gives_back_what_was_put_with_its_size_and_hash(place: Place, size: int) -> None:
    data = os.urandom(size)
    stored = await place.storage.put(chunks_of(data), max_bytes=LIMIT)
    assert stored.size_bytes == size
    assert stored.sha256 == hashlib.sha256(data).digest()
    assert await read(place.storage, stored.key) == data
    assert (await place.storage.stat(stored.key)).size_bytes == size


async def test_reads_many_small_ones_at_once_in_order(place: Place) -> None:
    contents = [os.urandom(size) for size in (0, 1, 9_999, 10_000, 10_001, *range(30))]
    keys = [(await place.storage.put(chunks_of(data), max_bytes=LIMIT)).key for data in contents]
    asked = [keys[0], "0" * 32, *keys[1:], keys[1], COMPOSED]
    read_back = await place.storage.read_small(asked, max_bytes=10_000)
    cut = [data[:10_000] for data in contents]
    assert read_back == [cut[0], None, *cut[1:], cut[1], None]
    assert await place.storage.read_small([], max_bytes=1) == []
    with pytest.raises(ValueError, match="storage key"):
        await place.storage.read_small(["../etc"], max_bytes=1)


@pytest.mark.parametrize(
    ("start", "length"),
    [(0, 1), (5, None), (CHUNK_BYTES - 1, 2), (CHUNK_BYTES * 2, 10**9), (10**9, 5), (0, 0), (7, 0)],
)
async def test_reads_ranges(place: Place, start: int, length: int | None) -> None:
    data = os.urandom(2 * CHUNK_BYTES + 500)
    stored = await place.storage.put(chunks_of(data), max_bytes=LIMIT)
    reader = await place.storage.open(stored.key, start=start, length=length)
    assert reader.size_bytes == len(data)
    expected = data[start:] if length is None else data[start : start + length]
    assert b"".join([chunk async for chunk in reader]) == expected


async def test_a_part_of_an_empty_object_is_empty(place: Place) -> None:
    stored = await place.storage.put(chunks_of(b""), max_bytes=LIMIT)
    assert await read(place.storage, stored.key, 0, 5) == b""


async def test_chunks_are_bounded(place: Place) -> None:
    stored = await place.storage.put(chunks_of(bytes(SMALL), size=SMALL), max_bytes=LIMIT)
    reader = await place.storage.open(stored.key)
    assert max([len(chunk) async for chunk in reader]) <= CHUNK_BYTES


async def test_memory_stays_bounded_whatever_is_put_or_read(place: Place) -> None:
    async def many(mebibytes: int) -> AsyncIterator[bytes]:
        block = os.urandom(CHUNK_BYTES)
        for _ in range(mebibytes):
            yield block

    await place.storage.put(many(17), max_bytes=LIMIT)  # what only the first put needs is not counted
    before = _reset_peak_bytes()
    stored = await place.storage.put(many(64), max_bytes=LIMIT)
    async for _chunk in await place.storage.open(stored.key):
        pass
    assert stored.size_bytes == LIMIT
    assert _peak_bytes() - before < 45 * CHUNK_BYTES


def _reset_peak_bytes() -> int:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _peak_bytes()


def _peak_bytes() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


@pytest.mark.parametrize("size", [100_000, LARGE])
async def test_the_limit_is_exact_and_leaves_nothing(place: Place, size: int) -> None:
    stored = await place.storage.put(chunks_of(bytes(size)), max_bytes=size)
    await place.storage.delete(stored.key)
    with pytest.raises(ObjectTooLarge) as caught:
        await place.storage.put(chunks_of(bytes(size + 1)), max_bytes=size)
    assert caught.value.limit_bytes == size
    assert await place.everything() == []


@pytest.mark.parametrize("size", [2 * CHUNK_BYTES, LARGE])
async def test_a_stream_that_fails_leaves_nothing(place: Place, size: int) -> None:
    async def cut() -> AsyncIterator[bytes]:
        async for chunk in chunks_of(bytes(size)):
            yield chunk
        raise ConnectionResetError("client went away")

    with pytest.raises(ConnectionResetError):
        await place.storage.put(cut(), max_bytes=LIMIT)
    assert await place.everything() == []


@pytest.mark.parametrize("size", [2 * CHUNK_BYTES, 9 * CHUNK_BYTES])
async def test_a_cancelled_put_leaves_nothing(place: Place, size: int) -> None:
    stream = Stalled(size)
    task = asyncio.ensure_future(place.storage.put(stream, max_bytes=LIMIT))
    await stream.half.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await place.everything() == []


@pytest.mark.parametrize("size", [1, LARGE])
async def test_a_put_that_is_cancelled_when_all_is_stored_leaves_nothing(
    place: Place, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    told = tmp_path_factory.mktemp("failpoints")
    failpoints.arm("storage.after_put=pause", told)
    try:
        task = asyncio.ensure_future(place.storage.put(chunks_of(bytes(size)), max_bytes=LIMIT))
        await wait_until((told / "storage.after_put.reached").exists)
        assert len(await place.everything()) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    finally:
        failpoints.disarm()
    assert await place.everything() == []


async def test_puts_cancelled_at_any_moment_leave_nothing(place: Place) -> None:
    data = bytes(9 * CHUNK_BYTES)
    for number in range(12):
        task = asyncio.ensure_future(place.storage.put(chunks_of(data, CHUNK_BYTES), max_bytes=LIMIT))
        for _ in range(number * 3):
            await asyncio.sleep(0)
        await asyncio.sleep(number * 0.004)
        task.cancel()
        done = await asyncio.gather(task, return_exceptions=True)
        if not isinstance(done[0], BaseException):
            await place.storage.delete(done[0].key)
    assert await wait_until(lambda: _is_empty(place))


async def _is_empty(place: Place) -> bool:
    return await place.everything() == []


@pytest.mark.parametrize("size", [5 * CHUNK_BYTES, LARGE])
async def test_a_full_disk_is_unavailable_and_leaves_nothing(place: Place, size: int) -> None:
    with place.full(), pytest.raises(StorageUnavailable, match="storage cannot serve: ") as caught:
        await place.storage.put(chunks_of(os.urandom(size)), max_bytes=LIMIT)
    assert "/" not in str(caught.value)
    assert await place.everything() == []
    stored = await place.storage.put(chunks_of(bytes(size)), max_bytes=LIMIT)  # there is room again
    assert stored.size_bytes == size


async def test_thirty_puts_at_once_do_not_meet(place: Place) -> None:
    bodies = [os.urandom(50_000 + number) for number in range(30)]
    stored = await asyncio.gather(*(place.storage.put(chunks_of(body), max_bytes=LIMIT) for body in bodies))
    assert len({one.key for one in stored}) == 30
    for one, body in zip(stored, bodies, strict=True):
        assert await read(place.storage, one.key) == body


async def test_delete_removes_and_may_be_repeated(place: Place) -> None:
    stored = await place.storage.put(chunks_of(b"x"), max_bytes=LIMIT)
    await place.storage.delete(stored.key)
    await place.storage.delete(stored.key)
    assert await place.everything() == []
    with pytest.raises(ObjectMissing):
        await place.storage.open(stored.key)
    with pytest.raises(ObjectMissing):
        await place.storage.open(stored.key, start=5)
    with pytest.raises(ObjectMissing):
        await place.storage.stat(stored.key)


async def test_an_open_reader_ends_with_all_bytes_or_says_so(place: Place) -> None:
    data = os.urandom(LARGE)
    stored = await place.storage.put(chunks_of(data), max_bytes=LIMIT)
    reader = await place.storage.open(stored.key)
    await place.storage.delete(stored.key)
    try:
        assert b"".join([chunk async for chunk in reader]) == data
    except StorageUnavailable:
        assert place.kind == "s3"  # a file that is open stays


async def test_readers_that_stop_early_give_their_files_back(place: Place) -> None:
    stored = await place.storage.put(chunks_of(bytes(LARGE)), max_bytes=LIMIT)

    async def read_a_little() -> None:
        reader = await place.storage.open(stored.key)
        async for _chunk in reader:
            break
        await reader.close()
        await reader.close()

    await read_a_little()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        await read_a_little()
    await wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before + 2)


NO_KEYS = [
    "",
    "../../etc/passwd",
    "../x",
    "a" * 31,
    "A" * 32,
    "a" * 32 + "\n",
    "a/../b",
    "/etc/passwd",
    "a//b",
    "a/.hidden",
]
NO_KEYS += ["A/b", "a/b/", "a", "a/ü", "a/" + "b" * 600]


@pytest.mark.parametrize("key", NO_KEYS)
async def test_what_might_be_a_path_is_no_key(place: Place, key: str) -> None:
    for use in (place.storage.open, place.storage.delete, place.storage.stat):
        with pytest.raises(ValueError, match="no storage key"):
            await use(key)


@pytest.mark.parametrize("prefix", ["", "/", "../", "p", "p/../", "p/a1"])
async def test_only_a_whole_prefix_is_removed(place: Place, prefix: str) -> None:
    with pytest.raises(ValueError, match="no prefix"):
        await place.storage.delete_prefix(prefix)


async def test_checks_that_it_can_write(place: Place) -> None:
    await place.storage.check()
    assert await place.everything() == []


@pytest.mark.parametrize("size", [4, LARGE])
async def test_bytes_can_be_put_under_a_composed_key(place: Place, size: int) -> None:
    data = os.urandom(size)
    stored = await place.storage.put(chunks_of(data), max_bytes=LIMIT, key=COMPOSED)
    assert stored.key == COMPOSED
    await place.storage.put(
        chunks_of(data), max_bytes=LIMIT, key=COMPOSED
    )  # a late attempt: the same content
    assert await read(place.storage, COMPOSED) == data


@pytest.mark.parametrize("size", [10, LARGE])
async def test_a_failed_put_leaves_what_another_put_under_its_key(place: Place, size: int) -> None:
    await place.storage.put(chunks_of(b"first"), max_bytes=LIMIT, key=COMPOSED)
    with pytest.raises(ObjectTooLarge):
        await place.storage.put(chunks_of(bytes(size)), max_bytes=size - 1, key=COMPOSED)
    assert await read(place.storage, COMPOSED) == b"first"
    assert len(await place.everything()) == 1


async def test_a_prefix_is_removed_with_all_below_it(place: Place) -> None:
    for number in ("1", "2"):
        await place.storage.put(chunks_of(b"x"), max_bytes=LIMIT, key=f"p/a1/{number}/t.jpg")
    await place.storage.put(chunks_of(b"x"), max_bytes=LIMIT, key="p/a10/1/t.jpg")
    assert await place.storage.delete_prefix("p/a1/") == 2
    assert await place.storage.delete_prefix("p/a1/") == 0
    with pytest.raises(ObjectMissing):
        await place.storage.open("p/a1/1/t.jpg")
    assert await read(place.storage, "p/a10/1/t.jpg") == b"x"


async def test_lists_what_is_finished_and_old_enough(place: Place) -> None:
    random = {(await place.storage.put(chunks_of(bytes(n)), max_bytes=LIMIT)).key: n for n in range(4)}
    composed = {f"p/a1/{n}.jpg": n for n in range(3)}
    for key, size in (composed | {"p/a10/1.jpg": 1}).items():
        await place.storage.put(chunks_of(bytes(size)), max_bytes=LIMIT, key=key)
    stream = Stalled(9 * CHUNK_BYTES)
    unfinished = asyncio.ensure_future(place.storage.put(stream, max_bytes=LIMIT))
    await stream.half.wait()
    listed = [one async for one in place.storage.list_keys()]
    assert {one.key: one.size_bytes for one in listed} == random
    assert all(abs(one.modified_at - time.time()) < 600 for one in listed)
    assert {one.key: one.size_bytes async for one in place.storage.list_keys("p/a1/")} == composed
    assert [one async for one in place.storage.list_keys("p/none/")] == []
    assert [one async for one in place.storage.list_keys(older_than_seconds=3600)] == []
    unfinished.cancel()
    await asyncio.gather(unfinished, return_exceptions=True)


@pytest.mark.slow
async def test_lists_more_than_a_page(place: Place) -> None:
    keys = {f"many/k{n:04}" for n in range(1_100)}
    for start in range(0, 1_100, 100):
        batch = sorted(keys)[start : start + 100]
        await asyncio.gather(*(place.storage.put(chunks_of(b""), max_bytes=1, key=key) for key in batch))
    assert {one.key async for one in place.storage.list_keys("many/")} == keys
    assert await place.storage.delete_prefix("many/") == 1_100


async def test_moves_an_object(place: Place) -> None:
    stored = await place.storage.put(chunks_of(b"moved"), max_bytes=LIMIT)
    await place.storage.move(stored.key, f"trash/{stored.key}")
    assert await read(place.storage, f"trash/{stored.key}") == b"moved"
    assert (await place.storage.stat(f"trash/{stored.key}")).ours
    with pytest.raises(ObjectMissing):
        await place.storage.move(stored.key, f"trash/{stored.key}")
    assert len(await place.everything()) == 1


async def test_unfinished_uploads_are_swept_after_their_time_and_nothing_else(place: Place) -> None:
    kept = await place.storage.put(chunks_of(b"x"), max_bytes=LIMIT)
    stream = Stalled(9 * CHUNK_BYTES)
    task = asyncio.ensure_future(place.storage.put(stream, max_bytes=LIMIT))
    await stream.half.wait()
    await wait_until(lambda: _has(place, 2))
    assert await place.storage.sweep_unfinished(older_than_seconds=3600) == 0
    if isinstance(place, FolderPlace):
        await place.age_unfinished(3601)
    assert await place.storage.sweep_unfinished(older_than_seconds=3600 if place.kind == "local" else -1) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(await place.everything()) == 1
    assert await read(place.storage, kept.key) == b"x"


async def _has(place: Place, number: int) -> bool:
    return len(await place.everything()) == number


NAMES = [
    "a.jpg",
    "Hochzeit Müller & Söhne/IMG 1 (2).JPG",
    "灵犀/照片.jpg",
    "حفل/صورة.jpg",
    "x" * 250,
    "a+b=c#?%25.jpg",
    "…/👰.jpg",
]


@pytest.mark.parametrize("name", NAMES)
async def test_media_beside_ours_are_read_under_any_name_and_never_written(place: Place, name: str) -> None:
    place.beside(name, b"bytes of somebody")
    key = f"media:{name}"
    assert await read(place.storage, key) == b"bytes of somebody"
    assert await read(place.storage, key, 6, 2) == b"of"
    found = await place.storage.stat(key)
    assert (found.size_bytes, found.ours) == (17, False)
    with pytest.raises(ValueError, match="no storage key"):
        await place.storage.delete(key)
    with pytest.raises(ValueError, match="no storage key"):
        await place.storage.put(chunks_of(b"x"), max_bytes=1, key=key)
    with pytest.raises(ValueError, match="no storage key"):
        await place.storage.move(key, "a/b")
    assert await read(place.storage, key) == b"bytes of somebody"


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../objects/x", "a/../b", "a//b", "a/./b", "a\0b", "x" * 1025, "a/"]
)
async def test_what_is_no_name_of_media_is_refused(place: Place, name: str) -> None:
    with pytest.raises(ValueError, match="no storage key"):
        await place.storage.open(f"media:{name}")


async def test_missing_media_are_missing(place: Place) -> None:
    with pytest.raises(ObjectMissing):
        await place.storage.open("media:not/here.jpg")
