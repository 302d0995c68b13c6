"""The feed over HTTP, as the API serves it: who may open it, how it ends, what is counted."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from starlette.requests import Request

from lingxi.api.share_cookies import open_share
from lingxi.conformance.connection import StreamConnection
from lingxi.services.albums import create_album
from lingxi.services.share_links import create_share_link, revoke_share_link
from tests.integration.api.harness import Api, World, make_world, open_api
from tests.support.waiting import wait_until


@pytest.fixture
async def world(pool: Any) -> World:
    return await make_world(pool)


@pytest.fixture
async def api(database_url: str, redis_url: str, world: World, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(database_url, redis_url, tmp_path) as opened:
        yield opened


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def _stream(
    api: Api, album_id: object, headers: Mapping[str, str], query: str = ""
) -> AsyncIterator[StreamConnection]:
    url = f"{api.url}/api/v1/albums/{album_id}/events{query}"
    async with await StreamConnection.open(url, headers) as stream:
        yield stream


async def _share(api: Api, pool: Any, album_id: Any) -> tuple[Any, dict[str, str]]:
    async with pool.acquire() as c:
        link, secret = await create_share_link(c, album_id, lifetime_seconds=None)
    opened = await open_share(Request(_visit(api)), secret)
    assert opened is not None
    return link, {"Cookie": f"{opened.cookie_name}={opened.cookie}"}


def _visit(api: Api) -> dict[str, Any]:
    """What the page of a share link is asked with."""
    return {"type": "http", "app": api.app, "client": ("127.0.0.1", 1), "headers": [], "path": "/s/x"}


async def test_every_way_to_be_known_opens_the_feed_and_nothing_else_does(
    api: Api, world: World, pool: Any
) -> None:
    async with pool.acquire() as c:
        album = await create_album(c, world.ours.workspace_id, "ours")
        other = await create_album(c, world.ours.workspace_id, "another")
    link, cookie = await _share(api, pool, album.id)
    async with api.client(world.ours.viewer) as client:
        answer = await client.post(f"albums/{album.id}/stream-token")
        token = answer.json()["token"]
    async with api.client() as client:
        signed_in = await client.post("session", headers=_bearer(world.ours.viewer))
        session = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0]}
    ways = [
        (_bearer(world.ours.viewer), ""),
        (session, ""),
        (cookie, ""),
        ({}, f"?token={token}"),
    ]
    counts = []
    for headers, query in ways:
        async with _stream(api, album.id, headers, query) as stream:
            assert stream.is_stream, stream.body
            assert stream.headers["x-accel-buffering"] == "no"
            frame = await stream.next()
            assert frame is not None and (frame.event, frame.id) == ("snapshot", "1")
            assert frame.data["name"] == "ours"
            counts.append(set(frame.data["counts"]))
    assert counts[2] == {"published"} and all("photos" in one for one in (*counts[:2], counts[3]))

    refused = [
        (album.id, {}, "", 401),
        (album.id, _bearer("lx_wrong"), "", 401),
        (album.id, _bearer("lx_wrong") | cookie, "", 401),
        (album.id, _bearer(world.theirs.admin), "", 404),
        (album.id, {}, "?token=forged", 401),
        (other.id, {}, f"?token={token}", 401),
        (other.id, cookie, "", 404),
        (uuid4(), cookie, "", 404),
        (uuid4(), _bearer(world.ours.viewer), "", 404),
        ("nonsense", _bearer(world.ours.viewer), "", 404),
    ]
    bodies = set()
    for album_id, headers, query, status in refused:
        async with _stream(api, album_id, headers, query) as stream:
            assert stream.status == status, (album_id, headers, stream.body)
            bodies |= {stream.body} if status == 404 else set()
    assert len(bodies) == 1

    async with _stream(api, album.id, cookie) as stream, _stream(api, album.id, session) as member:
        await stream.next()
        async with pool.acquire() as c:
            await revoke_share_link(c, album.id, link.id)
        api.deps.hub.hint_access()
        assert await stream.next() is None
        async with _stream(api, album.id, cookie) as again:
            assert again.status == 404
        assert (await member.next()) is not None


async def test_streams_are_counted_by_kind_and_take_no_time(api: Api, world: World, pool: Any) -> None:
    """An open stream is a connection of its kind; when it has ended, the latency of its request is not its life."""
    async with pool.acquire() as c:
        album = await create_album(c, world.ours.workspace_id, "ours")
    _, cookie = await _share(api, pool, album.id)
    began = time.monotonic()
    async with (
        _stream(api, album.id, cookie) as guest,
        _stream(api, album.id, _bearer(world.ours.viewer)) as member,
    ):
        await guest.next()
        await member.next()
        opening_seconds = 2 * (time.monotonic() - began)  # more than both took
        async with api.client() as client:
            text = (await client.get("metrics")).text
        assert 'lingxi_stream_connections{kind="share"} 1' in text
        assert 'lingxi_stream_connections{kind="album"} 1' in text
        assert 'lingxi_stream_connections{kind="task"} 0' in text
        assert "# TYPE lingxi_stream_ended_total counter" in text
        with pytest.raises(TimeoutError):
            await guest.next(2 * opening_seconds)  # silence, while they live
        await api.deps.hub.close()
        frame = await member.next()
        assert frame is not None and frame.event == "closing"
    async with api.client() as client:
        lines = (await client.get("metrics")).text.splitlines()
    (total,) = [
        line
        for line in lines
        if line.startswith("lingxi_http_request_seconds_sum") and "albumId}/events" in line
    ]
    assert float(total.rsplit(" ", 1)[1]) <= opening_seconds


async def test_too_many_streams_are_refused(
    database_url: str, redis_url: str, world: World, tmp_path: Path, pool: Any
) -> None:
    """Of one share link, of one address; a stream that ends gives its place back."""
    async with open_api(database_url, redis_url, tmp_path) as api, pool.acquire() as c:
        album = await create_album(c, world.ours.workspace_id, "ours")
        _, cookie = await _share(api, pool, album.id)
        api.deps.hub._places._per_grant, api.deps.hub._places._per_address = 2, 3
        async with _stream(api, album.id, cookie) as first, _stream(api, album.id, cookie) as second:
            await first.next()
            await second.next()
            async with _stream(api, album.id, cookie) as third:
                assert third.status == 429 and third.headers["retry-after"] == "10"
                assert b"share link" in third.body
            async with _stream(api, album.id, _bearer(world.ours.viewer)) as member:
                await member.next()
                async with _stream(api, album.id, _bearer(world.ours.editor)) as fourth:
                    assert fourth.status == 429 and b"address" in fourth.body
        await wait_until(lambda: api.deps.hub.watchers == 0, 10, "they have left")
        async with _stream(api, album.id, cookie) as again:
            assert again.status == 200
        assert api.deps.hub.counts.refused == 2
