"""A real API and a real worker, secrets and private words planted everywhere, and things go wrong: none is in a log."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import asyncpg
import httpx
import pytest

from tests.integration.api.harness import World, make_world
from tests.support.jpeg import with_segments
from tests.support.pictures import exif, picture
from tests.support.processes import Process, Processes
from tests.support.waiting import wait_until

FILE = "Hochzeit-Plantmüller.jpg"
SPACED = "Plant und Peter 7.jpg"
PLACE = "48.858371, 2.294481"
PASSWORD = "planted-database-password"
HOOK = "planted-hook-key"
REF = "plant-of-a-client"
FINAL = ("succeeded", "failed", "partially_failed", "cancelled")
EXPLOSIVE = """
    create function explode() returns trigger language plpgsql as $$
      begin raise exception 'a trigger that nobody foresaw' using detail = 'Failing row contains ' || new.name; end $$;
    create trigger explode before insert on objects for each row
      when (new.name like 'explode/%') execute function explode();
"""


@dataclass
class Stack:
    """An API and a worker over one database; `planted` is what no log may hold."""

    api: Process
    worker: Process
    world: World
    folder: Path
    planted: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        port = self.api.wait_for_log(r'"127\.0\.0\.1:(\d+)"', 60)[1]
        return f"http://127.0.0.1:{port}"

    def client(self, token: str | None, **headers: str) -> httpx.AsyncClient:
        if token:
            self.planted.add(token)
            headers["Authorization"] = f"Bearer {token}"
        return httpx.AsyncClient(base_url=f"{self.url}/api/v1/", headers=headers, timeout=60)

    def plant(self, secret: str) -> str:
        self.planted.add(secret)
        return secret

    def logs(self) -> str:
        return "".join(one.log() + one.output() for one in (self.api, self.worker))


@pytest.fixture
async def stack(
    processes: Processes, pool: asyncpg.Pool, database_url: str, redis_url: str, tmp_path: Path
) -> Stack:
    role = f"planted_{os.getpid()}"
    await pool.execute(f"drop role if exists {role}")
    await pool.execute(f"create role {role} superuser login password '{PASSWORD}'")
    parts = urlsplit(database_url)
    address = f"{role}:{PASSWORD}@{parts.hostname}:{parts.port}"
    folder = tmp_path / "data"
    env = {
        "DATABASE_URL": parts._replace(netloc=address).geturl(),
        "REDIS_URL": redis_url,
        "LINGXI_DATA_DIR": str(folder),
        "LINGXI_PORT": "0",
        "LINGXI_SECRET_KEY": "planted-signing-key-of-32-bytes-and-more",
        "LOG_LEVEL": "info",
        "QUEUE": "photo,media,delivery,demo",
        "WEBHOOK_ALLOWED_NETWORKS": "127.0.0.1/32",
        "LEASE_SECONDS": "3",
        "LEASE_RENEW_SECONDS": "0.5",
    }
    await pool.execute(EXPLOSIVE)
    world = await make_world(pool)
    started = Stack(processes.lingxi("api", env=env), processes.lingxi("worker", env=env), world, folder)
    planted = (FILE, SPACED, quote(FILE), quote(SPACED), PASSWORD, HOOK, REF, env["LINGXI_SECRET_KEY"])
    started.planted |= {*planted, *PLACE.split(", "), "Plant", "plant und"}
    return started


async def test_nothing_private_is_logged(stack: Stack, pool: asyncpg.Pool) -> None:
    async with stack.client(stack.world.ours.admin, **{"X-Request-Id": "seen-in-the-log"}) as admin:
        album = (await admin.post("albums", json={"name": f"Album {SPACED}"})).json()["id"]
        await _visit(stack, admin, album)
        photos = await _upload(stack, admin, album)
        tasks = await _work(stack, admin)
        await _go_wrong(stack, admin, album)
        await _ended(admin, tasks)
        await wait_until(lambda: _processed(admin, album, photos), 60)
        await _hook_failed(stack, pool)
    assert (stack.worker.stop(), stack.api.stop()) == (0, 0)
    text = stack.logs()
    found = [secret for secret in stack.planted if secret.casefold() in text.casefold()]
    lines = [line for line in text.splitlines() if any(secret in line for secret in found)]
    assert not found, (found, lines)
    _say_what_they_should(text, tasks)


async def _visit(stack: Stack, admin: httpx.AsyncClient, album: str) -> None:
    """Whatever carries a secret in an address, a header or a cookie; good ones and bad ones."""
    share = (await admin.post(f"albums/{album}/shares", json={})).json()["secret"]
    link = (await admin.post("session/links")).json()["url"].partition("#")[2]
    await admin.put("objects/" + quote(f"plant-folder/{SPACED}"), content=b"bytes")
    signed = (await admin.post("object-links", json={"name": f"plant-folder/{SPACED}"})).json()["url"]
    stream = (await admin.post(f"albums/{album}/stream-token")).json()["token"]
    for secret in (share, link, signed.rpartition("/")[2], stream):
        stack.plant(secret)
    async with stack.client(None) as nobody:
        await nobody.get(f"{stack.url}/s/{share}")
        await nobody.get(f"{stack.url}/s/{stack.plant('bad-share-planted-0123456789')}")
        await nobody.get(stack.url + signed)
        for secret in (stream, stack.plant("bad-stream-token-planted")):
            async with nobody.stream("GET", f"albums/{album}/events", params={"token": secret}) as answer:
                async for _ in answer.aiter_lines():
                    break
        await nobody.post(f"{stack.url}/login", data={"link": link}, headers={"Origin": stack.url})
        stack.plant(nobody.cookies.get("lingxi_session") or "no cookie was set")
        await nobody.get("media-tasks", headers={"Authorization": "Bearer " + stack.plant("lx_bad_planted")})
        await nobody.get("objects/" + quote(SPACED), params={"q": REF})
        await nobody.get(f"{stack.url}/no/such/{quote(SPACED)}", params={"password": REF})
        await nobody.get(f"media-tasks/{quote(FILE)}")


async def _upload(stack: Stack, admin: httpx.AsyncClient, album: str) -> int:
    """By a form and by tus, with a position in the EXIF; one file is broken."""
    block = exif(ifd0={271: f"GPS {PLACE}"}, details={42033: "SERIAL"})
    photo = with_segments(picture("jpeg", 600, 400), (0xE1, block))
    broken = with_segments(picture("jpeg", 640, 400), (0xE1, block))[:-3000]
    files = [("files", (name, data, "image/jpeg")) for name, data in ((FILE, photo), (SPACED, broken))]
    files += [("files", (f"no {SPACED}", b"no photo at all", "image/jpeg"))]
    answer = await admin.post(f"albums/{album}/photos", files=files)
    assert answer.status_code in (200, 201, 207), answer.text
    third = with_segments(picture("jpeg", 610, 400), (0xE1, block))
    tus = {"Tus-Resumable": "1.0.0", "Upload-Length": str(len(third))}
    named = {"Upload-Metadata": "filename " + b64encode(SPACED.encode()).decode()}
    made = await admin.post(f"albums/{album}/uploads", headers=tus | named)
    body = {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    sent = await admin.patch(f"{stack.url}{made.headers['location']}", headers=tus | body, content=third)
    assert sent.status_code == 204, sent.text
    return 3


async def _work(stack: Stack, admin: httpx.AsyncClient) -> list[str]:
    """Tasks that succeed, fail, raise with private words, and kill their worker."""
    name = f"plant-folder/{SPACED}"
    said = f"cannot open '/home/{SPACED}' or {FILE} at {PLACE} with password={HOOK} from https://x.example/a?key={HOOK}"
    submissions: list[dict[str, Any]] = [
        {"type": "media:verify", "items": [{"ref": REF, "input": {"object": name}}]},
        {"type": "media:verify", "items": [{"ref": REF, "input": {"object": f"missing/{SPACED}"}}]},
        {"type": "media:probe", "items": [{"input": {"object": name}}]},
        {"type": "demo:drill", "items": [{"ref": REF, "input": {"fail": "bug", "failMessage": said}}]},
        {
            "type": "demo:drill",
            "items": [{"input": {"fail": "transient", "failTimes": 1, "failMessage": said}}],
        },
        {"type": "demo:drill", "items": [{"ref": SPACED, "input": {"crash": "kill", "crashTimes": 1}}]},
    ]
    tasks = []
    for one in submissions:
        answer = await admin.post("media-tasks", json={**one, "metadata": {"client": SPACED, "at": PLACE}})
        assert answer.status_code == 202, answer.text
        tasks.append(answer.json()["id"])
    return tasks


async def _go_wrong(stack: Stack, admin: httpx.AsyncClient, album: str) -> None:
    """A 500 by the database, a 500 by the storage, a webhook that nobody takes."""
    hook = f"http://127.0.0.1:1999/{HOOK}?key={HOOK}"
    made = await admin.post("webhooks", json={"url": hook, "events": ["task.ended"], "description": SPACED})
    assert made.status_code == 201, made.text
    stack.plant(made.json()["secret"])
    failed = await admin.put("objects/" + quote(f"explode/{SPACED}"), content=b"other bytes")
    assert failed.status_code == 500, failed.text
    await admin.post("media-tasks", json={"type": "demo:drill", "items": [{"input": {}}]})
    for stored in (stack.folder / "objects").rglob("*"):
        if stored.is_file() and stored.stat().st_size == len(b"bytes"):
            stored.unlink()
    gone = await admin.get("objects/" + quote(f"plant-folder/{SPACED}"))
    assert gone.status_code == 500, gone.text


async def _ended(admin: httpx.AsyncClient, tasks: list[str]) -> None:
    async def fact() -> bool:
        answers = [await admin.get(f"media-tasks/{task}") for task in tasks]
        return all(answer.json()["status"] in FINAL for answer in answers)

    await wait_until(fact, 90)


async def _processed(admin: httpx.AsyncClient, album: str, photos: int) -> bool:
    listed = (await admin.get(f"albums/{album}/photos")).json()["photos"]
    states = [photo["processingState"] for photo in listed]
    return len(states) == photos and set(states) <= {"ready", "processing_failed"}


async def _hook_failed(stack: Stack, pool: asyncpg.Pool) -> None:
    query = "select count(*) from media_task_attempts a join media_tasks t on t.id = a.task_id where t.type = 'webhook:deliver'"

    async def fact() -> bool:
        return bool(await pool.fetchval(query))

    await wait_until(fact, 60)


def _say_what_they_should(text: str, tasks: list[str]) -> None:
    """JSON, line by line; a request names its id, an attempt its task, item, number and worker."""
    entries = [json.loads(line) for line in text.splitlines() if line.strip()]
    requests = [one for one in entries if one["event"] == "request_finished"]
    assert {"seen-in-the-log"} < {one["request_id"] for one in requests}
    assert all({"method", "route", "status", "duration_ms"} <= one.keys() for one in requests)
    assert [one for one in requests if one.get("task_id") in tasks]
    (failed,) = [one for one in entries if one["event"] == "request_failed" and "exception" in one]
    assert failed["request_id"] == "seen-in-the-log"
    assert "a trigger that nobody foresaw" in failed["exception"][0]["exc_value"]
    attempts = [one for one in entries if one["event"] in ("attempt_finished", "processor_raised")]
    assert {one["task_id"] for one in attempts} >= {tasks[1], tasks[3]}
    for one in attempts:
        assert one["item_id"][:-4] == one["task_id"][:-4] and one["attempt"] >= 1 and one["worker"], one
    assert not re.search(r"uvicorn\.access", text)
