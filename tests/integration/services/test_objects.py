"""Objects: bytes first, then one row; races, repeats and failures leave one row and no stray file."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from lingxi.domain.errors import Conflict, LingxiError, MalformedRequest, NotFound, TooLarge
from lingxi.services.get_object import find_object, get_object
from lingxi.services.put_object import PutObject, put_object, receive_object
from lingxi.storage import Storage, open_storage
from tests.support.pictures import picture

Pool = asyncpg.Pool


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    opened = open_storage(tmp_path.as_uri())
    yield opened
    await opened.close()


@pytest.fixture
async def workspace(pool: Pool) -> uuid.UUID:
    return await new_workspace(pool)


async def new_workspace(pool: Pool) -> uuid.UUID:
    workspace_id = uuid.uuid4()
    await pool.execute("insert into workspaces (id, name) values ($1, $2)", workspace_id, str(workspace_id))
    return workspace_id


async def put(
    pool: Pool, storage: Storage, workspace: uuid.UUID, name: str, data: bytes, limit: int = 1 << 20
) -> PutObject:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 50_000):
            yield data[start : start + 50_000]

    async with (
        receive_object(storage, chunks(), max_bytes=limit) as received,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        return await put_object(connection, workspace, name, received)


async def bytes_of(storage: Storage, key: str) -> bytes:
    return b"".join([chunk async for chunk in await storage.open(key)])


def files(tmp_path: Path) -> set[str]:
    return {path.name for path in tmp_path.rglob("*") if path.is_file()}


async def test_a_new_object_has_its_bytes_and_what_is_known_of_them(
    pool: Pool, storage: Storage, workspace: uuid.UUID
) -> None:
    data = picture("png", 300, 200)
    done = await put(pool, storage, workspace, "a/b.jpg", data)
    assert done.created
    async with pool.acquire() as connection:
        found = await get_object(connection, workspace, "a/b.jpg")
    assert found == done.object
    assert (found.size_bytes, found.sha256) == (len(data), hashlib.sha256(data).digest())
    assert found.content_type == "image/png"  # by content, whatever the name says
    assert await bytes_of(storage, found.storage_key) == data


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (b"", "application/octet-stream"),
        (b"hello", "application/octet-stream"),
        (picture("avif"), "image/avif"),
    ],
)
async def test_the_type_is_that_of_the_content(
    pool: Pool, storage: Storage, workspace: uuid.UUID, data: bytes, content_type: str
) -> None:
    assert (await put(pool, storage, workspace, "x", data)).object.content_type == content_type


async def test_the_same_bytes_again_are_the_same_object(
    pool: Pool, storage: Storage, workspace: uuid.UUID, tmp_path: Path
) -> None:
    first = await put(pool, storage, workspace, "é", b"bytes")
    again = await put(pool, storage, workspace, "e\u0301", b"bytes")
    assert not again.created
    assert again.object == first.object
    assert files(tmp_path) == {first.object.storage_key}


async def test_other_bytes_under_the_name_are_a_conflict(
    pool: Pool, storage: Storage, workspace: uuid.UUID, tmp_path: Path
) -> None:
    first = await put(pool, storage, workspace, "x", b"bytes")
    with pytest.raises(Conflict) as caught:
        await put(pool, storage, workspace, "x", b"other")
    assert caught.value.code == 40901
    assert files(tmp_path) == {first.object.storage_key}
    assert await bytes_of(storage, first.object.storage_key) == b"bytes"


async def test_names_belong_to_their_workspace(pool: Pool, storage: Storage, workspace: uuid.UUID) -> None:
    other = await new_workspace(pool)
    await put(pool, storage, workspace, "x", b"mine")
    async with pool.acquire() as connection:
        with pytest.raises(NotFound):
            await get_object(connection, other, "x")
        assert await find_object(connection, other, "x") is None
    assert (await put(pool, storage, other, "x", b"theirs")).created


@pytest.mark.parametrize("same", [True, False])
async def test_twenty_at_once_make_one_row_and_leave_one_file(
    pool: Pool, storage: Storage, workspace: uuid.UUID, tmp_path: Path, same: bool
) -> None:
    bodies = [b"bytes" if same else b"bytes of %d" % number for number in range(20)]
    results = await asyncio.gather(
        *(put(pool, storage, workspace, "x", body) for body in bodies), return_exceptions=True
    )
    won = [result for result in results if isinstance(result, PutObject) and result.created]
    assert len(won) == 1
    rest = [result for result in results if result is not won[0]]
    if same:
        assert all(isinstance(result, PutObject) and result.object == won[0].object for result in rest)
    else:
        assert all(isinstance(result, Conflict) for result in rest)
    assert await pool.fetchval("select count(*) from objects") == 1
    assert files(tmp_path) == {won[0].object.storage_key}
    body = bodies[results.index(won[0])]
    assert await bytes_of(storage, won[0].object.storage_key) == body


async def test_who_waited_for_a_put_that_was_rolled_back_gets_the_name(
    pool: Pool, storage: Storage, workspace: uuid.UUID
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"

    async with pool.acquire() as connection, receive_object(storage, chunks(), max_bytes=10) as received:
        transaction = connection.transaction()
        await transaction.start()
        await put_object(connection, workspace, "x", received)
        second = asyncio.ensure_future(put(pool, storage, workspace, "x", b"second"))
        waiting = "select count(*) from pg_locks where not granted"
        while not await pool.fetchval(waiting):
            await asyncio.sleep(0.01)
        await transaction.rollback()
        assert (await second).created


async def test_too_large_names_the_limit_and_leaves_nothing(
    pool: Pool, storage: Storage, workspace: uuid.UUID, tmp_path: Path
) -> None:
    with pytest.raises(TooLarge, match="1000 bytes") as caught:
        await put(pool, storage, workspace, "x", bytes(1001), limit=1000)
    assert caught.value.code == 41301
    assert files(tmp_path) == set()
    assert await pool.fetchval("select count(*) from objects") == 0


async def test_a_bad_name_is_a_40001_that_names_the_problem_and_leaves_nothing(
    pool: Pool, storage: Storage, workspace: uuid.UUID, tmp_path: Path
) -> None:
    with pytest.raises(MalformedRequest, match=r"segment '\.\.'") as caught:
        await put(pool, storage, workspace, "../secret", b"x")
    assert caught.value.code == 40001
    assert caught.value.errors[0].field == "name"
    assert files(tmp_path) == set()
    async with pool.acquire() as connection:
        with pytest.raises(MalformedRequest):
            await get_object(connection, workspace, "../secret")


async def test_a_failure_before_the_row_removes_the_bytes(storage: Storage, tmp_path: Path) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"x"

    with pytest.raises(ConnectionError):
        async with receive_object(storage, chunks(), max_bytes=10):
            raise ConnectionError("PostgreSQL is away")
    assert files(tmp_path) == set()


async def test_a_commit_that_may_have_happened_keeps_the_bytes(
    pool: Pool, storage: Storage, workspace: uuid.UUID, tmp_path: Path
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"x"

    with pytest.raises(ConnectionError):
        async with receive_object(storage, chunks(), max_bytes=10) as received:
            async with pool.acquire() as connection, connection.transaction():
                await put_object(connection, workspace, "x", received)
            raise ConnectionError("the answer to the commit was lost")
    assert files(tmp_path) == {received.stored.key}
    assert await pool.fetchval("select storage_key from objects") == received.stored.key


async def test_storage_that_fails_is_told_without_a_path(
    pool: Pool, workspace: uuid.UUID, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    storage = open_storage((tmp_path / "file").as_uri())
    with pytest.raises(LingxiError) as caught:
        await put(pool, storage, workspace, "x", b"x")
    assert caught.value.code == 50001
    assert str(tmp_path) not in caught.value.detail
    await storage.close()
