"""Mixed work over HTTP, by a list that is made beforehand: what was accepted is what was answered so."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.pictures import picture

ASK_SECONDS = 10.0
_AGAIN_SECONDS = 0.2
_PHOTO = picture("jpeg", 96, 64)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do, `at` seconds after the start. `of` is the number of the submission that it is about."""

    at: float
    what: str  # submit, again, cancel, retry, try (a retry, one item first), photo, tus, object
    number: int = 0
    of: int = 0
    items: tuple[dict[str, Any], ...] = ()
    type: str = "chaos:work"


@dataclass
class Accepted:
    """What the server has taken responsibility for."""

    tasks: dict[str, int] = field(default_factory=dict)  # id → items
    photos: dict[str, str] = field(default_factory=dict)  # id → album
    objects: set[str] = field(default_factory=set)
    albums: list[str] = field(default_factory=list)
    by_number: dict[int, str] = field(default_factory=dict)  # submission → task
    wrong: list[str] = field(default_factory=list)  # answers that must not be

    @property
    def items(self) -> int:
        return sum(self.tasks.values()) + len(self.photos)

    def subjects(self) -> list[str]:
        """Paths of all event streams there are."""
        tasks = [f"media-tasks/{task_id}" for task_id in self.tasks]
        return tasks + [f"albums/{album_id}" for album_id in self.albums]


class Load:
    """`run(steps)`; every request is repeated, under its own Idempotency-Key, until it is answered."""

    def __init__(self, url: str, token: str, *, at_once: int = 12) -> None:
        self.accepted = Accepted()
        self._client = httpx.AsyncClient(
            base_url=f"{url}/api/v1/",
            headers={"Authorization": f"Bearer {token}"},
            timeout=ASK_SECONDS,
            limits=httpx.Limits(max_connections=at_once),
        )
        self._slots = asyncio.Semaphore(at_once)

    async def close(self) -> None:
        await self._client.aclose()

    async def make_album(self) -> None:
        """One more album for photos."""
        answer = await self._ask("POST", "albums", key=str(uuid.uuid4()), body={"name": "Chaos"})
        self.accepted.albums.append(answer.json()["id"])

    async def run(self, steps: Sequence[Step]) -> None:
        """Each step at its time, and until each has been answered; ends early only by cancellation."""
        start = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            for step in steps:
                await asyncio.sleep(max(0.0, start + step.at - asyncio.get_running_loop().time()))
                group.create_task(self._step(step))

    async def _step(self, step: Step) -> None:
        async with self._slots:
            match step.what:
                case "submit" | "again":
                    await self._submit(step)
                case "cancel":
                    if task_id := self.accepted.by_number.get(step.of):
                        path = f"media-tasks/{task_id}/cancel"
                        await self._ask("POST", path, key=f"cancel-{step.number}", also=(409,))
                case "photo":
                    await self._photo(step.of)
                case "tus":
                    await self._tus(step.of)
                case "object":
                    name = f"uploads/{step.of}.bin"
                    await self._ask("PUT", f"objects/{name}", content=b"%d" % step.of * 2000)
                    self.accepted.objects.add(name)
        if step.what in ("retry", "try"):  # waits for the end of a round: that takes no slot
            await self._retry(step)

    async def _submit(self, step: Step) -> None:
        body = {"type": step.type, "items": [{"input": one} for one in step.items]}
        answer = await self._ask("POST", "media-tasks", key=f"submit-{step.of}", body=body)
        if answer.status_code != 202:
            self.accepted.wrong.append(f"a submission was answered {answer.status_code}: {answer.text[:300]}")
            return
        task_id = answer.json()["id"]
        known = self.accepted.by_number.setdefault(step.of, task_id)
        if known != task_id:
            self.accepted.wrong.append(f"one Idempotency-Key made two tasks: {known} and {task_id}")
        self.accepted.tasks[task_id] = len(step.items)

    async def _retry(self, step: Step) -> None:
        while (task_id := self.accepted.by_number.get(step.of)) is None:
            await asyncio.sleep(_AGAIN_SECONDS)
        while (await self._ask("GET", f"media-tasks/{task_id}")).json()["finishedAt"] is None:
            await asyncio.sleep(_AGAIN_SECONDS)
        path, body = f"media-tasks/{task_id}/retry-failed", {"canary": True} if step.what == "try" else None
        await self._ask("POST", path, key=f"retry-{step.number}", body=body, also=(409,))

    async def _photo(self, number: int) -> None:
        album_id = self.accepted.albums[number % len(self.accepted.albums)]
        data = _PHOTO + b"photo %d" % number
        files = {"files": (f"IMG_{number}.jpg", data, "image/jpeg")}
        answer = await self._ask("POST", f"albums/{album_id}/photos", key=f"photo-{number}", files=files)
        outcome = answer.json()["files"][0]
        if outcome["status"] == "refused":
            self.accepted.wrong.append(f"a photo was refused: {outcome['error']}")
            return
        self.accepted.photos[outcome["photo"]["id"]] = album_id

    async def _tus(self, number: int) -> None:
        """A resumable upload: whatever breaks off, it asks how far it came, and goes on from there."""
        album_id = self.accepted.albums[number % len(self.accepted.albums)]
        data = _PHOTO + b"tus %d" % number
        tus = {"Tus-Resumable": "1.0.0"}
        length = {"Upload-Length": str(len(data))}
        path = f"albums/{album_id}/uploads"
        created = await self._ask("POST", path, key=f"tus-{number}", more=tus | length)
        upload = created.headers["Location"].removeprefix("/api/v1/")
        while (told := await self._ask("HEAD", upload, more=tus)).headers.get("Lingxi-Photo-Id") is None:
            at = int(told.headers["Upload-Offset"])
            part = {"Upload-Offset": str(at), "Content-Type": "application/offset+octet-stream"}
            rest = data[at : at + len(data) // 2 + 1]
            await self._ask("PATCH", upload, more=tus | part, content=rest, also=(409, 423))
        self.accepted.photos[told.headers["Lingxi-Photo-Id"]] = album_id

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        key: str | None = None,
        body: Any = None,
        also: tuple[int, ...] = (),
        more: dict[str, str] | None = None,
        **given: Any,
    ) -> httpx.Response:
        """The answer, however often it takes: no answer, 429 and 5xx are asked again."""
        headers = (more or {}) | ({"Idempotency-Key": key} if key else {})
        if body is not None:
            given["content"] = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        while True:
            try:
                answer = await self._client.request(method, path, headers=headers, **given)
                if answer.status_code < 300 or answer.status_code in also:
                    return answer
                if answer.status_code < 500 and answer.status_code != 429:
                    raise AssertionError(
                        f"{method} {path} was answered {answer.status_code}: {answer.text[:500]}"
                    )
            except httpx.TransportError:
                pass
            await asyncio.sleep(_AGAIN_SECONDS)


# ── what to do ───────────────────────────────────────────────────────────────────────────────────────────
def light(turn: int) -> list[Step]:
    """A little of everything, once; `turn` keeps the numbers of several turns apart."""
    first = turn * 100
    works = ({"effect": True, "durationMs": 30}, {"durationMs": 10}, {"failAttempts": 1}, {"failRounds": 1})
    return [
        Step(0.0, "submit", of=first, items=works),
        Step(0.0, "submit", of=first + 1, items=({"name": f"made/{first}"},), type="chaos:file"),
        Step(0.0, "photo", of=first),
        Step(0.0, "object", of=first),
        Step(0.1, "submit", of=first + 2, items=({"durationMs": 300},) * 6),
        Step(0.1, "again", of=first, items=works),
        Step(0.3, "cancel", first, of=first + 2),
        Step(0.4, "retry", first, of=first),
        Step(0.1, "submit", of=first + 3, items=({"failRounds": 1},) * 3),
        Step(0.2, "try", first + 3, of=first + 3),
        Step(0.2, "tus", of=first),
        Step(0.5, "photo", of=first + 1),
    ]


def mixed(dice: random.Random, seconds: float) -> list[Step]:
    """Work for so many seconds: tasks of 1 to 2,000 items, repeats, cancels, retries, photos, objects."""
    steps: list[Step] = []
    largest = 2_000 if seconds >= 30 else 300
    room = int(120 * seconds)  # items: what a machine of two cores does meanwhile, and a little more
    at, number = 0.0, 0
    while at < seconds:
        size = min(room, _size(dice, largest) if number else largest)
        if size > 0:
            room -= size
            items = tuple(_item(dice, size) for _ in range(size))
            steps.append(Step(at, "submit", number, of=number, items=items))
            if dice.random() < 0.3:
                steps.append(Step(at + dice.choice([0.0, 0.5, 3.0]), "again", number, of=number, items=items))
            if dice.random() < 0.25:
                steps.append(Step(at + dice.uniform(0.05, 3.0), "cancel", number, of=number))
            if dice.random() < 0.35:
                steps.append(Step(at + 0.5, dice.choice(["retry", "try"]), number, of=number))
        if dice.random() < 0.5:
            steps.append(Step(at, "photo", of=number))
            if dice.random() < 0.3:
                steps.append(Step(at + 0.2, "photo", of=number))
            if dice.random() < 0.3:
                steps.append(Step(at, "tus", of=number))
        if dice.random() < 0.2:
            name = ({"name": f"made/{number}"},)
            steps.append(Step(at, "submit", number, of=10_000 + number, items=name, type="chaos:file"))
        if dice.random() < 0.2:
            steps.append(Step(at, "object", of=number))
        number += 1
        at += dice.expovariate(1.6)
    return sorted(steps, key=lambda step: step.at)


def _size(dice: random.Random, largest: int) -> int:
    bounds = dice.choices([(1, 1), (2, 20), (21, 200), (201, largest)], [30, 50, 17, 3])[0]
    return dice.randint(*bounds) if bounds[0] <= bounds[1] else largest


def _item(dice: random.Random, size: int) -> dict[str, Any]:
    """Some take so long that a fault finds them at work, and some in the middle of their transaction."""
    item: dict[str, Any] = {"effect": dice.random() < 0.5}
    slow = dice.random() < (0.2 if size < 200 else 0.04)
    if slow:
        item["durationMs"] = dice.randint(400, 3_000)
    elif dice.random() < 0.5:
        item["durationMs"] = dice.randint(1, 400 if size < 200 else 40)
    if item["effect"] and dice.random() < (0.3 if slow else 0.02):
        item["holdMs"] = dice.randint(50, 1_500)
    if dice.random() < 0.06:
        item["failAttempts"] = dice.randint(1, 3)
    elif dice.random() < 0.05:
        item["failRounds"] = dice.randint(1, 2)
    return item
