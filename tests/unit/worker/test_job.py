"""What jobs say, ours and everybody else's."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingxi.domain.ids import item_id, new_task_id
from lingxi.services.claim_items import ItemKey
from lingxi.worker.job import NewerPayload, parse_job

TASK = new_task_id()


def data(**changes: Any) -> bytes:
    job = {"v": 1, "eventId": "5", "taskId": str(TASK), "itemId": str(item_id(TASK, 7)), **changes}
    return json.dumps({key: value for key, value in job.items() if value is not ...}).encode()


@given(st.integers(1, 65_535))
def test_a_job_names_its_item(position: int) -> None:
    assert parse_job(data(itemId=str(item_id(TASK, position)))) == ItemKey(TASK, position)


def test_unknown_fields_are_no_offence() -> None:
    assert parse_job(data(eventId=..., later="field")) == ItemKey(TASK, 7)


@pytest.mark.parametrize(
    "changes",
    [
        {"v": ...},
        {"v": 0},
        {"v": "1"},
        {"v": True, "taskId": None},
        {"v": 1.5},
        {"taskId": ...},
        {"taskId": 5},
        {"taskId": "x" * 36},
        {"taskId": str(uuid4())},
        {"taskId": str(item_id(TASK, 7))},
        {"itemId": ...},
        {"itemId": str(item_id(new_task_id(), 7))},
        {"itemId": str(TASK)},
        {"itemId": str(item_id(TASK, 7)) + "0"},
        {"itemId": str(TASK)[:32] + "zzzz"},
        {"itemId": str(TASK)[:32] + "-001"},
    ],
)
def test_what_names_no_item_is_none(changes: dict[str, Any]) -> None:
    assert parse_job(data(**changes)) is None


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b"5", b"{", b"\xff\xfe", b'"x"', b"[" * 5000])
def test_what_is_no_job_at_all_is_none(raw: bytes) -> None:
    assert parse_job(raw) is None


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(raw: bytes) -> None:
    assert parse_job(raw) is None


def test_a_newer_job_is_told_apart() -> None:
    with pytest.raises(NewerPayload):
        parse_job(data(v=2, taskId=...))
