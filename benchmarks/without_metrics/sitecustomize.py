"""In the PYTHONPATH of processes that are to count nothing and log nothing: what `observability` compares with."""

from typing import Any

import structlog

from lingxi.observability import logging
from lingxi.observability.tallies import Tallies


def _nothing(self: Tallies, *labels: str, **more: Any) -> None:
    """Neither counted nor observed."""


def _only_that_it_started(logger: Any, method: str, event: Any) -> Any:
    """The benchmark waits for this line; no other is made."""
    if event["event"] != "worker_started":
        raise structlog.DropEvent
    return event


setattr(Tallies, "count", _nothing)  # noqa: B010 - mypy refuses an assignment to a method
setattr(Tallies, "observe_all", _nothing)  # noqa: B010
logging._PROCESSORS.insert(0, _only_that_it_started)
