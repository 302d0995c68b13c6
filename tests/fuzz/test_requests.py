"""Keys, cursors, event ids and headers as nobody would send them: each gets an answer with a code, and none a 5xx."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from lingxi.domain.errors import PROBLEMS
from tests.integration.api.conftest import world
from tests.integration.api.harness import Api, World, batch, open_api
from tests.integration.uploads.conftest import stage
from tests.integration.uploads.stage import FORM, Stage, form, jpeg, part

__all__ = ["stage", "world"]
T = TypeVar("T")
COUNTS = pytest.mark.parametrize(
    "count", [40, pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
# What may stand in a header at all: the server's parser refuses the rest before us.
HEADER = some.binary(max_size=300).map(
    lambda raw: bytes(byte for byte in raw if byte >= 32 and byte != 127).strip()
)
NUMBERS = some.integers(-(2**70), 2**70).map(lambda number: str(number).encode())
ODD = some.sampled_from(
    [
        b"",
        b"0",
        b"-0",
        b"+1",
        b"1e3",
        b"0x1",
        b"1.0",
        b"9" * 5000,
        "１".encode(),
        b"nan",
        b"null",
        b"1,2",
        b"%00",
    ]
)


def drawn(count: int, strategy: some.SearchStrategy[T]) -> list[T]:
    """The same ones each time."""
    found: list[T] = []

    @settings(max_examples=count, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def draw(one: T) -> None:
        found.append(one)

    draw()
    return found


def is_refused(answer: httpx.Response, *codes: int) -> bool:
    """Is it a refusal with a known code (one of `codes`)? A success is none; anything else fails the test."""
    assert answer.status_code < 500, (answer.request.headers, answer.text)
    if answer.status_code < 400:
        return False
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    code = answer.json()["code"]
    assert code in PROBLEMS and (not codes or code in codes), answer.text
    return True


@pytest.fixture
async def api(database_url: str, redis_url: str, world: World, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(database_url, redis_url, tmp_path) as opened:
        yield opened


@pytest.fixture
def sound(capsys: pytest.CaptureFixture[str]) -> Callable[[], None]:
    """What the log must not hold after all of it."""

    def look() -> None:
        out = "".join(capsys.readouterr())
        assert "Traceback" not in out and "request_failed" not in out

    return look


@COUNTS
async def test_any_key_is_answered_with_a_code(
    api: Api, world: World, count: int, sound: Callable[[], None]
) -> None:
    body = json.dumps(batch(1)).encode()
    async with api.client(world.ours.editor) as client:
        for key in drawn(count, HEADER | ODD):
            headers = [(b"Idempotency-Key", key), (b"Content-Type", b"application/json")]
            answer = await client.post("media-tasks", content=body, headers=headers)
            visible = 1 <= len(key) <= 255 and all(33 <= byte <= 126 for byte in key)
            assert is_refused(answer, 40001, 40002) != visible, key
    sound()


@COUNTS
async def test_any_last_event_id_is_honoured_or_reset(
    api: Api, world: World, count: int, sound: Callable[[], None]
) -> None:
    """An ended task: its stream ends by itself. Garbage is answered with a `reset` and everything."""
    async with api.client(world.ours.editor) as client:
        task = (await client.post("media-tasks", json=batch(3))).json()["id"]
        last = (await client.post(f"media-tasks/{task}/cancel")).json()["cursor"]
        for given_id in drawn(count, HEADER | ODD | NUMBERS):
            answer = await client.get(f"media-tasks/{task}/events", headers=[(b"Last-Event-ID", given_id)])
            assert not is_refused(answer), given_id
            known = given_id.isdigit() and len(given_id) < 20 and int(given_id) <= last
            if known and int(given_id) == last:
                assert answer.status_code == 204
            elif given_id and not known:
                assert "event: reset" in answer.text, given_id
            text = given_id.decode("latin-1")
            answer = await client.get(f"media-tasks/{task}/events", params={"lastEventId": text})
            assert not is_refused(answer), text
    sound()


@COUNTS
async def test_any_cursor_is_a_cursor_or_refused(
    api: Api, world: World, count: int, sound: Callable[[], None]
) -> None:
    async with api.client(world.ours.editor) as client:
        for _ in range(3):
            await client.post("media-tasks", json=batch(1))
        real = (await client.get("media-tasks?limit=1")).json()["nextCursor"]
        bent = some.tuples(some.integers(0, len(real) - 1), some.characters(codec="ascii")).map(
            lambda at: real[: at[0]] + at[1] + real[at[0] + 1 :]
        )
        cut = some.integers(0, len(real) - 1).map(lambda end: real[:end])
        for cursor in drawn(count, some.text(max_size=200) | bent | cut):
            if cursor.isprintable() or "\ud800" not in cursor:
                text = cursor.encode("utf-8", "replace").decode()
                answer = await client.get("media-tasks", params={"limit": "1", "cursor": text})
                assert is_refused(answer, 40001) or text in (real, ""), text
    sound()


@COUNTS
async def test_any_form_is_answered_and_leaves_only_photos(
    stage: Stage, count: int, sound: Callable[[], None]
) -> None:
    """Headers of parts, the form's bytes and its type: bent at random."""
    good = form([part(b'form-data; name="files"; filename="a.jpg"', jpeg(1))])
    flips = some.lists(
        some.tuples(some.integers(0, len(good) - 1), some.integers(0, 255)), min_size=1, max_size=6
    )
    bodies = (
        some.tuples(HEADER, some.binary(max_size=200)).map(lambda pair: form([part(*pair)]))
        | flips.map(lambda places: bytes(dict(places).get(n, byte) for n, byte in enumerate(good)))
        | some.integers(0, len(good)).map(lambda end: good[:end])
    )
    types = some.just(FORM["Content-Type"].encode()) | HEADER
    path = f"albums/{stage.album_id}/photos"
    for body, content_type in drawn(count, some.tuples(bodies, types)):
        answer = await stage.client.post(path, content=body, headers=[(b"Content-Type", content_type)])
        is_refused(answer)
    assert stage.stored() == sorted(photo["storage_key"] for photo in await stage.photos())
    sound()


@COUNTS
async def test_any_header_of_a_resumable_upload_is_answered(
    stage: Stage, count: int, sound: Callable[[], None]
) -> None:
    names = some.sampled_from([
        b"Upload-Length", b"Upload-Offset", b"Upload-Metadata", b"Upload-Checksum", b"Upload-Defer-Length", b"Upload-Concat",
        b"Tus-Resumable", b"Range", b"If-None-Match", b"If-Range", b"X-HTTP-Method-Override", b"Content-Type",
    ])  # fmt: skip
    values = (
        HEADER
        | ODD
        | NUMBERS
        | some.sampled_from([b"filename 8J+YgA==", b"sha1 AAAA", b"1.0.0", b"bytes=0-", b"PATCH"])
    )
    album: Any = str(stage.album_id)
    for method, headers in drawn(
        count,
        some.tuples(
            some.sampled_from(["POST", "PATCH", "HEAD", "DELETE"]),
            some.dictionaries(names, values, max_size=5),
        ),
    ):
        given_headers = {b"Tus-Resumable": b"1.0.0", b"Upload-Length": b"10", **headers}
        answer = await stage.client.request(
            method, f"albums/{album}/uploads", content=b"x" * 5, headers=list(given_headers.items())
        )
        assert answer.status_code < 500, (method, headers, answer.text)
    sound()
