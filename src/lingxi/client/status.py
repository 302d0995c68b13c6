"""The state of a whole deployment in numbers, from what the API tells without a token: queue health and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from lingxi.client.model import Json

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Status:
    """`health`: `GET /health/queues`, empty when PostgreSQL or Redis is away. `samples`: `GET /metrics`, by name and labels."""

    health: Json
    samples: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)

    def one(self, name: str, **labels: str) -> float | None:
        """A sample; None when it is absent."""
        return self.samples.get(name, {}).get(tuple(sorted(labels.items())))

    def by(self, name: str, label: str) -> dict[str, float]:
        """All samples of a metric by one of its labels."""
        return {dict(labels).get(label, ""): value for labels, value in self.samples.get(name, {}).items()}

    def hints(self) -> list[tuple[str, str]]:
        """What would page soon, as (alert, sentence): the rules' conditions, without their patience."""
        return [
            (alert, f"{labels}{sentence}") for alert, sentence, broken in RULES for labels in broken(self)
        ]


def read_metrics(text: str) -> dict[str, dict[Labels, float]]:
    """The samples of a Prometheus text; buckets of histograms are left out."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if not sample.name.endswith("_bucket"):
                found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def _each(metric: str, label: str, broken: Callable[[float], bool]) -> Callable[[Status], list[str]]:
    def look(status: Status) -> list[str]:
        return [
            f"{name}: " if name else "" for name, value in status.by(metric, label).items() if broken(value)
        ]

    return look


def _away(collector: str) -> Callable[[Status], list[str]]:
    return lambda status: [""] if status.one("lingxi_collector_up", collector=collector) == 0 else []


RULES: tuple[tuple[str, str, Callable[[Status], list[str]]], ...] = (
    ("LingxiPostgresDown", "PostgreSQL does not answer", _away("postgresql")),
    ("LingxiRedisDown", "Redis does not answer", _away("redis")),
    (
        "LingxiDispatcherStopped",
        "no dispatcher is at work",
        _each("lingxi_dispatcher_held", "", lambda v: v == 0),
    ),
    (
        "LingxiOutboxDeadLetter",
        "events were given up on",
        _each("lingxi_outbox_dead_letter_total", "", lambda v: v > 0),
    ),
    ("LingxiOutboxLag", "the outbox lags", _each("lingxi_outbox_oldest_due_seconds", "", lambda v: v > 120)),
    (
        "LingxiWorkerHeartbeatMissing",
        "no worker is heard",
        _each("lingxi_worker_heartbeat_age_seconds", "queue", lambda v: v < 0 or v > 60),
    ),
    (
        "LingxiCanaryUnanswered",
        "its workers do nothing",
        _each("lingxi_canary_age_seconds", "queue", lambda v: v > 180),
    ),
    (
        "LingxiQueueBacklog",
        "work waits too long",
        _each("lingxi_queue_oldest_waiting_seconds", "queue", lambda v: v > 600),
    ),
    (
        "LingxiQueueHighFailureRatio",
        "more than one in twenty fails",
        _each("lingxi_queue_failure_ratio", "queue", lambda v: v > 0.05),
    ),
    (
        "LingxiDiskNearlyFull",
        "the disk is nearly full",
        _each("lingxi_disk_free_ratio", "disk", lambda v: v < 0.1),
    ),
)


def status_to_json(status: Status) -> dict[str, Any]:
    """For programs: what the screen shows."""
    return {
        "ok": not status.hints(),
        "hints": [{"alert": alert, "sentence": sentence} for alert, sentence in status.hints()],
        "health": status.health,
        "outbox": {
            "oldestDueSeconds": status.one("lingxi_outbox_oldest_due_seconds"),
            "dispatcherHeld": status.one("lingxi_dispatcher_held") == 1,
        },
        "canarySeconds": status.by("lingxi_canary_age_seconds", "queue"),
        "sweeps": status.by("lingxi_item_sweep_total", "found"),
        "photoSweeps": status.by("lingxi_photo_sweep_total", "found"),
        "streams": status.by("lingxi_stream_connections", "kind"),
        "diskFreeRatio": status.by("lingxi_disk_free_ratio", "disk"),
    }
