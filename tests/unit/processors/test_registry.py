"""Which types can be submitted, and which inputs fit."""

from __future__ import annotations

from typing import Any

import pytest

from lingxi.domain.errors import SchemaError
from lingxi.names import QUEUES
from lingxi.processors.contract import Processor
from lingxi.processors.demo_drill import DRILL, Input
from lingxi.processors.registry import MAX_REPORTED_ERRORS, Registry


def registry(*queues: str) -> Registry:
    return Registry([DRILL, Processor("media:verify", Input, DRILL.run)], queues or QUEUES)


def test_available_are_those_with_a_processor_that_are_deployed() -> None:
    assert registry().available() == ("media:verify", "demo:drill")
    assert registry("demo:drill", "video:poster").available() == ("demo:drill",)


@pytest.mark.parametrize("name", ["photo:process", "nonsense", "", "demo-drill", "x" * 10_000])
def test_a_type_without_a_processor_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(SchemaError) as refused:
        registry().get(name)
    assert refused.value.code == 40001
    assert "media:verify, demo:drill" in refused.value.detail
    assert len(refused.value.detail) < 300
    assert refused.value.errors[0].field == "type"


def test_known_and_unknown_types_are_told_apart() -> None:
    with pytest.raises(SchemaError, match="not available here yet"):
        registry().get("photo:process")
    with pytest.raises(SchemaError, match="not a known type"):
        registry().get("photo:processs")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"durationMs": "5"}, "items[1].input.durationMs"),
        ({"durationMs": 1.5}, "items[1].input.durationMs"),
        ({"durationMs": True}, "items[1].input.durationMs"),
        ({"durationMs": -1}, "items[1].input.durationMs"),
        ({"durationMs": 10**30}, "items[1].input.durationMs"),
        ({"duration_ms": 5}, "items[1].input.duration_ms"),
        ({"unknown": 1}, "items[1].input.unknown"),
        ({"fail": "sometimes"}, "items[1].input.fail"),
        (None, "items[1].input"),
        ([], "items[1].input"),
        ("text", "items[1].input"),
    ],
)
def test_a_mistake_is_named_with_its_place(given: Any, field: str) -> None:
    errors = registry().validate_inputs("demo:drill", [{}, given, {}])
    assert [error.field for error in errors] == [field]
    assert errors[0].message


def test_inputs_that_fit_have_no_errors() -> None:
    assert registry().validate_inputs("demo:drill", [{}, {"durationMs": 5, "fail": "bug"}]) == []
    assert registry().validate_inputs("demo:drill", ({"hang": True},)) == []


def test_many_mistakes_are_cut_off() -> None:
    assert len(registry().validate_inputs("demo:drill", [{"x": 1}] * 10_000)) == MAX_REPORTED_ERRORS


def test_a_registry_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        Registry([Processor("nonsense", Input, DRILL.run)])
    with pytest.raises(ValueError, match="two processors"):
        Registry([DRILL, DRILL])
    with pytest.raises(ValueError, match="unknown queues"):
        Registry([DRILL], ["nonsense"])
