"""The client against a real server that plays scripted answers: keys, repeats, refusals, and the watch's resumption."""

import json
from pathlib import Path

import pytest

from lingxi.client import (
    ApiError,
    Client,
    Closing,
    End,
    Reconnecting,
    Reset,
    Snapshot,
    StreamBroken,
    SyncClient,
    TaskState,
    Unreachable,
)
from tests.unit.client.scripted_server import answer, frame, item, serve, stream, task

TASK = "0198c0de-0000-7000-8000-000000000000"
PROBLEM = {"type": "about:blank", "title": "Conflict", "status": 409, "code": 40901, "detail": "It has ended"}
RETRY_NOW = "retry: 1"


async def test_a_lost_answer_is_asked_for_again_under_the_same_key() -> None:
    lost, busy, made_it = None, answer(503, {"code": 50003}), answer(202, task(1, "queued", queued=1))
    async with serve(lost, busy, made_it) as server, Client(server.url, "lx_secret") as client:
        made = await client.submit("demo:drill", [{"input": {}}], metadata={"a": 1})
    assert (made.status, made.counts.queued) == ("queued", 1)
    keys = {request.headers["idempotency-key"] for request in server.seen}
    assert len(server.seen) == 3
    assert len(keys) == 1
    assert {request.body for request in server.seen} == {server.seen[0].body}
    assert json.loads(server.seen[0].body) == {
        "type": "demo:drill",
        "items": [{"input": {}}],
        "metadata": {"a": 1},
    }
    assert server.seen[0].headers["authorization"] == "Bearer lx_secret"


async def test_two_calls_have_two_keys() -> None:
    final = task(9, "cancelled", cancelled=1)
    async with serve(answer(200, final), answer(202, final)) as server, Client(server.url, None) as client:
        await client.cancel(TASK)
        await client.retry_failed(TASK)
    assert server.seen[0].headers["idempotency-key"] != server.seen[1].headers["idempotency-key"]
    assert [seen.path for seen in server.seen] == [
        f"/api/v1/media-tasks/{TASK}/cancel",
        f"/api/v1/media-tasks/{TASK}/retry-failed",
    ]


async def test_a_refusal_is_not_repeated_and_carries_its_code() -> None:
    wrong = {
        **PROBLEM,
        "status": 422,
        "code": 40001,
        "errors": [{"field": "items.16.input", "message": "too big"}],
    }
    async with serve(answer(422, wrong)) as server, Client(server.url, None) as client:
        with pytest.raises(ApiError) as caught:
            await client.submit("demo:drill", [])
    assert (caught.value.status, caught.value.code, caught.value.is_refusal) == (422, 40001, True)
    assert str(caught.value) == "It has ended: items.16.input: too big (40001)"
    assert len(server.seen) == 1


async def test_a_proxys_page_is_an_error_with_its_status() -> None:
    async with serve(answer(404, "not found")) as server, Client(server.url, None) as client:
        with pytest.raises(ApiError) as caught:
            await client.get(TASK)
    assert (caught.value.status, caught.value.code) == (404, 40400)


async def test_nobody_there() -> None:
    async with serve() as server:
        url = server.url
    async with Client(url, None) as client:
        with pytest.raises(Unreachable, match="Nothing answers"):
            await client.get(TASK)


async def test_somebody_else_there() -> None:
    async with serve(stream("<html>")) as server, Client(server.url, None) as client:
        with pytest.raises(Unreachable, match="not this service"):
            await client.get(TASK)


@pytest.mark.parametrize("url", ["localhost:3000", "ftp://example", "", "http://"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ValueError, match="http"):
        Client(url, None)


async def test_the_watch_resumes_where_it_was_cut() -> None:
    end = task(5, "succeeded", succeeded=2)
    async with (
        serve(
            stream(RETRY_NOW, frame("snapshot", task(2, queued=2), 2), frame("item", item(0, "running"), 3)),
            None,
            stream(frame("item", item(0, "succeeded"), 4), frame("closing", {})),
            stream(frame("item", item(1, "succeeded"), 4), frame("newer", {}), frame("end", end, 5)),
        ) as server,
        Client(server.url, None) as client,
    ):
        state = TaskState()
        kinds = []
        async for one in client.watch(TASK):
            state.apply(one)
            kinds.append(type(one))
    assert [seen.headers.get("last-event-id") for seen in server.seen] == [None, "3", "3", "4"]
    assert kinds.count(Reconnecting) == 3
    assert Closing in kinds
    assert state.ended
    assert state.counts.succeeded == 2
    assert {index: one.state for index, one in state.items.items()} == {0: "succeeded", 1: "succeeded"}


async def test_a_reset_forgets_what_was_known() -> None:
    async with (
        serve(
            stream(RETRY_NOW, frame("item", item(5, "running"), 998)),
            stream(frame("reset", {})),
            stream(frame("snapshot", task(7, succeeded=1), 7), frame("item", item(0, "succeeded"), 7)),
            stream(frame("end", task(8, "succeeded", succeeded=1), 8)),
        ) as server,
        Client(server.url, None) as client,
    ):
        state = TaskState()
        frames = []
        async for one in client.watch(TASK, last_event_id="997"):
            state.apply(one)
            frames.append(one)
    assert any(isinstance(one, Reset) for one in frames)
    assert [seen.headers.get("last-event-id") for seen in server.seen] == ["997", "998", None, "7"]
    assert list(state.items) == [0]


async def test_204_is_an_end_too() -> None:
    no_content = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
    final = task(8, "failed", failed=1)
    async with serve(no_content, answer(200, final)) as server, Client(server.url, None) as client:
        frames = [one async for one in client.watch(TASK, last_event_id="8")]
    assert isinstance(frames[0], End)
    assert frames[0].task.status == "failed"


async def test_a_refused_watch_says_so_and_a_busy_server_is_asked_again() -> None:
    unknown = {**PROBLEM, "status": 404, "code": 40401}
    busy = {**PROBLEM, "status": 503, "code": 50003}
    async with serve(answer(503, busy), answer(404, unknown)) as server, Client(server.url, None) as client:
        with pytest.raises(ApiError) as caught:
            async for one in client.watch(TASK):
                assert isinstance(one, Reconnecting)
    assert caught.value.code == 40401


async def test_patience_ends() -> None:
    async with serve() as server:
        url = server.url
    async with Client(url, None) as client:
        with pytest.raises(Unreachable, match="gave up"):
            async for one in client.watch(TASK, patience_seconds=0.3):
                assert isinstance(one, Reconnecting)


async def test_nonsense_in_the_stream_is_not_swallowed() -> None:
    async with serve(stream(frame("snapshot", {"id": 1}, 1))) as server, Client(server.url, None) as client:
        with pytest.raises(StreamBroken, match="snapshot"):
            async for _ in client.watch(TASK):
                pass


async def test_pages_of_items_are_followed() -> None:
    rows = [
        {"id": f"i{index}", **item(index, "failed"), "error": {"code": "x", "message": "m"}}
        for index in (0, 1)
    ]
    async with (
        serve(
            answer(200, {"items": rows[:1], "nextCursor": "abc"}),
            answer(200, {"items": rows[1:], "nextCursor": None}),
        ) as server,
        Client(server.url, None) as client,
    ):
        found = [one async for one in client.items(TASK, state="failed", limit=1)]
    assert [(one.index, one.error.code if one.error else "") for one in found] == [(0, "x"), (1, "x")]
    assert server.seen[1].path.endswith("items?limit=1&state=failed&cursor=abc")


async def test_objects_are_sent_with_their_length_and_a_quoted_name(tmp_path: Path) -> None:
    photo = tmp_path / "a.jpg"
    photo.write_bytes(b"x" * 600_000)
    async with serve(answer(201, {"name": "ü/a.jpg"})) as server, Client(server.url, None) as client:
        assert await client.put_object("ü/a b.jpg", photo) == {"name": "ü/a.jpg"}
    assert server.seen[0].path == "/api/v1/objects/%C3%BC%2Fa%20b.jpg"
    assert server.seen[0].body == photo.read_bytes()


async def test_the_first_frame_of_a_fresh_watch_is_the_snapshot() -> None:
    async with (
        serve(stream(frame("snapshot", task(1, queued=1), 1))) as server,
        Client(server.url, None) as client,
    ):
        watch = client.watch(TASK)
        assert isinstance(await anext(watch), Snapshot)
        await watch.aclose()


def test_the_blocking_client_watches_too() -> None:
    import asyncio
    import threading

    started, stop = threading.Event(), threading.Event()
    urls = []

    async def run() -> None:
        async with serve(
            stream(RETRY_NOW, frame("snapshot", task(1, queued=1), 1)),
            stream(frame("end", task(2, "succeeded", succeeded=1), 2)),
        ) as server:
            urls.append(server.url)
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert started.wait(10)
        with SyncClient(urls[0], None) as client:
            assert [type(one).__name__ for one in client.watch(TASK)] == ["Snapshot", "Reconnecting", "End"]
    finally:
        stop.set()
        thread.join()
