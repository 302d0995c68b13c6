"""media:verify from its input to its result: expectations, workspaces, damage, outages."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pydantic import ValidationError

from lingxi.domain.errors import ITEM_CODES, ItemError, Permanent, Transient
from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.processors.contract import Attempt, Context, Item, StopReason
from lingxi.processors.media_verify import MediaVerify, VerifyInput, VerifyResult
from lingxi.services.put_object import put_object, receive_object
from lingxi.storage import Storage, open_storage
from tests.support.pictures import HEIC_48x32, cut, damaged, picture, png_declaring


class Bench:
    """A workspace with objects, and the processor beside them."""

    def __init__(self, pool: asyncpg.Pool, storage: Storage, folder: Path) -> None:
        self.pool = pool
        self.storage = storage
        self.workspace = uuid.uuid4()
        self.decoders = Decoders(DecoderConfig(children=1))
        self.scratch = folder / "scratch"
        self.connect: Any = pool.acquire
        self.verifier = MediaVerify(self.decoders, lambda: self.connect(), self.scratch)

    def transaction(self, item: Item, attempt: Attempt) -> Any:
        raise NotImplementedError

    def publish_progress(self, item: Item, done: int, total: int | None, note: str | None) -> None:
        raise NotImplementedError

    async def put(self, name: str, data: bytes, workspace: uuid.UUID | None = None) -> str:
        """Store an object; answers its storage key."""

        async def chunks() -> AsyncIterator[bytes]:
            yield data

        workspace = workspace or self.workspace
        await self.pool.execute(
            "insert into workspaces (id, name) values ($1, $2) on conflict do nothing",
            workspace,
            str(workspace),
        )
        async with (
            receive_object(self.storage, chunks(), max_bytes=1 << 30) as received,
            self.pool.acquire() as connection,
            connection.transaction(),
        ):
            return (await put_object(connection, workspace, name, received)).object.storage_key

    def context(self) -> Context:
        item = Item(uuid.uuid4(), 0, None, self.workspace)
        return Context(item, Attempt(1, 1, 1), time.monotonic() + 60, self)

    async def verify(self, context: Context | None = None, **given: Any) -> VerifyResult:
        processor = self.verifier.processor()
        result = await processor.run(context or self.context(), processor.input_model.model_validate(given))
        assert isinstance(result, VerifyResult)
        return result

    async def error(self, **given: Any) -> ItemError:
        with pytest.raises(ItemError) as caught:
            await self.verify(**given)
        assert ITEM_CODES[caught.value.code].retryable is caught.value.retryable
        return caught.value


@pytest.fixture
async def bench(pool: asyncpg.Pool, tmp_path: Path) -> AsyncIterator[Bench]:
    storage = open_storage((tmp_path / "objects").as_uri())
    made = Bench(pool, storage, tmp_path)
    yield made
    await made.decoders.close()
    await storage.close()


async def test_a_good_picture_gives_its_facts(bench: Bench) -> None:
    data = picture("jpeg", 120, 80, orientation=6)
    await bench.put("shots/één.jpg", data)
    result = await bench.verify(object="shots/e\u0301e\u0301n.jpg")
    assert result.model_dump(by_alias=True) == {
        "object": "shots/één.jpg",
        "contentType": "image/jpeg",
        "width": 80,
        "height": 120,
        "sizeBytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "orientation": 6,
        "frames": 1,
        "hasAlpha": False,
        "hasColorProfile": False,
    }


async def test_what_was_expected_is_met(bench: Bench) -> None:
    await bench.put("a", HEIC_48x32)
    digest = hashlib.sha256(HEIC_48x32).hexdigest()
    result = await bench.verify(
        object="a",
        expectedSha256=digest.upper(),
        expectedSizeBytes=len(HEIC_48x32),
        expectedType="image/heic",
    )
    assert (result.width, result.height) == (48, 32)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"expectedSha256": "0" * 64}, "checksum_mismatch"),
        ({"expectedSizeBytes": 1}, "size_mismatch"),
        ({"expectedType": "image/png"}, "type_mismatch"),
    ],
)
async def test_what_was_expected_is_not_met(bench: Bench, given: dict[str, Any], code: str) -> None:
    await bench.put("a", picture("jpeg"))
    error = await bench.error(object="a", **given)
    assert error.code == code
    assert isinstance(error, Permanent)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty_file"),
        (b"this is a text", "unsupported_type"),
        (cut(picture("jpeg", 300, 200)), "truncated_image"),
        (damaged(picture("png")), "corrupt_image"),
        (png_declaring(60_000, 60_000), "too_many_pixels"),
    ],
)
async def test_a_bad_file_is_refused_for_good(bench: Bench, data: bytes, code: str) -> None:
    await bench.put("photo.jpg", data)
    error = await bench.error(object="photo.jpg")
    assert error.code == code
    assert isinstance(error, Permanent)


async def test_a_missing_object_and_one_of_another_workspace_look_the_same(bench: Bench) -> None:
    await bench.put("theirs", picture("jpeg"), uuid.uuid4())
    errors = [await bench.error(object="missing"), await bench.error(object="theirs")]
    assert [error.code for error in errors] == ["object_not_found"] * 2
    assert errors[0].message == errors[1].message


async def test_bytes_that_vanished_from_storage(bench: Bench) -> None:
    key = await bench.put("a", picture("jpeg"))
    await bench.storage.delete(key)
    assert (await bench.error(object="a")).code == "object_not_found"


async def test_bytes_that_changed_in_storage(bench: Bench, tmp_path: Path) -> None:
    key = await bench.put("a", picture("jpeg"))
    (path,) = tmp_path.rglob(key)
    path.write_bytes(picture("jpeg", 64, 64))
    assert (await bench.error(object="a")).code == "checksum_mismatch"


async def test_a_scratch_folder_that_cannot_be_used_is_worth_a_retry(bench: Bench) -> None:
    await bench.put("a", picture("jpeg"))
    bench.scratch.write_bytes(b"a file where the folder should be")
    error = await bench.error(object="a")
    assert error.code == "storage_unavailable"
    assert isinstance(error, Transient)


async def test_no_scratch_file_is_left(bench: Bench) -> None:
    await bench.put("good", picture("jpeg"))
    await bench.put("bad", b"x")
    await bench.verify(object="good")
    await bench.error(object="bad")
    assert list(bench.scratch.iterdir()) == []


async def test_an_outage_of_postgresql_is_waited_for(bench: Bench) -> None:
    await bench.put("a", picture("jpeg"))
    failed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def refused_once() -> AsyncIterator[Any]:
        if not failed.is_set():
            failed.set()
            raise ConnectionRefusedError
        async with bench.pool.acquire() as connection:
            yield connection

    bench.connect = refused_once
    assert (await bench.verify(object="a")).width == 120
    assert failed.is_set()


async def test_an_outage_ends_with_the_worker(bench: Bench) -> None:
    @contextlib.asynccontextmanager
    async def refused() -> AsyncIterator[Any]:
        context.ask_to_stop(StopReason.SHUTDOWN)
        raise ConnectionRefusedError
        yield

    bench.connect = refused
    context = bench.context()
    with pytest.raises(ConnectionRefusedError):
        await bench.verify(context, object="a")


async def test_stopping_in_mid_decode_leaves_nothing_open(bench: Bench) -> None:
    await bench.put("a", picture("png", 3000, 3000, interlace=True))
    await bench.put("small", picture("jpeg"))
    await bench.verify(object="small")
    before = len(os.listdir("/proc/self/fd"))
    task = asyncio.ensure_future(bench.verify(object="a"))
    while not any(
        "deleted" in _target(fd) and "scratch" in _target(fd) for fd in os.listdir("/proc/self/fd")
    ):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await bench.decoders.close()
    assert len(os.listdir("/proc/self/fd")) < before + 1


def _target(fd: str) -> str:
    with contextlib.suppress(FileNotFoundError):
        return os.readlink(f"/proc/self/fd/{fd}")
    return ""


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"object": ""},
        {"object": "../x"},
        {"object": "a\x00"},
        {"object": 5},
        {"object": "a", "url": "http://example.org/"},
        {"object": "a", "expectedSha256": "xyz"},
        {"object": "a", "expectedSha256": "0" * 64 + "\n"},
        {"object": "a", "expectedSizeBytes": -1},
        {"object": "a", "expectedSizeBytes": "5"},
        {"object": "a", "expectedSizeBytes": 2**63},
        {"object": "a", "expectedType": "text/html"},
        {"object_name": "a"},
    ],
)
def test_inputs_that_break_the_schema(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        VerifyInput.model_validate(given)
