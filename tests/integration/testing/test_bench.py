"""The kit for those who write processors: a real transaction, a storage folder, a clock, crashes at named points."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lingxi.processors.contract import Context, Processor, ProcessorInput, StopReason
from lingxi.testing import POINTS, Bench, open_bench
from tests.support.processors import COUNT, OBEY
from tests.support.servers import Servers


@pytest.fixture(scope="module")
def bench(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    with open_bench(folder, database_url=servers.database_url) as opened:
        opened.put("in.txt", b"seven letters")
        yield opened


def counts(bench: Bench) -> int:
    """How often the effect of `letters:count` happened."""
    rows = bench.fetch("select value from deployment where key = 'counts'")
    return int(rows[0]["value"]) if rows else 0


def test_an_item_runs_to_its_result(bench: Bench) -> None:
    ran = bench.run(COUNT, {"object": "in.txt", "into": "copy.txt"})
    assert (ran.state, ran.result) == ("succeeded", {"letterCount": 13, "attempt": 1})
    assert [tuple(said) for said in ran.progress] == [(1, 2, "read")]
    assert bench.get("copy.txt") == b"seven letters"
    assert bench.scratch_left() == []


@pytest.mark.parametrize("point", POINTS)
def test_whatever_point_it_crashes_at_the_effect_is_there_once(bench: Bench, point: str) -> None:
    before = counts(bench)
    ran = bench.crash(COUNT, {"object": "in.txt"}, at=point)
    assert ran.state == "succeeded"
    assert counts(bench) == before + 1
    ended_by_first = point in ("after_commit", "returned", "finished")  # effect and result were one commit
    assert ran.outcomes == (["succeeded"] if ended_by_first else ["lost", "succeeded"])
    assert bench.scratch_left() == []


class Nothing(ProcessorInput):
    pass


async def _careless(context: Context, given: Nothing) -> None:
    async with context.transaction() as connection:
        await connection.execute(
            "insert into deployment (key, value) values ($1, '1')", str(context.attempt.id)
        )


def test_a_processor_that_is_not_idempotent_is_seen(bench: Bench) -> None:
    before = len(bench.fetch("select from deployment"))
    ran = bench.run_twice(Processor("careless:insert", Nothing, _careless), {})
    assert (ran.state, ran.outcomes) == ("succeeded", ["lost", "succeeded"])
    assert len(bench.fetch("select from deployment")) == before + 2


def test_codes_and_retries(bench: Bench) -> None:
    missing = bench.run(COUNT, {"object": "nothing.txt"})
    assert (missing.state, missing.code, missing.outcomes) == ("failed", "object_not_found", ["failed"])
    assert bench.run(OBEY, {"what": "transient"}).outcomes == ["retrying", "succeeded"]
    with pytest.raises(ValueError, match=r"items\[0\]\.input\.object: Field required"):
        bench.run(COUNT, {})
    with pytest.raises(ValueError, match="no point; known are: claimed"):
        bench.crash(COUNT, {}, at="nowhere")
    with pytest.raises(AssertionError, match="never came to the point 'before_commit'"):
        bench.crash(OBEY, {"what": "answer"}, at="before_commit")


async def _patient(context: Context, given: Nothing) -> dict[str, Any]:
    context.progress(0)
    await context.stopping.wait()
    return {"reason": context.stop_reason, "left": context.seconds_left()}


PATIENT = Processor("patient:wait", Nothing, _patient, time_limit_seconds=100.0, max_attempts=1)


def test_the_clock_is_the_tests(bench: Bench) -> None:
    near = bench.run(PATIENT, {}, on_progress=lambda said: bench.clock.advance(96))
    assert near.result == {"reason": StopReason.DEADLINE_NEAR, "left": 4.0}
    over = bench.run(PATIENT, {}, on_progress=lambda said: bench.clock.advance(101))
    assert (over.state, over.code) == ("failed", "deadline_exceeded")


def test_a_processor_can_be_stopped_and_crashed_from_its_progress(bench: Bench, tmp_path: Path) -> None:
    stopped = bench.run(PATIENT, {}, on_progress=lambda said: bench.stop())
    assert stopped.result["reason"] == StopReason.SHUTDOWN
    crashed = bench.run(COUNT, {"object": "in.txt"}, on_progress=lambda said: bench.crash_now())
    assert crashed.outcomes == ["lost", "succeeded"]


@pytest.mark.parametrize("what", ["smuggle", "pipe"])
def test_a_child_stores_files_of_its_scratch_folder_and_nothing_else(bench: Bench, what: str) -> None:
    ran = bench.run(OBEY, {"what": what})
    assert (ran.code, ran.outcomes) == ("internal_error", ["retrying", "failed"])
    assert bench.get("theirs.txt") is None
    assert bench.scratch_left() == []


def test_a_child_fetches_and_stores(bench: Bench) -> None:
    assert bench.run(OBEY, {"what": "copy"}).state == "succeeded"
    assert bench.get("out.txt") == b"SEVEN LETTERS"
