"""The six acts of the demo. Each says what it shows, shows it live from the event stream, and checks what it saw."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lingxi.cli.demo_album import live_album
from lingxi.cli.demo_story import Once, Story, arriving_late, object_of, pid_of_holder, sample_or_own_photos
from lingxi.cli.output import Output
from lingxi.cli.submission import item_input

if TYPE_CHECKING:
    from lingxi.cli.stack import Stack
    from lingxi.client import Client, Task, TaskState

CANCEL_ITEMS, CANCEL_ITEM_MS = 160, 200
KILL_ITEMS, KILL_ITEM_MS = 48, 500
EVENTS_TIMEOUT_SECONDS = 10.0
UPLOADS_AT_ONCE = 4


def headline(output: Output, text: str) -> None:
    output.say()
    output.say(f"▸ {text}", style="bold")


async def play(stack: Stack, output: Output, *, photos: Path | None) -> Story:
    """All acts, in order."""
    from lingxi.client import Client

    story = Story()
    async with Client(stack.url, stack.token) as client:
        acts = Acts(client, stack, output, story)
        task, shown = await acts.photographs(photos)
        await acts.retry(task, shown)
        await acts.cancel()
        await acts.kill()
        await acts.album(shown)
        await acts.proof()
    return story


@dataclass
class Acts:
    """One method an act."""

    client: Client
    stack: Stack
    output: Output
    story: Story

    async def photographs(self, given: Path | None) -> tuple[Task, dict[Path, str | None]]:
        """Uploads all photographs but a few, submits all of them, and explains what failed."""
        photos = await asyncio.to_thread(sample_or_own_photos, given, self.stack.data_dir / "photos")
        late = arriving_late(photos)
        broken = sum(expected not in ("ok", None) for expected in photos.values())
        some = f", {broken} of them broken on purpose" if broken else ""
        headline(self.output, f"1  {len(photos)} photographs{some}: each is decoded in full")
        items = await self._upload(list(photos), late)
        self.output.say(
            f"  uploaded {len(photos) - len(late)}; {len(late)} are still on the camera, so their items will fail"
        )
        task = await self._submit("media:verify", items)
        ended = await self._watch(task)
        failed = await self._explain(ended)
        for file in late:
            self.story.expect(
                failed.get(file.name) == "object_not_found", f"{file.name} was found before it came"
            )
        return ended, photos

    async def retry(self, task: Task, photos: dict[Path, str | None]) -> None:
        """Uploads the late ones, retries what failed, and sees that nothing else ran again."""
        late = arriving_late(photos)
        headline(self.output, f"2  The {len(late)} late photographs arrive; only what failed is tried again")
        before = {item.index: item async for item in self.client.items(task.id)}
        await asyncio.gather(*(self._put(file) for file in late))
        again = await self.client.retry_failed(task.id)
        self.output.say(
            f"  round {again.round}: {again.counts.queued} of {again.counts.total} items are queued again"
        )
        ended = await self._watch(again, since=again.cursor)
        failed = await self._explain(ended)
        after = {item.index: item async for item in self.client.items(task.id)}
        reran = [
            index for index, item in after.items() if item.raw["startedAt"] != before[index].raw["startedAt"]
        ]
        asked = [index for index, item in before.items() if item.state == "failed"]
        healed = ended.counts.succeeded - task.counts.succeeded
        self.output.say(f"  {len(reran)} items ran again, {healed} of them succeeded now")
        self.story.expect(reran == asked, "retry-failed ran something else than what had failed")
        self.story.expect(
            "object_not_found" not in failed.values(), "a late photograph was not found by the retry"
        )
        for file, expected in photos.items():
            ended_as = failed.get(file.name, "ok")
            self.story.expect(
                expected in (None, ended_as), f"{file.name} ended as {ended_as}, not as {expected}"
            )

    async def cancel(self) -> None:
        """Cancels a batch half-way: what has not started never starts, what runs finishes."""
        headline(
            self.output,
            f"3  A batch of {CANCEL_ITEMS}, cancelled half-way: only what has not started is cancelled",
        )
        items = [{"ref": f"slow-{n}", "input": {"durationMs": CANCEL_ITEM_MS}} for n in range(CANCEL_ITEMS)]
        task = await self._submit("demo:drill", items)
        half = Once(lambda state: state.counts.final >= CANCEL_ITEMS // 2, lambda: self._cancel(task.id))
        ended = await self._watch(task, half)
        self.story.expect(ended.status == "cancelled", f"the cancelled batch ended {ended.status}")
        self.story.expect(ended.counts.cancelled > 0, "nothing was left to cancel")
        self.story.expect(ended.counts.failed == 0, "a running item did not finish after the cancel")
        self.output.say(
            f"  {ended.counts.succeeded} had started and finished; {ended.counts.cancelled} never start"
        )
        ran = [item async for item in self.client.items(task.id, state="cancelled") if item.attempt > 0]
        self.story.expect(not ran, "a cancelled item had run")

    async def kill(self) -> None:
        """Kills a worker with SIGKILL while it holds items, and sees them through on the other one."""
        headline(
            self.output,
            f"4  A batch of {KILL_ITEMS}, each leaves one row; a worker is killed (SIGKILL) while it runs some",
        )
        items = [
            {"ref": f"effect-{n}", "input": {"durationMs": KILL_ITEM_MS, "effect": True}}
            for n in range(KILL_ITEMS)
        ]
        task = await self._submit("demo:drill", items)
        strike = Once(lambda state: state.counts.final >= KILL_ITEMS // 4, lambda: self._strike(task.id))
        ended = await self._watch(task, strike)
        lost = [
            item.ref
            async for item in self.client.items(task.id)
            if any((attempt["error"] or {}).get("code") == "worker_lost" for attempt in item.raw["attempts"])
        ]
        self.output.say(
            f"  {len(lost)} items were on it; each was found, ran once more elsewhere, and says worker_lost"
        )
        self.story.expect(self.story.worker_killed, "no worker could be killed")
        self.story.expect(bool(lost), "the killed worker held no item")
        self.story.expect(ended.status == "succeeded", f"the batch of the killed worker ended {ended.status}")

    async def album(self, photos: dict[Path, str | None]) -> None:
        """Publishes the photographs in an album while a guest watches it."""
        headline(
            self.output,
            "5  The photographs as a live album; a guest with its link sees each one appear, once",
        )
        await live_album(self.client, self.output, self.story, photos)

    async def proof(self) -> None:
        """Counts in the database, from the rows themselves."""
        headline(self.output, "6  The proof, counted in the database from the rows themselves")
        proofs = await self._proofs()
        self.story.lost = sum(proof.lost for proof in proofs)
        self.story.doubled = sum(proof.doubled for proof in proofs)
        rows = [
            (
                proof.type,
                proof.status,
                *(str(number) for number in (proof.total, proof.succeeded, proof.failed, proof.cancelled)),
                *(str(number) for number in (proof.round, proof.ends, proof.attempts, proof.attempts_lost)),
                *(str(number) for number in (proof.effects, proof.lost, proof.doubled)),
            )
            for proof in proofs
        ]
        columns = (
            "TASK STATUS ITEMS OK FAILED CANCELLED ROUNDS ENDS ATTEMPTS LOST-ATTEMPTS EFFECTS LOST DOUBLED"
        )
        self.output.table(columns.split(), rows)
        self.output.say(
            "  LOST: items without an end, a row or their effect, ends untold. DOUBLED: items done or told twice."
        )
        self.story.expect(len(proofs) == len(self.story.task_ids), "a task is missing from the database")
        self.story.expect(all(proof.counters_agree for proof in proofs), "counters and items disagree")
        self.story.expect(all(not proof.unpublished for proof in proofs), "an event was never published")

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────────
    async def _upload(self, files: list[Path], late: list[Path]) -> list[dict[str, Any]]:
        at_once = asyncio.Semaphore(UPLOADS_AT_ONCE)

        async def one(file: Path) -> dict[str, Any]:
            async with at_once:
                name, digest = await asyncio.to_thread(object_of, file)
                if file not in late:
                    await self.client.put_object(name, file)
                return {"ref": file.name, "input": item_input("media:verify", name, digest)}

        return list(await asyncio.gather(*(one(file) for file in files)))

    async def _put(self, file: Path) -> None:
        name, _ = await asyncio.to_thread(object_of, file)
        await self.client.put_object(name, file)

    async def _submit(self, type_: str, items: list[dict[str, Any]]) -> Task:
        task = await self.client.submit(type_, items)
        self.story.task_ids.append(task.id)
        self.story.items += task.counts.total
        self.output.say(f"  task {task.id}")
        return task

    async def _watch(self, task: Task, once: Once | None = None, *, since: int = 0) -> Task:
        from lingxi.cli.progress import ProgressView, counts_in_words

        with ProgressView(self.output, on_frame=once, indent="  ", tell_frames=False) as view:
            async for frame in self.client.watch(task.id, last_event_id=str(since)):
                view.show(frame)
        ended = view.state.task
        assert ended is not None, "a watch ends with an end frame"
        if once is not None:
            await once.settled()
        await self._compare(view.state)
        words = f"  {ended.status}: {counts_in_words(ended.counts)}"
        if self.output.live:
            self.output.say(words)
        return ended

    async def _compare(self, seen: TaskState) -> None:
        """What the stream told of each item must be what the API answers now."""
        assert seen.task is not None
        states = {item.index: item.state async for item in self.client.items(seen.task.id)}
        told = {index: item.state for index, item in seen.items.items()}
        wrong = [index for index, state in told.items() if states.get(index) != state]
        self.story.expect(not wrong, f"the stream told {len(wrong)} items otherwise than the database")
        whole = seen.task.round > 1 or len(told) == seen.task.counts.total
        self.story.expect(whole, "the stream left out items")

    async def _explain(self, task: Task) -> dict[str, str]:
        """Says why items failed, by code; answers the code by ref."""
        failed = [item async for item in self.client.items(task.id, state="failed")]
        codes = Counter(item.error.code for item in failed if item.error)
        for code, number in codes.most_common():
            example = next(item for item in failed if item.error and item.error.code == code)
            assert example.error is not None
            self.output.say(f"  {number} × {code}: {example.error.message} (e.g. {example.ref})")
        return {item.ref or "": item.error.code for item in failed if item.error}

    async def _cancel(self, task_id: str) -> None:
        from lingxi.client import ApiError

        try:
            await self.client.cancel(task_id)
        except ApiError as refused:
            self.story.expect(False, f"the cancel came too late: {refused}")

    async def _strike(self, task_id: str) -> None:
        """SIGKILLs the worker that holds most running items."""
        while not (holders := await self._holders(task_id)):
            if (await self.client.get(task_id)).is_final:
                return
        ((pid, number),) = holders.most_common(1)
        os.kill(pid, signal.SIGKILL)
        self.story.worker_killed = True
        self.output.say(f"  killed the worker with process id {pid}, which held {number} running items")

    async def _holders(self, task_id: str) -> Counter[int]:
        """How many running items each worker process holds."""
        running = [item async for item in self.client.items(task_id, state="running")]
        return Counter(pid for item in running if (pid := pid_of_holder(item)) is not None)

    async def _proofs(self) -> list[Any]:
        """The proofs, once the last events are published."""
        from lingxi.db.session import connect
        from lingxi.services.prove_tasks import prove_tasks

        ids = [UUID(task_id) for task_id in self.story.task_ids]
        connection = await connect(self.stack.database_url, name="lingxi-demo")
        try:
            deadline = asyncio.get_running_loop().time() + EVENTS_TIMEOUT_SECONDS
            while True:
                proofs = await prove_tasks(connection, ids)
                settled = not any(proof.unpublished for proof in proofs)
                if settled or asyncio.get_running_loop().time() > deadline:
                    return proofs
                await asyncio.sleep(0.1)
        finally:
            await connection.close()
