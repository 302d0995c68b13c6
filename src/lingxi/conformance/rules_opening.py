"""How a stream opens, what its frames are, how it ends."""

from itertools import pairwise
from uuid import uuid4

from lingxi.conformance.model import FINAL_STATUSES, Model
from lingxi.conformance.rule import Bench, Check, NotTried, Rule
from lingxi.conformance.sse import Frame
from lingxi.conformance.work import AWKWARD, mixed, quick, staggered

_ITEM_FIELDS = {"itemId", "index", "ref", "state", "attempt"}


async def headers(bench: Bench, check: Check) -> None:
    task = await bench.server.run(quick(1))
    asking = bench.server.authorization | {"Accept-Encoding": "gzip, br, zstd"}
    async with await bench.server.events(task["id"], headers=asking) as stream:
        check.equal(stream.status, 200, "the status")
        kind = stream.headers.get("content-type", "").replace(" ", "").lower()
        check.equal(kind, "text/event-stream;charset=utf-8", "Content-Type")
        cache = {part.strip() for part in stream.headers.get("cache-control", "").split(",")}
        check(
            {"no-cache", "no-transform"} <= cache,
            f"Cache-Control is {sorted(cache)}: no-cache, no-transform are needed",
        )
        check.equal(stream.headers.get("x-accel-buffering"), "no", "X-Accel-Buffering")
        check("content-encoding" not in stream.headers, "the stream is compressed, so it is held back")
        check("content-length" not in stream.headers, "a stream cannot know its length")


async def retry_jitter(bench: Bench, check: Check) -> None:
    task = await bench.server.run(quick(1))
    told = []
    for _ in range(8):
        async with await bench.server.events(task["id"]) as stream:
            await stream.to_the_end()
            told.append(stream.parser.retry_milliseconds)
    check(None not in told, "a connection was told no `retry:`")
    check(len(set(told)) > 1, f"every connection was told the same `retry:` {told[0]}")
    check(all(value is None or 100 <= value <= 60_000 for value in told), f"`retry:` values are {told}")


async def snapshot_first(bench: Bench, check: Check) -> None:
    task = await bench.server.submit(staggered(5, over_ms=500))
    async with await bench.server.events(task["id"]) as stream:
        first = await stream.next()
        if check(
            first is not None and first.event == "snapshot", f"the first frame is {first and first.event!r}"
        ):
            assert first is not None
            check.equal(first.id, str(first.data["cursor"]), "the snapshot's id")
            check.equal(first.data["id"], task["id"], "the snapshot's task")
        model = Model()
        for frame in [first, *await stream.to_the_end()]:
            assert frame is not None
            model.apply(frame)
    model.seed(await bench.server.items(task["id"]))
    await bench.same_as_asked(check, task["id"], model)


async def ids_ascend(bench: Bench, check: Check) -> None:
    task = await bench.server.submit(mixed(20) + staggered(20, over_ms=1_000))
    async with await bench.server.events(task["id"], "0") as stream:
        frames = await stream.to_the_end()
    numbers = [frame.number for frame in frames if frame.id is not None]
    check(all(a < b for a, b in pairwise(numbers)), f"ids do not ascend: {numbers[:40]}")
    events = {frame.event for frame in frames}
    check({"item", "progress", "end"} <= events, f"a second of work brought only {sorted(events)}")
    for frame in frames:
        if frame.event in ("progress", "itemProgress", "closing"):
            check(frame.id is None, f"a frame {frame.event} carries an id")
        if frame.event == "item":
            check(frame.data.keys() >= _ITEM_FIELDS, f"an item frame has only {sorted(frame.data)}")
            check("input" not in frame.data, "an item frame carries the input")


async def equal_numbers(bench: Bench, check: Check) -> None:
    """Items that nothing has happened to share a number. An id may come only when all that have it are out."""
    task = await bench.server.submit(staggered(2_000, over_ms=3_000))
    async with await bench.server.events(task["id"], "0") as stream:
        frames = [await stream.until(lambda frame: frame.event == "item")]
        while len({frame.data["index"] for frame in frames if frame.event == "item"}) < 2_000:
            if (frame := await stream.next()) is not None:
                frames.append(frame)
    items = [frame for frame in frames if frame.event == "item"]
    untouched = [frame for frame in items if frame.data["state"] == "queued" and frame.data["attempt"] == 0]
    if len(untouched) < 2:
        raise NotTried("all items had started before the stream was open")
    numbers = [frame.number for frame in items if frame.id is not None]
    check(all(a < b for a, b in pairwise(numbers)), f"ids are repeated or fall: {numbers[:20]}")
    without = sum(frame.id is None for frame in items)
    check(without >= len(untouched) - 2, f"{without} of {len(untouched)} items that share a number had no id")
    await bench.server.steer(task["id"], "cancel")


async def text_survives(bench: Bench, check: Check) -> None:
    task = await bench.server.submit([{"resultText": AWKWARD}, {"fail": "permanent", "failMessage": AWKWARD}])
    async with await bench.server.events(task["id"], "0") as stream:
        model = Model()
        for frame in await stream.to_the_end():
            model.apply(frame)
    check.equal((model.items[0]["result"] or {}).get("text"), AWKWARD, "the result's text")
    check.equal((model.items[1]["error"] or {}).get("message"), AWKWARD, "the error's message")
    await bench.same_as_asked(check, task["id"], model)


async def end_then_close(bench: Bench, check: Check) -> None:
    task = await bench.server.submit(mixed(10))
    async with await bench.server.events(task["id"]) as stream:
        frames = await stream.to_the_end()
        check(stream.finished, "the server did not end the answer in order")
    final = await bench.server.task(task["id"])
    check.equal([frame.event for frame in frames].count("end"), 1, "the number of end frames")
    check.equal(frames[-1].event, "end", "the last frame")
    check.equal(frames[-1].data, final, "the end's task")
    check.equal(frames[-1].id, str(final["cursor"]), "the end's id")
    check(final["status"] in FINAL_STATUSES, f"the task is {final['status']} after the end")


async def finished_fresh(bench: Bench, check: Check) -> None:
    task = await bench.server.run(mixed(5))
    async with await bench.server.events(task["id"]) as stream:
        frames = await stream.to_the_end()
    check.equal([frame.event for frame in frames], ["snapshot", "end"], "the frames")
    check.equal([frame.data for frame in frames], [task, task], "their tasks")


async def cancelled(bench: Bench, check: Check) -> None:
    """Some items wait for their next attempt when the cancel comes; one runs, and may finish."""
    task = await bench.server.submit([{"durationMs": 1_500}, *({"fail": "transient"} for _ in range(20))])
    async with await bench.server.events(task["id"], "0") as stream:
        model = Model()
        while not any(item["state"] == "retrying" for item in model.items.values()):
            frame = await stream.next()
            assert frame is not None
            model.apply(frame)
        await bench.server.steer(task["id"], "cancel")
        for frame in await stream.to_the_end():
            model.apply(frame)
    check(
        any(item["state"] == "cancelled" for item in model.items.values()), "no item was told to be cancelled"
    )
    await bench.same_as_asked(check, task["id"], model)


async def unknown_task(bench: Bench, check: Check) -> None:
    answers = []
    for last_event_id in (None, "0", "garbage"):
        async with await bench.server.events(str(uuid4()), last_event_id) as stream:
            answers.append((stream.status, stream.headers.get("content-type"), stream.body))
    check.equal({answer[0] for answer in answers}, {404}, "the status")
    check(len(set(answers)) == 1, "answers about things that do not exist differ")
    check(b"40401" in answers[0][2], f"the body has no code 40401: {answers[0][2][:200]!r}")


async def no_token(bench: Bench, check: Check) -> None:
    task = await bench.server.run(quick(1))
    for what, sent in (
        ("no token", {}),
        ("an unknown token", {"Authorization": "Bearer lx_" + "A" * 43}),
        ("a malformed token", {"Authorization": "Basic x"}),
    ):
        async with await bench.server.events(task["id"], headers=sent) as stream:
            check.equal(stream.status, 401, f"the status with {what}")
    async with await bench.server.events(str(uuid4()), headers={}) as stream:
        check.equal(stream.status, 401, "the status of an unknown task without a token")


async def stream_token(bench: Bench, check: Check) -> None:
    mine, other = await bench.server.run(quick(1)), await bench.server.run(quick(1))
    made = await bench.server.call("POST", f"/media-tasks/{mine['id']}/stream-token")
    token = made["token"]

    async def status(task_id: str, given: str) -> int:
        url = bench.server.events_url(task_id, token=given)
        async with await bench.server.events(task_id, url=url, headers={}) as stream:
            return stream.status

    check.equal(await status(mine["id"], token), 200, "the status with a stream token")
    check(await status(other["id"], token) in (401, 403, 404), "a stream token opens another task's stream")
    forged = token[:-2] + ("AA" if token[-2:] != "AA" else "BB")
    for what, given in (
        ("forged", forged),
        ("empty", ""),
        ("cut", token[:-1]),
        ("bearer", bench.server.token),
    ):
        check.equal(await status(mine["id"], given), 401, f"the status with a stream token that is {what}")
    answer = await bench.server.http.get(
        f"{bench.server.url}/api/v1/media-tasks/{mine['id']}", headers={"Authorization": f"Bearer {token}"}
    )
    check.equal(answer.status_code, 401, "the status of GET with a stream token")


async def progress_rate(bench: Bench, check: Check) -> None:
    task = await bench.server.submit(staggered(300, over_ms=4_000))
    async with await bench.server.events(task["id"]) as stream:
        frames = await stream.to_the_end()
    told: list[Frame] = [frame for frame in frames if frame.event == "progress"]
    check(len(told) >= 3, f"{len(told)} progress frames in four seconds of work")
    for first in told:
        within = [frame for frame in told if first.at <= frame.at < first.at + 1]
        check(len(within) <= 5, f"{len(within)} progress frames in a second")
    for frame in told:
        counts = dict(frame.data["counts"])
        check.equal(counts.pop("total"), sum(counts.values()), "the sum of a progress frame's counts")


async def heartbeat(bench: Bench, check: Check) -> None:
    task = await bench.server.submit([{"durationMs": 24_000}])
    async with await bench.server.events(task["id"], "0") as stream:
        await stream.until(lambda frame: frame.event == "item" and frame.data["state"] == "running")
        before = stream.last_id
        try:
            await stream.comment(18)
            check(True, "")
        except TimeoutError:
            check(False, "no comment in 18 s of silence")
        check.equal(stream.last_id, before, "the last id after a heartbeat")
    await bench.server.steer(task["id"], "cancel")


RULES = (
    Rule("headers", "A stream's headers keep proxies from storing, compressing or buffering it", headers),
    Rule("retry-jitter", "Each connection is told when to come back, and not all the same", retry_jitter),
    Rule(
        "snapshot-first",
        "A fresh connection begins with a snapshot whose id is the task's number",
        snapshot_first,
    ),
    Rule(
        "ids-ascend", "Ids ascend; progress and closing carry none; an item frame has its fields", ids_ascend
    ),
    Rule(
        "equal-numbers", "Items that share a number: it is an id only when all of them are out", equal_numbers
    ),
    Rule("text-survives", "Line breaks and any other characters arrive as they were written", text_survives),
    Rule(
        "end-then-close",
        "One end, with the final task and its number; then the server closes",
        end_then_close,
    ),
    Rule("finished-fresh", "A fresh connection to a finished task gets snapshot and end", finished_fresh),
    Rule("cancelled", "A cancel is told item by item, and ends the stream", cancelled),
    Rule(
        "unknown-task",
        "A task that does not exist is 404 with code 40401, whatever is asked of it",
        unknown_task,
    ),
    Rule("no-token", "Without a valid token: 401, before anything else", no_token),
    Rule("stream-token", "A stream token opens one task's stream and nothing else", stream_token),
    Rule("progress-rate", "At most five progress frames a second, whose counts add up", progress_rate),
    Rule("heartbeat", "A comment after 15 s of silence, which moves no id", heartbeat, slow=True),
)
