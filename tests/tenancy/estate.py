"""One thing of every kind in a workspace: what the other one may never reach."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from uuid import UUID

import httpx

from lingxi.db.session import transaction
from lingxi.services.direct_uploads import begin_direct_upload
from lingxi.services.fan_out_webhooks import WebhookEvent, fan_out_webhooks
from lingxi.services.object_prefixes import allow_prefix
from tests.integration.albums.stage import Stage
from tests.integration.api.harness import Api, Tenant, World, batch

NOWHERE = "01938f2e-4c00-7a31-9b5e-6f2d8c1a0000"
UNKNOWN: dict[str, str] = {
    "name": "nothing/here.bin",
    "fileName": "1-thumb-0000000000000000.jpg",
    "token": "AAAA",
    "attemptId": "01938f2e-4c00-7a31-9b5e-6f2d8c1a0001.17",
    "itemId": "01938f2e-4c00-7a31-9b5e-6f2d8c1a0001",
}
"""What names nothing, for each part of a path; NOWHERE for those that are not here."""
_outbox_id = count(10**9)
GARBAGE = {"name": "no such thing", "fileName": "%00", "token": "é"}


@dataclass
class Estate:
    """`ids` by the names of the parts of paths; `cursors` of listings; tokens and cookies that open something of it."""

    tenant: Tenant
    ids: dict[str, str] = field(default_factory=dict)
    cursors: dict[str, str] = field(default_factory=dict)
    event_id: str = ""
    stream_token: str = ""
    album_token: str = ""
    share_secret: str = ""
    object_link: str = ""
    key: str = ""


async def furnish(api: Api, tenant: Tenant, name: str) -> Estate:
    """Fill a workspace: over HTTP where a route makes the thing, else by the services beneath."""
    estate = Estate(tenant, key=f"key-{name}")
    async with api.client(tenant.admin) as admin:
        stage = Stage(api, World(tenant, tenant, ""), admin)
        await _tasks(admin, estate)
        await _objects(api, admin, estate, name)
        await _albums(stage, admin, estate, name)
        await _webhooks(api, admin, estate)
        for _ in range(2):
            estate.ids["deadLetterId"] = await _dead_letter(api, tenant)
        estate.ids["tokenId"] = (await admin.get("tokens")).json()["tokens"][0]["id"]
        estate.ids["workspaceId"] = str(tenant.workspace_id)
        estate.ids |= {"queue": "no:such", "boot": "00000000"}
        for path in ("dead-letters", "media-tasks", f"media-tasks/{estate.ids['taskId']}/items", "albums"):
            estate.cursors[path] = await _cursor(admin, path)
    return estate


async def _cursor(admin: httpx.AsyncClient, path: str) -> str:
    answer = await admin.get(path, params={"limit": 1})
    assert answer.json()["nextCursor"], (path, answer.text)
    return str(answer.json()["nextCursor"])


async def _tasks(admin: httpx.AsyncClient, estate: Estate) -> None:
    await admin.post("media-tasks", json=batch(1))
    task = (await admin.post("media-tasks", json=batch(2), headers={"Idempotency-Key": estate.key})).json()
    estate.ids["taskId"] = task["id"]
    items = (await admin.get(f"media-tasks/{task['id']}/items")).json()["items"]
    estate.ids["itemId"] = items[0]["id"]
    estate.ids["attemptId"] = f"{items[0]['id']}.1"
    await admin.post(f"media-tasks/{task['id']}/cancel", headers={"Idempotency-Key": estate.key})
    estate.stream_token = (await admin.post(f"media-tasks/{task['id']}/stream-token")).json()["token"]


async def _objects(api: Api, admin: httpx.AsyncClient, estate: Estate, name: str) -> None:
    estate.ids["name"] = f"{name}/private.bin"
    await admin.put(f"objects/{name}/private.bin", content=b"of " + name.encode())
    link = await admin.post("object-links", json={"name": f"{name}/private.bin", "lifetimeSeconds": 300})
    estate.object_link = link.json()["url"]
    estate.ids["token"] = estate.object_link.rpartition("/")[2]
    async with transaction(api.deps.pool) as connection:
        await allow_prefix(connection, estate.tenant.workspace_id, f"archive-of-{name}/")


async def _albums(stage: Stage, admin: httpx.AsyncClient, estate: Estate, name: str) -> None:
    await stage.album()
    album = await stage.album()
    photo = await stage.photo(album, f"{name}.jpg", thumb=b"\xff\xd8 a picture of " + name.encode())
    await stage.photo(album, f"{name}-2.jpg")
    share = await stage.share(album)
    estate.ids |= {
        "albumId": album,
        "photoId": photo,
        "fileName": (await stage.picture(album, photo)).rpartition("/")[2],
        "shareId": share["id"],
        "uploadId": await _tus_upload(admin, album),
    }
    estate.share_secret = share["secret"]
    estate.album_token = (await admin.post(f"albums/{album}/stream-token")).json()["token"]
    estate.cursors[f"albums/{album}/photos"] = await _cursor(admin, f"albums/{album}/photos")


async def _tus_upload(admin: httpx.AsyncClient, album: str) -> str:
    """An upload that waits for its bytes; a direct upload has the same id, so that each route finds one."""
    metadata = "filename " + base64.b64encode(b"big.jpg").decode()
    headers = {"Tus-Resumable": "1.0.0", "Upload-Length": "4", "Upload-Metadata": metadata}
    answer = await admin.post(f"albums/{album}/uploads", headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.headers["location"].rpartition("/")[2]


async def _dead_letter(api: Api, tenant: Tenant) -> str:
    async with transaction(api.deps.pool) as connection:
        number = await connection.fetchval(
            "insert into outbox_events (id, type, workspace_id, payload, attempts, last_error, error_detail) "
            "overriding system value values ($2, 'photo.updated', $1, '{\"v\": 1}', 10, 'dead_lettered', 'told to') returning id",
            tenant.workspace_id,
            10**17 + 1000 * next(_outbox_id),  # nothing else looks like it
        )
    return str(number)


async def _webhooks(api: Api, admin: httpx.AsyncClient, estate: Estate) -> None:
    asked = {"url": "https://hooks.example.com/x", "events": ["task.ended"]}
    made = await admin.post("webhooks", json=asked)
    assert made.status_code == 201, made.text
    webhook = estate.ids["webhookId"] = made.json()["id"]
    workspace, upload = estate.tenant.workspace_id, UUID(estate.ids["uploadId"])
    async with transaction(api.deps.pool) as connection:
        for _ in range(2):
            event = WebhookEvent(
                next(_outbox_id), workspace, "task.ended", {"taskId": NOWHERE}, datetime.now(UTC)
            )
            await fan_out_webhooks(connection, [event])
        await begin_direct_upload(connection, upload, workspace, "direct.bin", size_bytes=4)
    listed = (await admin.get(f"webhooks/{webhook}/deliveries")).json()["deliveries"]
    estate.event_id = listed[0]["eventId"]
    path = f"webhooks/{webhook}/deliveries"
    estate.cursors[path] = await _cursor(admin, path)
