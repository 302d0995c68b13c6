"""Published pictures: kept for ever by browsers, checked at each request, gone within a second, streamed in small pieces."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import httpx
import pytest

from lingxi.api.album_memory import AlbumMemory
from lingxi.bootstrap.api import _listen_to_hints
from lingxi.settings import load_settings
from lingxi.storage import StorageUnavailable
from lingxi.storage.local import LocalReader, LocalStorage
from tests.integration.albums.stage import BROWSE, THUMB, Stage, assert_not_found
from tests.integration.api.harness import make_world, open_api
from tests.integration.storage.places import open_place
from tests.support.waiting import wait_until

FOR_EVER = "private, max-age=31536000, immutable"


@pytest.fixture
async def shown(stage: Stage) -> tuple[str, str, str]:
    """An album, its photo, and the address of the photo's large picture."""
    album = await stage.album()
    photo = await stage.photo(album)
    return album, photo, await stage.picture(album, photo, "browse")


async def test_a_picture_is_typed_and_may_be_kept_for_ever(stage: Stage, shown: tuple[str, str, str]) -> None:
    album, _, address = shown
    guest = await stage.guest(album)
    answer = await guest.get(address)
    assert (answer.status_code, answer.content) == (200, BROWSE)
    etag = f'"{hashlib.sha256(BROWSE).hexdigest()}"'
    wanted = {
        "content-type": "image/jpeg", "cache-control": FOR_EVER, "etag": etag, "accept-ranges": "bytes",
        "content-length": str(len(BROWSE)), "x-content-type-options": "nosniff", "x-robots-tag": "noindex",
    }  # fmt: skip
    assert {name: answer.headers.get(name) for name in wanted} == wanted
    head = await guest.head(address)
    assert (head.status_code, head.content) == (200, b"")
    assert {name: head.headers.get(name) for name in wanted} == wanted
    for known in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        for method in ("GET", "HEAD"):
            again = await guest.request(method, address, headers={"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b"")
            assert (again.headers["etag"], again.headers["cache-control"]) == (etag, FOR_EVER)
    assert (await guest.get(address, headers={"If-None-Match": '"x"'})).status_code == 200


async def test_parts_of_a_picture(stage: Stage, shown: tuple[str, str, str]) -> None:
    _, _, address = shown
    etag = f'"{hashlib.sha256(BROWSE).hexdigest()}"'
    size = len(BROWSE)
    for header, start, end in (("bytes=100-199", 100, 200), ("bytes=-10", size - 10, size)):
        part = await stage.editor.get(address, headers={"Range": header, "If-Range": etag})
        assert (part.status_code, part.content) == (206, BROWSE[start:end])
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
        assert part.headers["content-length"] == str(end - start)
    for headers in (
        {"Range": "bytes=0-1,4-5"},
        {"Range": "bytes=0-1", "If-Range": '"other"'},
        {"Range": "bytes=0-1", "If-Range": f"W/{etag}"},
    ):
        whole = await stage.editor.get(address, headers=headers)
        assert (whole.status_code, whole.content) == (200, BROWSE)
    beyond = await stage.editor.get(address, headers={"Range": f"bytes={size}-"})
    assert (beyond.status_code, beyond.json()["code"]) == (416, 40001)
    assert beyond.headers["content-range"] == f"bytes */{size}"


async def test_a_picture_is_gone_with_its_photo(stage: Stage) -> None:
    album = await stage.album()
    guest = await stage.guest(album)
    for verb in ("hide", "recall", "delete"):
        photo = await stage.photo(album)
        address = await stage.picture(album, photo)
        assert (await guest.get(address)).content == THUMB
        if verb == "delete":
            await stage.editor.delete(f"albums/{album}/photos/{photo}")
        else:
            await stage.steer(album, photo, verb)
        for client in (guest, stage.editor):
            for headers in ({}, {"If-None-Match": "*"}, {"Range": "bytes=0-1"}):
                assert_not_found(await client.get(address, headers=headers))
        if verb == "hide":
            await stage.steer(album, photo, "show")
            assert (await guest.get(address)).status_code == 200
    for wrong in ("no-uuid", address.replace("thumb", "browse"), address.rpartition("-")[0]):
        assert_not_found(await guest.get(wrong if "/" in wrong else address.replace(photo, wrong)))


async def test_a_picture_is_there_as_soon_as_its_photo_is_published(stage: Stage) -> None:
    """Viewers hear of it from whichever process was first: memory that does not know it yet looks again."""
    album = await stage.album()
    guest = await stage.guest(album)
    stage.api.deps.albums._max_age_seconds = 3600
    for _ in range(3):
        photo = await stage.photo(album)
        assert (await guest.get(await stage.picture(album, photo))).status_code == 200


async def test_a_new_generation_has_new_addresses_and_the_old_ones_end(stage: Stage) -> None:
    album = await stage.album()
    photo = await stage.photo(album)
    old = await stage.picture(album, photo)
    assert (await stage.editor.get(old)).status_code == 200
    await stage.editor.post(f"albums/{album}/reprocess")
    await stage.publish(album, photo, generation=2, thumb=b"better")
    stage.api.deps.albums.doubt_all()
    new = await stage.picture(album, photo)
    assert new != old and (await stage.editor.get(new)).content == b"better"
    assert_not_found(await stage.editor.get(old))


# ── from memory ──────────────────────────────────────────────────────────────────────────────────────────
async def test_without_hints_memory_is_never_a_second_old(stage: Stage, shown: tuple[str, str, str]) -> None:
    """Another process changes what this one remembers; its clock is the test's."""
    album, photo, _ = shown
    pool, now = stage.api.deps.pool, [100.0]
    memory = AlbumMemory(pool, clock=lambda: now[0])
    token = await pool.fetchval("select id from tokens where role = 'viewer' limit 1")

    async def sees() -> bool:
        seen, holds = await memory.look(UUID(album), token)
        return holds and seen is not None and UUID(photo) in seen.photos

    assert await sees()
    await stage.steer(album, photo, "hide")
    now[0] += 0.7
    assert await sees(), "it is remembered"
    now[0] += 0.2
    assert not await sees()
    await stage.steer(album, photo, "show")
    assert not await sees()
    memory.doubt([UUID(album)])
    assert await sees(), "a hint is enough"
    await pool.execute("update tokens set revoked_at = now() where id = $1", token)
    assert await sees()
    memory.doubt_access()
    assert not await sees()
    await pool.execute("update tokens set revoked_at = null where id = $1", token)
    now[0] += 0.9
    assert await sees()
    await stage.editor.delete(f"albums/{album}")
    now[0] += 0.9
    assert not await sees()


async def test_nobody_waits_for_ever_while_all_is_doubted(stage: Stage, shown: tuple[str, str, str]) -> None:
    """An album that changes all the time: whoever asks gets what began to be read after the question."""
    album, photo, _ = shown
    memory = stage.api.deps.albums
    token = await stage.api.deps.pool.fetchval("select id from tokens where role = 'viewer' limit 1")
    done = asyncio.Event()

    async def doubts() -> None:
        while not done.is_set():
            memory.doubt_all()
            await asyncio.sleep(0)

    doubting = asyncio.create_task(doubts())
    rounds = memory.rounds
    async with asyncio.timeout(30):
        asked = [memory.look(UUID(album), token, anew=bool(n % 2)) for n in range(20)]
        for seen, holds in await asyncio.gather(*asked):
            assert holds and seen is not None and UUID(photo) in seen.photos
    done.set()
    await doubting
    assert memory.rounds - rounds <= 2


async def test_any_number_of_viewers_costs_the_same_statements(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time stands still: two hundred requests of five guests and a member, about twenty photos, one round of reading."""
    album = await stage.album()
    addresses = [await stage.picture(album, await stage.photo(album)) for _ in range(20)]
    guests = [await stage.guest(album) for _ in range(5)]
    memory = stage.api.deps.albums
    for client in (*guests, stage.editor):
        assert (await client.get(addresses[0])).status_code == 200
    memory._clock = lambda: 0.0
    memory.doubt_all()
    await stage.editor.get(addresses[0])
    rounds, asked = memory.rounds, 0
    acquire = asyncpg.Pool.acquire

    def counted(pool: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal asked
        asked += 1
        return acquire(pool, *args, **kwargs)

    monkeypatch.setattr(asyncpg.Pool, "acquire", counted)
    for _ in range(2):
        viewers = (*guests, stage.editor)
        answers = await asyncio.gather(*(viewer.get(one) for viewer in viewers for one in addresses))
        assert {answer.status_code for answer in answers} == {200}
    assert memory.rounds - rounds == asked <= 1


async def test_hints_reach_the_pictures_of_another_process(
    stage: Stage, shown: tuple[str, str, str], database_url: str, redis_url: str, tmp_path: Path
) -> None:
    """A second API whose memory would never grow old by itself hears of a hidden photo and of a revoked link."""
    album, photo, address = shown

    class NoDispatcher:
        def wake(self) -> None: ...

    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(open_api(database_url, redis_url, tmp_path))
        other.deps.albums._max_age_seconds = 3600
        settings = load_settings(database_url=database_url, redis_url=redis_url)
        connected = asyncio.Event()
        other.deps.albums.doubt_all = connected.set  # type: ignore[method-assign]
        _listen_to_hints(settings, other.deps, NoDispatcher(), stack)  # type: ignore[arg-type]
        await asyncio.wait_for(connected.wait(), 30)
        link = await stage.share(album)
        guest = await stage.open_link(link["secret"])
        (cookie,) = guest.cookies.jar
        stack.push_async_callback((viewer := other.client(Cookie=f"{cookie.name}={cookie.value}")).aclose)

        async def status() -> int:
            return (await viewer.get(address)).status_code

        assert await status() == 200
        await stage.steer(album, photo, "hide")
        await wait_until(lambda: _is(status, 404), message="the hint came")
        await stage.steer(album, photo, "show")
        await wait_until(lambda: _is(status, 200), message="the hint came")
        await stage.editor.delete(f"albums/{album}/shares/{link['id']}")
        await wait_until(lambda: _is(status, 404), message="the hint came")


async def _is(status: Any, wanted: int) -> bool:
    return bool(await status() == wanted)


async def test_postgresql_away_means_503_and_no_old_answer(
    stage: Stage, shown: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, address = shown
    assert (await stage.editor.get(address)).status_code == 200

    async def away(*_: Any) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr("lingxi.api.album_memory.read_visible_albums", away)
    stage.api.deps.albums.doubt_all()
    for _ in range(2):
        answer = await stage.editor.get(address)
        assert (answer.status_code, answer.json()["code"]) == (503, 50003)
    monkeypatch.undo()
    assert (await stage.editor.get(address)).status_code == 200


# ── from storage ─────────────────────────────────────────────────────────────────────────────────────────
async def test_storage_away_is_said_clearly(
    stage: Stage, shown: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, address = shown

    async def away(*_: Any, **__: Any) -> None:
        raise StorageUnavailable("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "open", away)
        answer = await stage.editor.get(address)
        assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (500, 50001, "2")
        assert answer.json()["detail"] == "The file cannot be read from storage now; try again."
        assert "cache-control" not in answer.headers or "immutable" not in answer.headers["cache-control"]
        assert (await stage.editor.head(address)).status_code == 200
    assert (await stage.editor.get(address)).status_code == 200


class _Watched:
    """Counts what is read of stored bytes, and readers that are not given back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fail_after: int | None = None) -> None:
        self.chunks = self.open = 0
        real_iter, real_close, real_open = LocalReader.__aiter__, LocalReader.close, LocalStorage.open

        async def iterate(reader: LocalReader) -> AsyncIterator[bytes]:
            async for chunk in real_iter(reader):
                self.chunks += 1
                if fail_after is not None and self.chunks > fail_after:
                    raise StorageUnavailable("the disk is gone")
                yield chunk

        async def open_(storage: LocalStorage, *args: Any, **kwargs: Any) -> LocalReader:
            self.open += 1
            return await real_open(storage, *args, **kwargs)

        closed: set[int] = set()

        async def close(reader: LocalReader) -> None:
            if id(reader) not in closed:
                closed.add(id(reader))
                self.open -= 1
            await real_close(reader)

        monkeypatch.setattr(LocalReader, "__aiter__", iterate)
        monkeypatch.setattr(LocalReader, "close", close)
        monkeypatch.setattr(LocalStorage, "open", open_)


async def _large(stage: Stage, chunk_count: int) -> str:
    album = await stage.album()
    photo = await stage.photo(album, browse=b"\0" * (chunk_count << 20))
    return await stage.picture(album, photo, "browse")


async def test_a_client_that_reads_nothing_or_leaves_holds_no_memory_and_no_reader(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = await _large(stage, 40)
    watched = _Watched(monkeypatch)
    url = urlsplit(stage.api.url)
    request = f"GET /api/v1/{address} HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: Bearer {stage.world.ours.editor}\r\n\r\n"
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    plain.connect((url.hostname, url.port))
    plain.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(plain, request.encode())
    assert (await loop.sock_recv(plain, 100)).startswith(b"HTTP/1.1 200")
    await wait_until(lambda: watched.chunks > 0)
    assert watched.chunks < 20, "it waits for the client"
    plain.close()
    await wait_until(lambda: watched.open == 0, message="the reader was given back")
    assert watched.chunks < 20


async def test_reading_that_fails_half_way_cuts_the_answer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = await _large(stage, 3)
    watched = _Watched(monkeypatch, fail_after=1)
    with pytest.raises(httpx.RemoteProtocolError):
        await stage.editor.get(address)
    assert watched.open == 0


async def test_pictures_and_originals_come_from_a_bucket_likewise(
    request: pytest.FixtureRequest, pool: Any, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    world = await make_world(pool)
    async with (
        open_place(request, "s3", tmp_path) as place,
        open_api(database_url, redis_url, tmp_path, storage=place.storage) as api,
        Stage.open(api, world) as stage,
    ):
        album = await stage.album(originalsShared=True)
        data = BROWSE * 10  # some chunks
        photo = await stage.photo(album, browse=data)
        guest = await stage.guest(album)
        address = await stage.picture(album, photo, "browse")
        assert (await guest.get(address)).content == data
        part = await guest.get(address, headers={"Range": "bytes=2000000-2000099"})
        assert (part.status_code, part.content) == (206, data[2_000_000:2_000_100])
        assert (await guest.head(address)).headers["content-length"] == str(len(data))
        original = await guest.get(f"albums/{album}/photos/{photo}/original")
        assert original.content.startswith(b"original ")
        await api.deps.storage.delete_prefix(f"photo-live/dev/albums/{album}/")
        answer = await guest.get(address)
        assert (answer.status_code, answer.json()["code"]) == (500, 50001)
