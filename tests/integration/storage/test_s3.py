"""What can go wrong only between us and an S3 server: the way there, the keys, the bucket, signed addresses."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lingxi.storage import CHUNK_BYTES, S3Access, Storage, StorageUnavailable, open_storage
from lingxi.storage.s3_access import refused
from lingxi.storage.s3_signing import signed_headers, signed_url
from tests.integration.storage.places import LIMIT, BucketPlace, Stalled, chunks_of, read
from tests.support.proxy import CuttingProxy
from tests.support.s3 import S3Server, http_get, http_put
from tests.support.waiting import wait_until

LARGE = 17 * CHUNK_BYTES
ANYTHING = {
    "put": lambda s: s.put(chunks_of(b"x"), max_bytes=5),
    "large put": lambda s: s.put(chunks_of(bytes(9 * CHUNK_BYTES), CHUNK_BYTES), max_bytes=LIMIT),
    "open": lambda s: read(s, "0" * 32),
    "part": lambda s: read(s, "0" * 32, 3, 4),
    "read_small": lambda s: s.read_small(["0" * 32, "1" * 32], max_bytes=5),
    "stat": lambda s: s.stat("0" * 32),
    "list": lambda s: _list(s),
    "delete": lambda s: s.delete("0" * 32),
    "delete_prefix": lambda s: s.delete_prefix("p/a1/"),
    "move": lambda s: s.move("0" * 32, "1" * 32),
    "sweep": lambda s: s.sweep_unfinished(older_than_seconds=0),
    "check": lambda s: s.check(),
}
Use = Callable[[Storage], Any]


async def _list(storage: Storage) -> list[Any]:
    return [one async for one in storage.list_keys()]


@pytest.fixture
def prefix() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def opened(s3_server: S3Server, prefix: str) -> AsyncIterator[Callable[..., BucketPlace]]:
    """`opened(**changes)`: a storage that reaches the server in another way than the right one."""
    places: list[BucketPlace] = []

    def make(bucket: str = "media", **changes: Any) -> BucketPlace:
        storage = open_storage(f"s3://{bucket}/{prefix}", replace(s3_server.access, **changes))
        places.append(BucketPlace(storage, s3_server, prefix))
        return places[-1]

    yield make
    for place in places:
        await place.storage.close()


@pytest.mark.parametrize("use", ANYTHING)
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"secret_access_key": "wrong" * 8}, "the secret key is not the one|credentials are refused"),
        ({"access_key_id": "NOBODY"}, "the access key is not known|credentials are refused"),
        ({"bucket": "no-such-bucket"}, "there is no bucket of this name"),
    ],
)
async def test_wrong_keys_and_buckets_are_told_in_a_sentence(
    opened: Callable[..., BucketPlace], use: str, changes: dict[str, str], sentence: str
) -> None:
    with pytest.raises(StorageUnavailable, match=sentence) as caught:
        await ANYTHING[use](opened(**changes).storage)
    assert "wrong" not in str(caught.value)
    assert "http" not in str(caught.value)


@pytest.mark.parametrize("use", ANYTHING)
async def test_a_server_that_refuses_connections_is_unavailable(
    opened: Callable[..., BucketPlace], use: str
) -> None:
    with pytest.raises(StorageUnavailable, match="storage cannot serve: "):
        await ANYTHING[use](opened(endpoint="http://127.0.0.1:9", timeout_seconds=0.5).storage)


@contextmanager
def proxy(server: S3Server) -> Iterator[CuttingProxy]:
    with CuttingProxy.to(server.url) as running:
        yield running


@pytest.mark.parametrize("use", ANYTHING)
async def test_a_server_that_hangs_is_unavailable_in_time(
    opened: Callable[..., BucketPlace], s3_server: S3Server, use: str
) -> None:
    with proxy(s3_server) as between:
        place = opened(endpoint=f"http://127.0.0.1:{between.port}", timeout_seconds=0.3)
        between.stall()
        async with asyncio.timeout(15):
            with pytest.raises(StorageUnavailable, match=r"answer in time|does not answer"):
                await ANYTHING[use](place.storage)


async def test_a_download_that_hangs_half_way_ends_in_time(
    opened: Callable[..., BucketPlace], s3_server: S3Server
) -> None:
    key = (await opened().storage.put(chunks_of(bytes(LARGE)), max_bytes=LIMIT)).key
    with proxy(s3_server) as between:
        place = opened(endpoint=f"http://127.0.0.1:{between.port}", timeout_seconds=0.5)
        reader = await place.storage.open(key)
        stream = reader.__aiter__()
        await anext(stream)
        between.stall()
        async with asyncio.timeout(15):
            with pytest.raises(StorageUnavailable, match="storage cannot serve: "):
                async for _chunk in stream:
                    pass


async def test_a_connection_that_is_lost_in_the_middle_of_an_upload_leaves_nothing(
    opened: Callable[..., BucketPlace], s3_server: S3Server
) -> None:
    with proxy(s3_server) as between:
        place = opened(endpoint=f"http://127.0.0.1:{between.port}", timeout_seconds=2)

        async def lost() -> AsyncIterator[bytes]:
            for number in range(17):
                if number == 12:
                    assert len(await place.everything()) == 1
                    between.refuse()
                yield bytes(CHUNK_BYTES)

        with pytest.raises(StorageUnavailable, match="storage cannot serve: "):
            await place.storage.put(lost(), max_bytes=LIMIT)
        between.forward()
        # It could not be aborted while the way was cut; it shows as unfinished, is no object, and is swept.
        assert [one async for one in place.storage.list_keys()] == []
        assert await place.storage.sweep_unfinished(older_than_seconds=-1) == 1
        assert await place.everything() == []


async def test_an_upload_goes_on_when_its_connection_breaks_once(
    opened: Callable[..., BucketPlace], s3_server: S3Server
) -> None:
    data = os.urandom(LARGE)
    with proxy(s3_server) as between:
        place = opened(endpoint=f"http://127.0.0.1:{between.port}")

        async def once_lost() -> AsyncIterator[bytes]:
            for number in range(17):
                if number == 12:
                    between.cut()
                yield data[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES]

        stored = await place.storage.put(once_lost(), max_bytes=LIMIT)
        assert await read(place.storage, stored.key) == data


async def test_a_download_goes_on_or_says_that_it_broke(
    opened: Callable[..., BucketPlace], s3_server: S3Server
) -> None:
    data = os.urandom(LARGE)
    key = (await opened().storage.put(chunks_of(data), max_bytes=LIMIT)).key
    with proxy(s3_server) as between:
        place = opened(endpoint=f"http://127.0.0.1:{between.port}", timeout_seconds=2)
        between.cut_after(5 * CHUNK_BYTES)
        got = bytearray()
        try:
            async for chunk in await place.storage.open(key):
                got += chunk
        except StorageUnavailable:
            assert data.startswith(bytes(got))
        else:
            assert bytes(got) == data


async def test_a_reader_that_pauses_goes_on_when_the_server_hung_up(
    opened: Callable[..., BucketPlace], s3_server: S3Server
) -> None:
    """A slow client of ours makes it pause. The way is cut again and again, for longer than one request is tried."""
    data = os.urandom(LARGE)
    key = (await opened().storage.put(chunks_of(data), max_bytes=LIMIT)).key
    with proxy(s3_server) as between:
        place = opened(endpoint=f"http://127.0.0.1:{between.port}", timeout_seconds=0.5)
        got, number = bytearray(), 0
        async for chunk in await place.storage.open(key, start=7):
            got += chunk
            if (number := number + 1) % 5 == 0:
                between.cut()
                paused = asyncio.get_running_loop().time() + 0.6
                await wait_until(lambda: asyncio.get_running_loop().time() > paused)  # noqa: B023
        assert bytes(got) == data[7:]
        assert between.accepted >= 3


async def test_a_reader_never_goes_on_with_another_object(
    opened: Callable[..., BucketPlace], s3_server: S3Server
) -> None:
    """Media that are not ours may be replaced while they are read."""
    name = f"{uuid.uuid4().hex}.jpg"
    with proxy(s3_server) as between:
        place = opened(endpoint=f"http://127.0.0.1:{between.port}", timeout_seconds=2)
        place.beside(name, bytes(LARGE))
        stream = (await place.storage.open(f"media:{name}")).__aiter__()
        await anext(stream)
        place.beside(name, b"x" * LARGE)
        between.cut()
        with pytest.raises(StorageUnavailable, match=r"removed or changed|connection broke"):
            async for chunk in stream:
                assert b"x" not in chunk


async def test_a_last_answer_that_is_lost_leaves_no_object(
    opened: Callable[..., BucketPlace], s3_server: S3Server
) -> None:
    with proxy(s3_server) as between:
        place = opened(endpoint=f"http://127.0.0.1:{between.port}")
        between.swallow_reply_to(b"<CompleteMultipartUpload>")
        try:
            stored = await place.storage.put(chunks_of(bytes(LARGE)), max_bytes=LIMIT)
        except StorageUnavailable:
            assert await place.everything() == []
        else:
            assert len(await place.everything()) == 1
            assert len(await read(place.storage, stored.key)) == LARGE
        assert between.swallowed == 1


async def test_only_uploads_of_this_prefix_are_swept(
    opened: Callable[..., BucketPlace], s3_server: S3Server
) -> None:
    place = opened()
    stream = Stalled(9 * CHUNK_BYTES)
    task = asyncio.ensure_future(place.storage.put(stream, max_bytes=LIMIT))
    await stream.half.wait()

    async def one_is_there() -> bool:
        return len(await place.everything()) == 1

    await wait_until(one_is_there)
    other = open_storage(f"s3://media/{place.prefix}x", s3_server.access)
    assert await other.sweep_unfinished(older_than_seconds=-1) == 0
    await other.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_objects_of_others_below_our_prefix_are_not_ours(
    opened: Callable[..., BucketPlace], s3_server: S3Server
) -> None:
    place = opened()
    key = uuid.uuid4().hex
    place.beside(f"{place.prefix}/objects/{key}", b"a backup that somebody made")
    place.beside(f"{place.prefix}/objects/IMG 1.JPG", b"x")
    assert not (await place.storage.stat(key)).ours
    assert [one.key async for one in place.storage.list_keys()] == [key]


async def test_a_signed_upload_takes_the_signed_size_only(opened: Callable[..., BucketPlace]) -> None:
    place = opened()
    signed = await place.storage.signed_put("incoming/u1", size_bytes=5, lifetime_seconds=60)
    assert signed is not None
    assert signed.method == "PUT"
    sent = {name: value for name, value in signed.headers.items() if name != "Content-Length"}
    assert await asyncio.to_thread(http_put, signed.url, b"123456", sent) == 403
    assert await asyncio.to_thread(http_put, signed.url.replace("u1", "u2"), b"12345", sent) == 403
    assert await place.everything() == []
    assert await asyncio.to_thread(http_put, signed.url, b"12345", sent) == 200
    assert (await place.storage.stat("incoming/u1")).ours
    expired = await place.storage.signed_put("incoming/u3", size_bytes=5, lifetime_seconds=1)
    assert expired is not None

    async def refused_now() -> bool:
        return await asyncio.to_thread(http_put, expired.url, b"12345", sent) == 403

    await wait_until(refused_now)


async def test_a_signed_download_is_an_attachment_under_any_name(opened: Callable[..., BucketPlace]) -> None:
    place = opened()
    stored = await place.storage.put(chunks_of(b"12345"), max_bytes=LIMIT)
    signed = await place.storage.signed_get(
        stored.key, lifetime_seconds=60, file_name="灵犀 & é.jpg", content_type="image/jpeg"
    )
    assert signed is not None
    assert await asyncio.to_thread(http_get, signed.url) == (200, b"12345")
    status, _ = await asyncio.to_thread(http_get, signed.url.replace("image%2Fjpeg", "text%2Fhtml"))
    assert status == 403


def test_signatures_are_those_of_the_specification() -> None:
    """The examples of Amazon's documentation of Signature Version 4 for S3."""
    access = S3Access(
        "https://examplebucket.s3.amazonaws.com",
        "us-east-1",
        "AKIAIOSFODNN7EXAMPLE",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    )
    at = datetime(2013, 5, 24, tzinfo=UTC)
    url = signed_url(access, "GET", "/test.txt", expires_seconds=86400, at=at)
    assert url.endswith("&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")
    headers = signed_headers(access, "GET", "/", {"lifecycle": ""}, at=at)
    assert headers["authorization"].endswith(
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
    )


@pytest.mark.parametrize(
    ("text", "status", "sentence"),
    [
        ("<Error><Code>SlowDown</Code></Error>", 503, "the server asks for less traffic"),
        ("<Error><Code>XMinioStorageFull</Code></Error>", 507, "the server's disks are full"),
        ("", 507, "the server's disks or the bucket's quota are full"),
        ("<Error><Code>Strange</Code></Error>", 500, "it answered 500 Strange"),
        ("<html>", 502, "it answered 502"),
        ("error sending request for url (http://10.0.0.1/b/k)", None, "it does not answer"),
    ],
)
def test_refusals_are_told_without_addresses(text: str, status: int | None, sentence: str) -> None:
    assert str(refused(text, status)) == f"storage cannot serve: {sentence}"


async def test_temporary_keys_and_another_address_for_clients() -> None:
    access = S3Access(
        "http://10.0.0.1:9000", "r", "k", "s", session_token="t/1", public_endpoint="https://files.example"
    )
    storage = open_storage("s3://media", access)
    signed = await storage.signed_get("a" * 32, lifetime_seconds=5, file_name="a", content_type="image/png")
    await storage.close()
    assert signed is not None
    assert signed.url.startswith(f"https://files.example/media/objects/{'a' * 32}?")
    assert "X-Amz-Security-Token=t%2F1" in signed.url
    headers = signed_headers(access, "GET", "/media", {})
    assert (headers["host"], headers["x-amz-security-token"]) == ("10.0.0.1:9000", "t/1")
    assert "host;x-amz-content-sha256;x-amz-date;x-amz-security-token" in headers["authorization"]


def test_keys_are_not_shown() -> None:
    assert "hidden" not in repr(S3Access("https://s3", "r", "k", "hidden", "hidden"))


@pytest.mark.parametrize(
    "url",
    ["s3://", "s3://B", "s3://media/../x", "s3://media/A b", "s3://user:pw@media", "s3://media?x", "s3://a"],
)
def test_urls_of_buckets_are_checked(url: str) -> None:
    with pytest.raises(ValueError, match="STORAGE_URL must be s3://bucket"):
        open_storage(url, S3Access("https://s3", "r", "k", "s"))
