"""Bad input: the right status and code, one sentence that names the field, and nothing written."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.integration.api.harness import Api, World, batch, row_counts


def _item(**given: Any) -> dict[str, Any]:
    return {"input": {}, **given}


def _drills(*items: Any, **more: Any) -> str:
    return json.dumps({"type": "demo:drill", "items": list(items), **more})


def _with_input(text: str) -> str:
    """A submission of three whose last item's input has this JSON."""
    return f'{{"type":"demo:drill","items":[{{"input":{{}}}},{{"input":{{}}}},{{"input":{text}}}]}}'


CASES: dict[str, tuple[str | bytes, int, int, str]] = {
    # ── not JSON ──
    "nothing": ("", 400, 40001, "empty"),
    "words": ("hello", 400, 40001, "not JSON"),
    "cut": ('{"type": "demo:drill", "items": [', 400, 40001, "not JSON"),
    "trailing comma": ('{"type": "demo:drill",}', 400, 40001, "not JSON"),
    "two values": ('{}{}', 400, 40001, "not JSON"),
    "not UTF-8": (b'{"type": "demo:drill", "items": [{"ref": "\xff", "input": {}}]}', 400, 40001, "UTF-8"),
    "a byte order mark": (b"\xef\xbb\xbf{}", 400, 40001, "not JSON"),
    "NaN": (_with_input('{"durationMs": NaN}'), 400, 40001, "not JSON"),
    "Infinity": (_with_input('{"durationMs": -Infinity}'), 400, 40001, "not JSON"),
    "a float too large": (_with_input('{"durationMs": 1e999}'), 400, 40001, "not JSON"),
    "a lone surrogate": (_with_input(r'{"resultText": "\ud83d"}'), 400, 40001, "not JSON"),
    "a surrogate as bytes": (b'["' + b"\xed\xa0\x80" + b'"]', 400, 40001, "not JSON"),
    "deep lists": (_with_input("[" * 5000 + "]" * 5000), 400, 40001, "not JSON"),
    # ── JSON that we do not take ──
    "deep": (_with_input('{"a":' * 70 + "1" + "}" * 70), 400, 40001, "64 levels"),
    "an integer too large": (_with_input('{"durationMs": 18446744073709551616}'), 422, 40001, "items[2].input.durationMs"),
    "minus too large": (_with_input('{"durationMs": -9223372036854775809}'), 422, 40001, "items[2].input.durationMs"),
    "NUL": (_with_input(r'{"resultText": "a\u0000b"}'), 422, 40001, "items[2].input.resultText"),
    "NUL in a name": (_with_input(r'{"a\u0000b": 1}'), 422, 40001, "items[2].input.a"),
    "a member twice": (_with_input('{"steps": 1, "steps": 2}'), 422, 40001, "items[2].input.steps"),
    # ── the schema ──
    "a list": ("[]", 422, 40001, "object"),
    "null": ("null", 422, 40001, "object"),
    "no members": ("{}", 422, 40001, "type"),
    "an unknown member": (_drills(_item(), priorty="live"), 422, 40001, "priorty"),
    "a type of the wrong type": ('{"type": 5, "items": [{"input": {}}]}', 422, 40001, "type"),
    "an unknown type": ('{"type": "no:such", "items": [{"input": {}}]}', 422, 40001, "type"),
    "a type of later": ('{"type": "photo:fingerprint", "items": [{"input": {}}]}', 422, 40001, "available are: demo:drill"),
    "no items": ('{"type": "demo:drill", "items": []}', 422, 40001, "items"),
    "items that are none": ('{"type": "demo:drill", "items": {"0": {}}}', 422, 40001, "items"),
    "10,001 items": (_drills(*[_item()] * 10_001), 422, 40001, "items"),
    "an item that is none": (_drills(_item(), 5), 422, 40001, "items[1]"),
    "an item without input": (_drills(_item(), {}), 422, 40001, "items[1].input"),
    "an unknown member of an item": (_drills(_item(), _item(name="x")), 422, 40001, "items[1].name"),
    "an input that is none": (_drills(_item(), {"input": [1]}), 422, 40001, "items[1].input"),
    "an input with a wrong type": (_drills(*[_item()] * 16, _item(input={"steps": "5"})), 422, 40001, "items[16].input.steps"),
    "an input with an unknown member": (_drills(_item(input={"url": "http://x"})), 422, 40001, "items[0].input.url"),
    "the same ref twice": (_drills(_item(ref="a"), _item(ref="b"), _item(ref="a")), 422, 40001, "items[2].ref"),
    "a ref too long": (_drills(_item(ref="x" * 201)), 422, 40001, "items[0].ref"),
    "a ref that is none": (_drills(_item(ref=7)), 422, 40001, "items[0].ref"),
    "metadata that is none": (_drills(_item(), metadata=[1]), 422, 40001, "metadata"),
    "an unknown priority": (_drills(_item(), priority="urgent"), 422, 40001, "priority"),
    "a priority that is none": (_drills(_item(), priority=["live"]), 422, 40001, "priority"),
    # ── sizes ──
    "an input over 16 kB": (_drills(_item(), _item(input={"failMessage": "x" * 16_500})), 422, 40001, "items[1].input"),
    "metadata over 16 kB": (_drills(_item(), metadata={"a": "x" * 16_500}), 413, 41301, "16384"),
}  # fmt: skip


async def test_a_bad_submission(editor: httpx.AsyncClient, pool: Any) -> None:
    for case in CASES:
        body, status, code, words = CASES[case]
        before = await row_counts(pool)
        answer = await editor.post(
            "media-tasks", content=body, headers={"Content-Type": "application/json", "Idempotency-Key": "k"}
        )
        assert (answer.status_code, answer.json()["code"]) == (status, code), (case, answer.text)
        problem = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        fields = [error["field"] for error in problem.get("errors", [])]
        assert words in problem["detail"] or any(words in field for field in fields), (case, problem)
        assert set(problem) <= {"type", "title", "status", "code", "detail", "errors"}
        assert "Traceback" not in answer.text and "/src/" not in answer.text
        assert await row_counts(pool) == before


async def test_an_input_over_16_kb_that_its_schema_allows(
    api: Api, editor: httpx.AsyncClient, pool: Any
) -> None:
    """The limit holds also where the processor's own schema has none."""
    from pydantic import BaseModel, ConfigDict

    from lingxi.processors.contract import Processor
    from lingxi.processors.registry import Registry

    class Anything(BaseModel):
        model_config = ConfigDict(extra="allow")

    async def run(context: Any, given: Anything) -> None: ...

    object.__setattr__(api.deps, "registry", Registry([Processor("media:probe", Anything, run)]))
    before = await row_counts(pool)
    for size, status in ((16 * 1024 - 8, 202), (16 * 1024 - 7, 413)):
        given = {"type": "media:probe", "items": [_item(), _item(input={"a": "x" * size})]}
        answer = await editor.post("media-tasks", json=given)
        assert answer.status_code == status
    assert answer.json()["code"] == 41301
    assert "items[1].input" in answer.json()["detail"] and "16384" in answer.json()["detail"]
    assert (await row_counts(pool))["media_tasks"] == before["media_tasks"] + 1


async def test_good_input_at_its_bounds(editor: httpx.AsyncClient) -> None:
    """What is just allowed is not refused: big numbers, escapes that look bad, odd text, 10,000 items."""
    texts = ["\\u0000 written out", "😀", "Größe \"x\" \\ {}", "\u2028", "a\\", '":"']  # fmt: skip
    for text in texts:
        answer = await editor.post(
            "media-tasks", json=batch(0, items=[_item(ref=text, input={"resultText": text})])
        )
        assert answer.status_code == 202, (text, answer.text)
        items = (await editor.get(f"media-tasks/{answer.json()['id']}/items")).json()["items"]
        assert (items[0]["ref"], items[0]["input"]["resultText"]) == (text, text)
    numbers = {
        "a": 18446744073709551615,
        "b": -9223372036854775808,
        "c": 1.7976931348623157e308,
        "d": 0.1234567890123456789,
    }
    answer = await editor.post("media-tasks", json=batch(1, metadata=numbers))
    assert answer.status_code == 202 and answer.json()["metadata"]["a"] == numbers["a"]
    assert (await editor.post("media-tasks", json=batch(10_000))).json()["counts"]["total"] == 10_000


_ANOTHER_CONTENT_TYPE = ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json"]


async def test_another_content_type(editor: httpx.AsyncClient) -> None:
    for content_type in _ANOTHER_CONTENT_TYPE:
        answer = await editor.post(
            "media-tasks", content=_drills(_item()), headers={"Content-Type": content_type}
        )
        assert (answer.status_code, answer.json()["code"]) == (415, 41501)
        assert "Content-Type" in answer.json()["detail"]


_BAD_QUERIES = [
    ("limit=0", "limit"),
    ("limit=501", "limit"),
    ("limit=abc", "limit"),
    ("limit=1.5", "limit"),
    ("status=done", "status"),
    ("type=no:such", "type"),
    ("createdAfter=yesterday", "createdAfter"),
    ("createdBefore=12", "createdBefore"),
    ("createdAfter=9999-12-31T23:59:59-14:00", "createdAfter"),
    ("createdAfter=0000-01-01T00:00:00Z", "createdAfter"),
    ("sort=asc", "sort"),
    ("metadata.=x", "metadata."),
    ("metadata.a=%00", "metadata.a"),
    ("metadata.a%00=x", "metadata.a"),
    ("metadata.a=1&metadata.a=2", "metadata"),
    ("&".join(f"metadata.{n}=1" for n in range(5)), "metadata"),
    ("metadata.a=" + "x" * 400, "metadata.a"),
]


async def test_bad_queries(editor: httpx.AsyncClient) -> None:
    for query, field in _BAD_QUERIES:
        answer = await editor.get(f"media-tasks?{query}")
        assert (answer.status_code, answer.json()["code"]) == (422, 40001), answer.text
        assert any(error["field"].startswith(field) for error in answer.json()["errors"])


_BAD_CURSORS = ["cursor=abc", "cursor=", "cursor=%00", "cursor=" + "A" * 2000, "cursor=%F0%9F%98%80"]


async def test_bad_cursors(editor: httpx.AsyncClient) -> None:
    for query in _BAD_CURSORS:
        task = (await editor.post("media-tasks", json=batch(1))).json()["id"]
        for path in ("media-tasks", f"media-tasks/{task}/items"):
            answer = await editor.get(f"{path}?{query}")
            assert answer.status_code in (400, 422) and answer.json()["code"] == 40001, answer.text
            assert "cursor" in answer.json()["detail"]


async def test_a_body_where_none_belongs(editor: httpx.AsyncClient) -> None:
    task = (await editor.post("media-tasks", json=batch(1))).json()["id"]
    refused = await editor.post(f"media-tasks/{task}/cancel", json={"force": True})
    assert (refused.status_code, refused.json()["code"]) == (422, 40001)
    assert (await editor.get(f"media-tasks/{task}")).json()["status"] == "queued"
    malformed = await editor.post(
        f"media-tasks/{task}/cancel", content="{", headers={"Content-Type": "application/json"}
    )
    assert (malformed.status_code, malformed.json()["code"]) == (400, 40001)


async def test_the_order_of_checks(api: Api, world: World) -> None:
    """401, 403, 404, key, body, state: each request is wrong in every later way, too."""
    async with api.client(world.ours.editor) as editor:
        task = (await editor.post("media-tasks", json=batch(1))).json()["id"]
        await editor.post(f"media-tasks/{task}/cancel")
    unknown = task[:-8] + "ffff0000"
    steps: list[tuple[int, str | None, str, str, str]] = [
        (40101, None, unknown, "bad key", "{"),
        (40301, world.ours.viewer, unknown, "bad key", "{"),
        (40401, world.ours.editor, unknown, "bad key", "{"),
        (40002, world.ours.editor, task, "bad key", "{"),
        (40001, world.ours.editor, task, "good-key", "{"),
        (40901, world.ours.editor, task, "good-key", "{}"),
    ]
    for code, token, task_id, key, body in steps:
        async with api.client(
            token, **{"Idempotency-Key": key, "Content-Type": "application/json"}
        ) as client:
            answer = await client.post(f"media-tasks/{task_id}/retry-failed", content=body)
            assert answer.json()["code"] == code


# ── objects ──────────────────────────────────────────────────────────────────────────────────────────────
_BAD_OBJECT_NAMES = [
    "%2e%2e/secret",
    "..%2fsecret",
    "a/../../b",
    "a//b",
    "%2fetc/passwd",
    "a%00b",
    "x" * 300,
    "a/./b",
    "a/",
    "%ED%A0%80/..",
]


async def test_bad_object_names(api: Api, world: World, pool: Any) -> None:
    for name in _BAD_OBJECT_NAMES:
        from tests.integration.api.raw import exchange, request

        before = await row_counts(pool)
        for method in ("PUT", "GET"):
            raw = request(
                method,
                f"/api/v1/objects/{name}",
                f"Authorization: Bearer {world.ours.editor}",
                "Content-Length: 1",
                body=b"x",
            )
            answer = await exchange(api.url, [raw])
            assert (answer.status, answer.problem["code"]) == (400, 40001)
            assert "name" in answer.problem["detail"]
        assert await row_counts(pool) == before


async def test_objects_go_in_and_out(editor: httpx.AsyncClient, api: Api, world: World) -> None:
    import hashlib

    content = bytes(range(256)) * 1000
    digest = hashlib.sha256(content).hexdigest()
    put = await editor.put("objects/shoot/灵犀 1.bin", content=content)
    assert (put.status_code, put.json()["sha256"], put.json()["size"]) == (201, digest, len(content))
    assert (await editor.put("objects/shoot/灵犀 1.bin", content=content)).status_code == 200
    other = await editor.put("objects/shoot/灵犀 1.bin", content=b"other")
    assert (other.status_code, other.json()["code"]) == (409, 40901)
    location = api.url + put.headers["location"]
    got = await editor.get(location)
    assert got.content == content
    assert got.headers["content-disposition"].startswith("attachment; filename*=UTF-8''%E7%81%B5")
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["content-security-policy"].startswith("sandbox")
    assert got.headers["etag"] == f'"{digest}"'
    head = await editor.head(location)
    assert (head.headers["content-length"], head.content) == (str(len(content)), b"")
    for asked, start, end in (
        ("bytes=10-19", 10, 20),
        ("bytes=255990-", 255_990, 256_000),
        ("bytes=-5", 255_995, 256_000),
    ):
        part = await editor.get(location, headers={"Range": asked})
        assert (part.status_code, part.content) == (206, content[start:end])
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{len(content)}"
    for whole in ("bytes=999999-", "bytes=5-1", "bytes=-", "bytes=0-1,3-4", "lines=1-2"):
        assert (await editor.get(location, headers={"Range": whole})).status_code == 200
    empty = await editor.put("objects/empty", content=b"")
    assert (empty.status_code, empty.json()["size"], (await editor.get("objects/empty")).content) == (
        201,
        0,
        b"",
    )
