"""A few kills and one short storm; `./run chaos` does the rest. And the judges: each planted fault is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from lingxi.names import FAILPOINTS
from tests.chaos.faults import ACTIONS
from tests.chaos.ground import Ground, own_ground
from tests.chaos.kills import kill_at
from tests.chaos.plan import DURATIONS, make_plan
from tests.chaos.points import every_point, roles_of
from tests.chaos.storm import weather
from tests.chaos.verdict import Verdict, judge_ledger
from tests.chaos.watchers import View
from tests.support.servers import Servers

QUICK_POINTS = [("worker", "worker.after_commit"), ("dispatcher", "outbox.after_send")]
PATIENCE_SECONDS = 120.0
TASK = UUID(int=1 << 64)


# ── the runs ─────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    ("role", "point"),
    [pair if pair in QUICK_POINTS else pytest.param(*pair, marks=pytest.mark.slow) for pair in every_point()],
)
async def test_killed_at_a_point(servers: Servers, tmp_path: Path, role: str, point: str) -> None:
    killed = await kill_at(Ground(servers), tmp_path / "run", role, point, patience_seconds=PATIENCE_SECONDS)
    assert killed.ok, killed.line() + "\n" + "\n".join(killed.verdict.problems)
    assert killed.verdict.accepted >= 13


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("seed", "seconds"), [(3, 4.0), *(pytest.param(seed, 10.0, marks=pytest.mark.slow) for seed in (5, 6, 7))]
)
async def test_a_storm(tmp_path: Path, seed: int, seconds: float) -> None:
    plan = make_plan(seed, seconds)
    with own_ground() as ground:
        weathered = await weather(
            ground,
            tmp_path / "run",
            plan,
            patience_seconds=PATIENCE_SECONDS,
            watchers=30 if seconds < 10 else 100,
        )
    assert weathered.ok, weathered.line() + "\n" + "\n".join(weathered.verdict.problems)
    assert weathered.faults == plan.names
    told = weathered.as_json()
    assert (told["accepted"], told["lost"]) == (told["final"], 0)
    assert told["accepted"] >= 100


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────
def test_the_same_seed_is_the_same_plan() -> None:
    assert make_plan(7, 60) == make_plan(7, 60)
    assert make_plan(7, 60).digest != make_plan(8, 60).digest != make_plan(8, 30).digest
    assert max(len(step.items) for step in make_plan(1, 60).steps) == 2_000


def test_every_fault_has_an_action_and_comes_in_twenty_seeds() -> None:
    assert ACTIONS.keys() == DURATIONS.keys()
    planned = {name for seed in range(1, 21) for name in make_plan(seed, 60).names}
    assert planned == DURATIONS.keys()


def test_every_failpoint_has_roles() -> None:
    assert all(roles_of(point) for point in FAILPOINTS)
    assert {point for _, point in every_point()} == set(FAILPOINTS)
    assert every_point("worker.after_commit") == [("worker", "worker.after_commit")]


# ── the judges ───────────────────────────────────────────────────────────────────────────────────────────
def _item(position: int, state: str = "succeeded", attempt: int = 10) -> dict[str, Any]:
    return {"task_id": TASK, "position": position, "state": state, "attempt_id": attempt}


def _effect(position: int, attempt: int = 10) -> dict[str, Any]:
    return {"task_id": TASK, "position": position, "attempt_id": attempt}


def _line(what: str, position: int, attempt: int = 10) -> str:
    return f"{what} {TASK} {position} {attempt} 77\n"


def _judged(lines: list[str], items: list[Any], effects: list[Any], tmp_path: Path) -> Verdict:
    ledger = tmp_path / "ledger.txt"
    ledger.write_text("".join(lines))
    verdict = Verdict()
    judge_ledger(ledger, items, effects, verdict)
    return verdict


def test_a_sound_ledger(tmp_path: Path) -> None:
    lines = [_line("ran", 1, 9), _line("ran", 1), _line("committed", 1)]
    verdict = _judged(lines, [_item(1)], [_effect(1)], tmp_path)
    assert (verdict.ok, verdict.repeated_outside) == (True, 1)


@pytest.mark.parametrize(
    ("lines", "items", "effects", "counts"),
    [
        pytest.param(
            [("ran", 1, 9), ("ran", 1, 10)], [_item(1)], [_effect(1, 9), _effect(1)], (0, 1), id="twice"
        ),
        pytest.param([("ran", 1, 10)], [_item(1, "failed")], [_effect(1)], (0, 1), id="of a failure"),
        pytest.param([("ran", 1, 9)], [_item(1)], [_effect(1, 9)], (0, 1), id="of a superseded attempt"),
        pytest.param([("ran", 1, 10)], [], [_effect(1)], (0, 1), id="of nothing"),
        pytest.param([("ran", 1, 10), ("ran", 1, 10)], [_item(1)], [], (0, 1), id="one attempt ran twice"),
        pytest.param(
            [("ran", 1, 10), ("committed", 1, 10)], [_item(1, "failed")], [], (1, 0), id="told and lost"
        ),
        pytest.param([], [_item(1)], [], (1, 0), id="never ran"),
    ],
)
def test_what_the_ledger_tells(
    lines: list[tuple[str, int, int]],
    items: list[Any],
    effects: list[Any],
    counts: tuple[int, int],
    tmp_path: Path,
) -> None:
    verdict = _judged([_line(*line) for line in lines], items, effects, tmp_path)
    assert (verdict.lost, verdict.doubled) == counts
    assert not verdict.ok
    assert verdict.problems


def test_a_view_resumes_by_the_last_number_and_sees_steps_back() -> None:
    view = View("media-tasks/1")
    view.take("item", 5, {"itemId": "a", "state": "running"})
    view.take("item", None, {"itemId": "b", "state": "queued"})
    view.take("item", 4, {"itemId": "a", "state": "queued"})
    assert (view.backwards, view.states) == (1, {"a": "queued", "b": "queued"})
    view.take("reset", 0, {})
    assert (view.last, view.states) == (0, {})
