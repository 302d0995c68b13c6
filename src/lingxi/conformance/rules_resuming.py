"""Coming back: with an id, with a wrong one, after the end, after a retry."""

from lingxi.conformance.model import Model
from lingxi.conformance.rule import Bench, Check, Rule
from lingxi.conformance.work import mixed, quick, staggered

_GARBAGE = (
    "x",
    "-1",
    "1.5",
    "0x1",
    "007",
    "1,2",
    "9" * 30,
    "9223372036854775808",
    "null",
    "%00",
    "☃".encode().decode("latin-1"),
)


async def _replayed(
    bench: Bench, task_id: str, last_event_id: str | None, query_id: str | None = None
) -> tuple[Model, list[str]]:
    """What a client knows that asks with this id and reads to the end; and the events in order."""
    model = Model()
    async with await bench.server.events(task_id, last_event_id, query_id=query_id) as stream:
        frames = await stream.to_the_end()
    for frame in frames:
        model.apply(frame)
    return model, [frame.event for frame in frames]


async def zero_replays(bench: Bench, check: Check) -> None:
    task = await bench.server.run(mixed(25))
    for last_event_id, query_id in (("0", None), (None, "0")):
        model, events = await _replayed(bench, task["id"], last_event_id, query_id)
        check.equal(events.count("item"), 25, "the number of items replayed")
        check("reset" not in events, "id 0 is answered with a reset")
        await bench.same_as_asked(check, task["id"], model)


async def every_id(bench: Bench, check: Check) -> None:
    """Follow a task live, remembering what was known at each id; then resume at each of them, and at all ids
    between.
    """
    task = await bench.server.submit(staggered(12, over_ms=1_500) + mixed(12))
    known: dict[int, Model] = {}
    model = Model()
    async with await bench.server.events(task["id"], "0") as stream:
        while (frame := await stream.next()) is not None:
            model.apply(frame)
            if frame.id is not None:
                known[frame.number] = model.copy()
    last = max(known)
    del known[last]
    for number, remembered in known.items():
        async with await bench.server.events(task["id"], str(number)) as stream:
            for frame in await stream.to_the_end():
                remembered.apply(frame)
        await bench.same_as_asked(check, task["id"], remembered, f"resumed at {number}")
    for number in range(last):
        async with await bench.server.events(task["id"], str(number)) as stream:
            frames = await stream.to_the_end()
        ids = [frame.number for frame in frames if frame.id is not None]
        check(
            bool(ids) and ids[0] > number and ids[-1] == last,
            f"after {number} come the ids {ids[:5]} … {ids[-1:]}",
        )


async def resume_begins_with_progress(bench: Bench, check: Check) -> None:
    task = await bench.server.submit(staggered(10, over_ms=3_000))
    async with await bench.server.events(task["id"]) as stream:
        await stream.until(lambda frame: frame.event == "item" and frame.data["state"] == "succeeded")
        last_id = stream.last_id
    async with await bench.server.events(task["id"], last_id) as stream:
        first = await stream.next()
        check(
            first is not None and first.event == "progress", f"the first frame is {first and first.event!r}"
        )


async def header_wins(bench: Bench, check: Check) -> None:
    task = await bench.server.run(quick(4))
    end = task["cursor"]
    async with await bench.server.events(task["id"], str(end), query_id="0") as stream:
        check.equal(stream.status, 204, "the status with the end's id in the header and 0 in the address")
    _, events = await _replayed(bench, task["id"], "0", str(end))
    check.equal(events.count("item"), 4, "the items with 0 in the header and the end's id in the address")
    _, events = await _replayed(bench, task["id"], str(end - 1), "garbage")
    check("reset" not in events, "garbage in the address is looked at although there is a header")


async def garbage_ids(bench: Bench, check: Check) -> None:
    task = await bench.server.run(mixed(10))
    for given in _GARBAGE:
        await _is_reset(bench, check, task["id"], given)


async def future_ids(bench: Bench, check: Check) -> None:
    task = await bench.server.run(mixed(10))
    for ahead in (1, 2, 1_000_000):
        await _is_reset(bench, check, task["id"], str(task["cursor"] + ahead))
    live = await bench.server.submit(staggered(5, over_ms=1_500))
    async with await bench.server.events(live["id"], "1000000") as stream:
        first = await stream.next()
        check(
            first is not None and first.event == "reset",
            "an id from the future of a live task is not answered with a reset",
        )


async def _is_reset(bench: Bench, check: Check, task_id: str, given: str) -> None:
    model, events = await _replayed(bench, task_id, given)
    check.equal(events[:2], ["reset", "snapshot"], f"the first frames after the id {given[:20]!r}")
    check.equal(events.count("item"), 10, f"the items after the id {given[:20]!r}")
    await bench.same_as_asked(check, task_id, model, f"after the id {given[:20]!r}")


async def reset_interrupted(bench: Bench, check: Check) -> None:
    task = await bench.server.run(mixed(8))
    _, events = await _replayed(bench, task["id"], "garbage")
    for cut in range(1, len(events)):
        model = Model()
        async with await bench.server.events(task["id"], "garbage") as stream:
            for _ in range(cut):
                frame = await stream.next()
                assert frame is not None
                model.apply(frame)
            last_id = stream.last_id
        if not model.ended:
            await bench.server.follow(task["id"], model, last_id)
        await bench.same_as_asked(check, task["id"], model, f"cut after {cut} frames")


async def no_content(bench: Bench, check: Check) -> None:
    task = await bench.server.run(mixed(6))
    end = task["cursor"]
    for number in range(end + 2):
        async with await bench.server.events(task["id"], str(number)) as stream:
            check.equal(stream.status, 204 if number == end else 200, f"the status at {number} of {end}")
            check(stream.status != 204 or not stream.body, "204 has a body")
    live = await bench.server.submit(staggered(3, over_ms=2_000))
    async with await bench.server.events(live["id"]) as stream:
        await stream.next()
        async with await bench.server.events(live["id"], stream.last_id) as again:
            check.equal(again.status, 200, "the status at the number of a task that has not finished")


async def after_retry(bench: Bench, check: Check) -> None:
    inputs = [*quick(5), {"fail": "permanent"}, {"fail": "permanent", "durationMs": 300}]
    task = await bench.server.submit(inputs)
    followed = await bench.server.follow(task["id"], Model(), "0")
    async with await bench.server.events(task["id"], followed.last_id) as stream:
        check.equal(stream.status, 204, "the status at the end's id before the retry")
    retried = await bench.server.steer(task["id"], "retry-failed")
    async with await bench.server.events(task["id"], followed.last_id) as stream:
        check.equal(stream.status, 200, "the status at the old end's id after the retry")
        frames = await stream.to_the_end()
    for frame in frames:
        followed.model.apply(frame)
    check.equal(
        {frame.data["index"] for frame in frames if frame.event == "item"}, {5, 6}, "the items told of"
    )
    check.equal(
        (frames[-1].event, frames[-1].data["round"]),
        ("end", retried["round"]),
        "the last frame and its round",
    )
    await bench.same_as_asked(check, task["id"], followed.model)


RULES = (
    Rule("zero-replays", "Id 0, by header or address, replays every item", zero_replays),
    Rule("every-id", "Whoever resumes at an id, whichever, ends with the server's own state", every_id),
    Rule(
        "resume-progress",
        "A resume of an unfinished task begins with its progress",
        resume_begins_with_progress,
    ),
    Rule("header-wins", "Last-Event-ID wins over ?lastEventId=", header_wins),
    Rule("garbage-ids", "An id that is none: reset, a snapshot, every item", garbage_ids),
    Rule("future-ids", "An id beyond the task's number: reset, a snapshot, every item", future_ids),
    Rule(
        "reset-interrupted",
        "A reset that is cut off anywhere is made good by the next connection",
        reset_interrupted,
    ),
    Rule("no-content", "204 exactly at the number of a finished task, with no body", no_content),
    Rule("after-retry", "After a retry, the old end's id resumes into the new round", after_retry),
)
