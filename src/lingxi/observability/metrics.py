"""Prometheus text (format 0.0.4): gauges from collectors that may fail, one by one, without failing the answer.

A collector that fails or takes too long becomes a `#` comment line and a line in the log, and its gauges are absent: never 0,
which would look like health; `lingxi_collector_up` says which. Histograms and counters of this process come from
prometheus-client's registry.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from prometheus_client import CollectorRegistry, generate_latest

from lingxi.observability.logging import get_logger
from lingxi.observability.tallies import BUCKETS_SECONDS, Distribution

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COLLECT_SECONDS = 1.5
_UP = "lingxi_collector_up"

_log = get_logger(__name__)
_abandoned: set[asyncio.Task[Sequence["Metric"]]] = (
    set()
)  # cancelled and not waited for: a hung server holds nobody up


@dataclass(frozen=True, slots=True)
class Gauge:
    """One gauge (or counter): its samples by label values (`{("media:verify", "waiting"): 3}`; `{(): 0}` without labels)."""

    name: str
    help: str
    labels: Sequence[str]
    samples: Mapping[tuple[str, ...], float]
    type: Literal["gauge", "counter"] = "gauge"


@dataclass(frozen=True, slots=True)
class Histogram:
    """One histogram: its distributions by label values."""

    name: str
    help: str
    labels: Sequence[str]
    samples: Mapping[tuple[str, ...], Distribution]


Metric = Gauge | Histogram


@dataclass(frozen=True, slots=True)
class Collector:
    """Reads one source; `name` is what its comment line calls it."""

    name: str
    read: Callable[[], Awaitable[Sequence[Metric]]]


async def render(collectors: Sequence[Collector], registry: CollectorRegistry | None = None) -> bytes:
    """The whole text, at the latest after COLLECT_SECONDS."""
    tasks = [asyncio.ensure_future(_read(collector)) for collector in collectors]
    await asyncio.wait(tasks, timeout=COLLECT_SECONDS)
    gauges: dict[str, list[Metric]] = {}
    comments: list[str] = []
    up: dict[tuple[str, ...], float] = {}
    for collector, task in zip(collectors, tasks, strict=True):
        why = _failure(task)
        up[(collector.name,)] = float(why is None)
        if why is not None:
            _log.warning("metrics_collector_failed", collector=collector.name, error=why)
            comments.append(f"# collector {collector.name} failed: {' '.join(why.split())}\n")
            continue
        for gauge in task.result():
            gauges.setdefault(gauge.name, []).append(gauge)
    gauges[_UP] = [
        Gauge(_UP, "1 when the source of metrics answered this scrape, else 0.", ("collector",), up)
    ]
    text = "".join(_text(parts) for parts in gauges.values()) + "".join(comments)
    return text.encode() + (generate_latest(registry) if registry is not None else b"")


async def _read(collector: Collector) -> Sequence[Metric]:
    return await collector.read()


def _failure(task: asyncio.Task[Sequence[Metric]]) -> str | None:
    if not task.done():
        _abandoned.add(task)
        task.add_done_callback(_forget)
        task.cancel()
        return f"no answer within {COLLECT_SECONDS} s"
    error = task.exception()
    return None if error is None else f"{type(error).__name__}"


def _forget(task: asyncio.Task[Sequence[Metric]]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not complain


def _text(parts: Sequence[Metric]) -> str:
    """HELP and TYPE once, then the samples of every collector that had some of this metric."""
    first = parts[0]
    type_ = first.type if isinstance(first, Gauge) else "histogram"
    lines = [f"# HELP {first.name} {first.help}\n# TYPE {first.name} {type_}\n"]
    for part in parts:
        if isinstance(part, Gauge):
            lines += [_line(part.name, part.labels, values, value) for values, value in part.samples.items()]
        else:
            for values, distribution in part.samples.items():
                lines += _histogram(part, values, distribution)
    return "".join(lines)


def _histogram(of: Histogram, values: tuple[str, ...], distribution: Distribution) -> list[str]:
    """Its buckets, each with all that are below it, the sum and the count."""
    bounds = [*(f"{bound:g}" for bound in BUCKETS_SECONDS), "+Inf"]
    sums = list(accumulate(distribution.buckets))
    return [
        *(
            _line(f"{of.name}_bucket", [*of.labels, "le"], (*values, bound), count)
            for bound, count in zip(bounds, sums, strict=True)
        ),
        _line(f"{of.name}_sum", of.labels, values, distribution.sum_seconds),
        _line(f"{of.name}_count", of.labels, values, sums[-1]),
    ]


def _line(name: str, labels: Sequence[str], values: tuple[str, ...], value: float) -> str:
    pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in zip(labels, values, strict=True))
    return f"{name}{{{pairs}}} {_number(value)}\n" if pairs else f"{name} {_number(value)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    """Whole numbers without a fraction, the rest in full (`%g` would round a count of a million)."""
    return str(int(value)) if value == int(value) else repr(float(value))
