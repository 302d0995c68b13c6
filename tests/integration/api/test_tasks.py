"""The task protocol, as a client meets it."""

from __future__ import annotations

from typing import Any

import httpx

from tests.integration.api.harness import Api, World, batch


async def test_a_submitted_task_is_queued_and_can_be_read(editor: httpx.AsyncClient) -> None:
    answer = await editor.post("media-tasks", json=batch(3, metadata={"album": "a"}, priority="bulk"))
    assert answer.status_code == 202, answer.text
    task = answer.json()
    assert answer.headers["location"] == f"/api/v1/media-tasks/{task['id']}"
    assert task["status"] == "queued"
    assert task["counts"] == {
        "total": 3, "queued": 3, "running": 0, "retrying": 0, "succeeded": 0, "failed": 0, "cancelled": 0,
    }  # fmt: skip
    assert (task["priority"], task["metadata"], task["round"], task["cursor"]) == (
        "bulk",
        {"album": "a"},
        1,
        1,
    )
    assert (await editor.get(f"media-tasks/{task['id']}")).json() == task
    items = (await editor.get(f"media-tasks/{task['id']}/items")).json()
    assert [item["ref"] for item in items["items"]] == ["r0", "r1", "r2"]
    assert [item["index"] for item in items["items"]] == [0, 1, 2]
    assert items["items"][1]["input"] == {"durationMs": 1}
    assert items["items"][1]["attempts"] == []
    assert items["nextCursor"] is None


async def test_pages_stay_whole_while_tasks_arrive(editor: httpx.AsyncClient) -> None:
    first = [(await editor.post("media-tasks", json=batch(1))).json()["id"] for _ in range(5)]
    page = (await editor.get("media-tasks", params={"limit": 2})).json()
    seen = [task["id"] for task in page["tasks"]]
    while page["nextCursor"]:
        await editor.post("media-tasks", json=batch(1))
        page = (await editor.get("media-tasks", params={"limit": 2, "cursor": page["nextCursor"]})).json()
        seen += [task["id"] for task in page["tasks"]]
    assert seen == first[::-1]


async def test_filters(editor: httpx.AsyncClient) -> None:
    one = (await editor.post("media-tasks", json=batch(1, metadata={"album": "a", "n": 3}))).json()
    two = (await editor.post("media-tasks", json=batch(1, metadata={"album": "b", "n": "3"}))).json()
    await editor.post(f"media-tasks/{two['id']}/cancel")

    async def ids(**query: Any) -> list[str]:
        answer = await editor.get("media-tasks", params=query)
        assert answer.status_code == 200, answer.text
        return [task["id"] for task in answer.json()["tasks"]]

    assert await ids(status="cancelled") == [two["id"]]
    assert await ids(status=["cancelled", "queued"]) == [two["id"], one["id"]]
    assert await ids(type="media:verify") == []
    assert await ids(**{"metadata.album": "a"}) == [one["id"]]
    assert await ids(**{"metadata.n": "3"}) == [two["id"], one["id"]]
    assert await ids(**{"metadata.album": "a", "metadata.n": "4"}) == []
    assert await ids(createdAfter=two["createdAt"]) == [two["id"]]
    assert await ids(createdBefore=two["createdAt"]) == [one["id"]]


async def test_items_page_by_state(editor: httpx.AsyncClient) -> None:
    task = (await editor.post("media-tasks", json=batch(5))).json()
    path = f"media-tasks/{task['id']}/items"
    seen: list[int] = []
    query: dict[str, Any] = {"limit": 2, "state": "queued"}
    while True:
        page = (await editor.get(path, params=query)).json()
        seen += [item["index"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    assert seen == [0, 1, 2, 3, 4]
    assert (await editor.get(path, params={"state": "failed"})).json()["items"] == []


async def test_cancel_is_idempotent_and_retry_needs_failures(editor: httpx.AsyncClient) -> None:
    task = (await editor.post("media-tasks", json=batch(2))).json()
    first = await editor.post(f"media-tasks/{task['id']}/cancel")
    assert (first.status_code, first.json()["status"]) == (200, "cancelled")
    again = await editor.post(f"media-tasks/{task['id']}/cancel", json={})
    assert (again.status_code, again.content) == (200, first.content)
    refused = await editor.post(f"media-tasks/{task['id']}/retry-failed")
    assert (refused.status_code, refused.json()["code"]) == (409, 40901)


async def test_a_cursor_of_another_workspace_or_other_filters_is_refused(api: Api, world: World) -> None:
    async with api.client(world.ours.editor) as ours, api.client(world.theirs.editor) as theirs:
        for client in (ours, ours, theirs, theirs):
            await client.post("media-tasks", json=batch(2))
        cursor = (await ours.get("media-tasks", params={"limit": 1})).json()["nextCursor"]
        assert (await ours.get("media-tasks", params={"limit": 1, "cursor": cursor})).status_code == 200
        for client, query in (
            (theirs, {"cursor": cursor}),
            (ours, {"cursor": cursor, "status": "queued"}),
            (ours, {"cursor": cursor[:-2]}),
            (ours, {"cursor": "é" * 300}),
            (ours, {"cursor": ""}),
        ):
            answer = await client.get("media-tasks", params=query)
            assert (answer.status_code, answer.json()["code"]) == (400, 40001), query
