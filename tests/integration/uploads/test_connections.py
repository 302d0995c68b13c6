"""Uploads over connections that break, stall and crawl; storage that fails; two processes that write at once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from lingxi.api import upload_writing
from lingxi.api.limits import Limits
from lingxi.db.session import transaction
from lingxi.services.join_parts import join_parts
from lingxi.services.receive_photo import ReceivedPhoto, Refusal
from lingxi.services.resumable_uploads import expire_uploads
from lingxi.storage.port import CHUNK_BYTES
from tests.integration.api.harness import open_api
from tests.integration.api.raw import exchange, request
from tests.integration.uploads.conftest import open_stage
from tests.integration.uploads.stage import BOUNDARY, FORM, Stage, file_part, form, jpeg, outcomes
from tests.integration.uploads.tus_client import BODY, VERSION, create, created, head, offset, patch
from tests.support.proxy import CuttingProxy
from tests.support.waiting import wait_until

CONTENT = jpeg(1, 200_000)


def _patch_head(stage: Stage, at: str, start: int, length: int) -> bytes:
    headers = {**VERSION, **BODY, "Upload-Offset": str(start), "Content-Length": str(length)}
    headers["Authorization"] = f"Bearer {stage.world.ours.editor}"
    return request("PATCH", httpx.URL(at).path, *(f"{name}: {value}" for name, value in headers.items()))


async def _open(stage: Stage) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = httpx.URL(stage.api.url)
    return await asyncio.open_connection(address.host, address.port)


def _received(stage: Stage) -> int:
    """How many bytes of bodies of PATCH the server has taken that are not at their end."""
    bodies = stage.api.app.state.upload_writers._bodies.values()
    return sum(body.received_bytes for body in bodies)


async def test_a_patch_that_is_cut_keeps_what_has_come(stage: Stage) -> None:
    at = await created(stage, len(CONTENT))
    _, writer = await _open(stage)
    writer.write(_patch_head(stage, at, 0, len(CONTENT)) + CONTENT[:123_456])
    await writer.drain()
    writer.close()

    async def kept() -> bool:
        return await offset(stage, at) == 123_456

    await wait_until(kept, message="what has come is kept")
    assert (await patch(stage, at, 123_456, CONTENT[123_456:])).status_code == 204
    [photo] = await stage.photos()
    assert photo["sha256"] == hashlib.sha256(CONTENT).digest()


async def test_a_patch_that_stalls_is_told_so_and_keeps_what_has_come(stage: Stage) -> None:
    at = await created(stage, len(CONTENT))
    answer = await exchange(stage.api.url, [_patch_head(stage, at, 0, len(CONTENT)), CONTENT[:5000]])
    assert (answer.status, answer.problem["code"], answer.closed) == (408, 40801, True)
    assert answer.headers["tus-resumable"] == "1.0.0"
    assert await offset(stage, at) == 5000


async def test_a_connection_that_died_unnoticed_makes_way(roomy: Stage) -> None:
    """The server has heard nothing of its end: whoever asks where the upload stands goes on from there at once."""
    at = await created(roomy, len(CONTENT))
    reader, writer = await _open(roomy)
    writer.write(_patch_head(roomy, at, 0, len(CONTENT)) + CONTENT[:100_000])
    await writer.drain()
    await wait_until(lambda: _received(roomy) == 100_000, message="the first bytes arrive")
    assert await offset(roomy, at) == 100_000
    assert b" 423 " in await asyncio.wait_for(reader.readuntil(b"\r\n"), 20)
    assert (await patch(roomy, at, 100_000, CONTENT[100_000:])).status_code == 204
    writer.close()
    [photo] = await roomy.photos()
    assert photo["sha256"] == hashlib.sha256(CONTENT).digest()


async def test_another_process_takes_over_and_the_old_one_writes_nothing_any_more(
    roomy: Stage, database_url: str, redis_url: str
) -> None:
    at = await created(roomy, len(CONTENT))
    reader, writer = await _open(roomy)
    writer.write(_patch_head(roomy, at, 0, len(CONTENT)) + b"\xff\xd8\xff" + bytes(100_000))
    await writer.drain()
    await wait_until(lambda: _received(roomy) == 100_003, message="the first bytes arrive")
    async with open_api(database_url, redis_url, roomy.folder.parent, limits=Limits()) as other:
        elsewhere = replace(roomy, api=other)
        there = other.url + httpx.URL(at).path
        assert await offset(elsewhere, there) == 0
        assert (await patch(elsewhere, there, 0, CONTENT[:90_000])).status_code == 204
    writer.write(bytes(len(CONTENT) - 100_003))
    await writer.drain()
    assert b" 423 " in await asyncio.wait_for(reader.readuntil(b"\r\n"), 20)
    writer.close()
    assert (await patch(roomy, at, 90_000, CONTENT[90_000:])).status_code == 204
    [photo] = await roomy.photos()
    assert photo["sha256"] == hashlib.sha256(CONTENT).digest()
    assert roomy.stored() == [photo["storage_key"]]


async def test_an_answer_that_is_lost_is_told_again(
    stage: Stage, proxy_to: Callable[[str], CuttingProxy]
) -> None:
    proxy = proxy_to(stage.api.url)
    body = form([file_part(b"a.jpg", jpeg(7))])
    proxy.swallow_reply_to(BOUNDARY + b"--")
    async with httpx.AsyncClient(headers=dict(stage.client.headers), timeout=20) as client:
        with pytest.raises(httpx.TransportError):
            url = proxy.url(f"{stage.api.url}/api/v1/{stage.path}")
            await client.post(url, content=body, headers=FORM)
    [photo] = await stage.photos()
    again = await stage.post_raw(body)
    assert (again.status_code, outcomes(again)) == (200, [("exists", "")])
    assert again.json()["files"][0]["photo"]["id"] == str(photo["id"])
    assert (await stage.count("outbox_events"), stage.stored()) == (1, [photo["storage_key"]])


async def test_a_form_that_is_cut_leaves_nothing(roomy: Stage) -> None:
    body = form([file_part(b"a.jpg", jpeg(1)), file_part(b"b.jpg", jpeg(2, 3 * CHUNK_BYTES))])
    _, writer = await _open(roomy)
    lines = [f"Authorization: Bearer {roomy.world.ours.editor}", *(f"{n}: {v}" for n, v in FORM.items())]
    writer.write(
        request("POST", f"/api/v1/{roomy.path}", *lines, f"Content-Length: {len(body)}")
        + body[: 2 * CHUNK_BYTES]
    )
    await writer.drain()
    await wait_until(lambda: len(roomy.stored()) == 2, message="one file is stored, one is on its way")
    writer.close()
    await wait_until(lambda: roomy.stored() == [], message="both are removed")
    assert await roomy.photos() == []


async def test_a_large_body_may_crawl_as_long_as_it_moves(
    database_url: str, redis_url: str, world: Any, pool: Any, tmp_path: Path
) -> None:
    """Longer than any silence or JSON body may be; and 408 once nothing comes any more."""
    limits = Limits(body_timeout_seconds=1.0)
    async with open_stage(database_url, redis_url, world, pool, tmp_path, limits) as stage:
        body = form([file_part(b"a.jpg", jpeg(1, 500_000))])
        started = asyncio.get_running_loop().time()

        async def crawling() -> AsyncIterator[bytes]:
            for start in range(0, len(body), 20_000):
                yield body[start : start + 20_000]
                await asyncio.sleep(0.1)

        response = await stage.client.post(stage.path, content=crawling(), headers=FORM)
        assert response.status_code == 201, response.text
        assert asyncio.get_running_loop().time() - started > 2 * limits.body_timeout_seconds
        lines = [f"Authorization: Bearer {stage.world.ours.editor}", *(f"{n}: {v}" for n, v in FORM.items())]
        stalled = request("POST", f"/api/v1/{stage.path}", *lines, "Content-Length: 900000") + body[:300_000]
        answer = await exchange(stage.api.url, [stalled])
        assert (answer.status, answer.problem["code"], answer.closed) == (408, 40801, True)
        assert len(stage.stored()) == 1


async def test_while_storage_is_away_files_are_refused_and_can_be_sent_again(stage: Stage) -> None:
    at = await created(stage, len(CONTENT))
    aside = stage.folder.rename(stage.folder.with_name("aside"))
    stage.folder.mkdir()  # as where a disk is not mounted
    alone = await stage.post(("a.jpg", jpeg(1)))
    assert (alone.status_code, alone.json()["code"]) == (500, 50001)
    both = await stage.post(("a.jpg", jpeg(1)), ("b.txt", b"words"))
    assert outcomes(both) == [("refused", "storage_unavailable"), ("refused", "unsupported_type")]
    assert ((await patch(stage, at, 0, CONTENT)).status_code, await offset(stage, at)) == (500, 0)
    stage.folder.rmdir()
    aside.rename(stage.folder)
    assert (await stage.post(("a.jpg", jpeg(1)))).status_code == 201
    assert (await patch(stage, at, 0, CONTENT)).status_code == 204


async def test_a_photo_that_could_not_be_made_of_all_bytes_is_made_when_the_client_asks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All bytes are there, so the client would call it done: HEAD must not say so without a photo."""
    at = await created(stage, len(CONTENT))
    await patch(stage, at, 0, CONTENT[:1000])
    failures = [1, 2]

    async def failing(*given: Any) -> ReceivedPhoto:
        if failures:
            failures.pop()
            return ReceivedPhoto("a.jpg", b"", refusal=Refusal("storage_unavailable", "It did not answer."))
        return await join_parts(*given)

    monkeypatch.setattr(upload_writing, "join_parts", failing)
    assert (await patch(stage, at, 1000, CONTENT[1000:])).status_code == 500
    assert (await head(stage, at)).status_code == 500 and await stage.photos() == []
    answer = await head(stage, at)
    [photo] = await stage.photos()
    assert (answer.status_code, answer.headers["lingxi-photo-id"]) == (200, str(photo["id"]))
    assert stage.stored() == [photo["storage_key"]]


async def test_an_upload_that_expired_is_gone_and_its_bytes_are_in_the_trash(stage: Stage) -> None:
    at = await created(stage, len(CONTENT))
    await patch(stage, at, 0, CONTENT[:1000])
    done = await create(stage, len(CONTENT), CONTENT)
    await stage.pool.execute("update uploads set expires_at = now() - interval '1 second'")
    assert (await head(stage, at)).status_code == 404
    assert (await patch(stage, at, 1000, CONTENT[1000:])).status_code == 404
    keys = [row["storage_key"] for row in await stage.pool.fetch("select storage_key from upload_parts")]
    async with transaction(stage.pool) as connection:
        assert await expire_uploads(connection, limit=10) == 2
    trash = await stage.pool.fetch("select storage_key from object_trash where remove_at <= now()")
    assert [row["storage_key"] for row in trash] == keys and len(keys) == 1
    assert await stage.count("uploads") == 0 and await stage.count("upload_parts") == 0
    [photo] = await stage.photos()
    assert str(photo["id"]) == done.headers["lingxi-photo-id"] and photo["storage_key"] not in keys
