"""Status, transitions, decisions, ids and backoff: pure rules."""

from __future__ import annotations

import itertools
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingxi.domain.backoff import backoff_seconds
from lingxi.domain.decide import Failed, GivenBack, Succeeded, clean, decide
from lingxi.domain.errors import ITEM_CODES, PROBLEMS, LingxiError
from lingxi.domain.ids import item_id, new_task_id, parse_uuid, split_item_id
from lingxi.domain.machine import TRANSITIONS, Event, apply
from lingxi.domain.states import FINAL, Counts, ItemState, TaskStatus, task_status


@pytest.mark.parametrize(
    ("counts", "cancel", "status"),
    [
        (Counts(2, queued=2), False, TaskStatus.QUEUED),
        (Counts(2, queued=2), True, TaskStatus.CANCELLING),
        (Counts(2, queued=1, running=1), False, TaskStatus.RUNNING),
        (Counts(2, queued=1, succeeded=1), False, TaskStatus.RUNNING),  # a retry round beside succeeded items
        (Counts(2, retrying=2), False, TaskStatus.RUNNING),
        (Counts(2, running=1, cancelled=1), True, TaskStatus.CANCELLING),
        (Counts(2, succeeded=2), False, TaskStatus.SUCCEEDED),
        (Counts(2, succeeded=2), True, TaskStatus.SUCCEEDED),  # the cancel came too late for all
        (Counts(2, succeeded=1, cancelled=1), True, TaskStatus.CANCELLED),
        (Counts(2, failed=1, cancelled=1), False, TaskStatus.CANCELLED),
        (Counts(2, failed=2), False, TaskStatus.FAILED),
        (Counts(2, failed=1, succeeded=1), False, TaskStatus.PARTIALLY_FAILED),
    ],
)
def test_status_is_a_function_of_the_items(counts: Counts, cancel: bool, status: TaskStatus) -> None:
    assert task_status(counts, cancel) is status


def test_every_pair_of_state_and_event_is_decided() -> None:
    for state, event in itertools.product(ItemState, Event):
        after = apply(state, event, cancelled=False, attempt=1, max_attempts=3)
        assert (after is None) == ((state, event) not in TRANSITIONS)
        if state in FINAL:
            assert after is None or event is Event.RETRY_FAILED


def test_after_a_cancel_nothing_waits_again() -> None:
    for (state, event), edge in TRANSITIONS.items():
        if state is ItemState.RUNNING:
            assert edge.when_cancelled in FINAL, event


def test_a_lost_last_attempt_ends_the_item() -> None:
    lose = {"cancelled": False, "max_attempts": 3}
    assert apply(ItemState.RUNNING, Event.LOSE, attempt=2, **lose) is ItemState.RETRYING  # type: ignore[arg-type]
    assert apply(ItemState.RUNNING, Event.LOSE, attempt=3, **lose) is ItemState.FAILED  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("happening", "attempt", "outcome"),
    [
        (Succeeded("1"), 1, "succeeded"),
        (Failed("drill_busy", "m", retryable=True), 1, "retrying"),
        (Failed("drill_busy", "m", retryable=True), 3, "failed"),
        (Failed("drill_failed", "m", retryable=False), 1, "failed"),
        (GivenBack(), 3, "released"),
    ],
)
def test_decisions(happening: Succeeded | Failed | GivenBack, attempt: int, outcome: str) -> None:
    decision = decide(happening, attempt=attempt, max_attempts=3)
    assert decision.outcome == outcome
    assert (decision.delay_seconds > 0) == (outcome == "retrying")
    assert (decision.error_code is not None) == isinstance(happening, Failed)


def test_a_failed_item_says_whether_a_retry_can_help() -> None:
    last = decide(Failed("drill_busy", "m", retryable=True), attempt=3, max_attempts=3)
    assert last.error_retryable is True


def test_retry_after_is_honoured() -> None:
    waits = Failed("drill_busy", "m", retryable=True, retry_after=7.5)
    assert decide(waits, attempt=1, max_attempts=3).delay_seconds == 7.5


@given(st.text())
def test_any_message_can_be_stored(message: str) -> None:
    kept = clean(message)
    assert "\x00" not in kept
    assert len(kept) <= 1_000
    kept.encode("utf-8")


def test_lone_surrogates_are_replaced() -> None:
    assert clean("a\ud800b") == "a?b"


@given(st.integers(1, 40), st.floats(0, 1))
def test_backoff_grows_and_is_bounded(attempt: int, unit: float) -> None:
    wait = backoff_seconds(attempt, base_seconds=2, cap_seconds=600, random_unit=unit)
    assert min(600, 2 * 2 ** (attempt - 1)) / 2 <= wait <= 600


@given(st.integers(1, 10_000))
def test_an_item_id_tells_its_task(position: int) -> None:
    task = new_task_id()
    assert split_item_id(item_id(task, position)) == (task, position)


def test_task_ids_sort_by_time_and_do_not_repeat() -> None:
    ids = [new_task_id() for _ in range(2_000)]
    assert len(set(ids)) == len(ids)
    assert [one.int >> 80 for one in ids] == sorted(one.int >> 80 for one in ids)
    assert all(one.version == 7 and one.variant == "specified in RFC 4122" for one in ids)


@pytest.mark.parametrize(
    "text", ["", "1", "x" * 36, "{01a2334c-382d-7d8a-a6f0-b66ab5b0000}", "01a2334c382d7d8aa6f0b66ab5b00000"]
)
def test_what_is_no_uuid(text: str) -> None:
    assert parse_uuid(text) is None


def test_a_uuid_may_be_in_capitals() -> None:
    assert parse_uuid("01A2334C-382D-7D8A-A6F0-B66AB5B00000") == UUID("01a2334c-382d-7d8a-a6f0-b66ab5b00000")


def test_one_class_one_code_one_row() -> None:
    def all_subclasses(kind: type[LingxiError]) -> set[type[LingxiError]]:
        found = set(kind.__subclasses__())
        return found.union(*(all_subclasses(one) for one in found)) if found else found

    codes = [kind.code for kind in all_subclasses(LingxiError) if "code" in vars(kind)]
    assert len(codes) == len(set(codes))
    assert set(codes) | {LingxiError.code} == set(PROBLEMS)


def test_item_codes_have_sentences() -> None:
    for code, row in ITEM_CODES.items():
        assert row.sentence.endswith("."), code
