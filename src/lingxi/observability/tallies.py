"""Counters and histograms of processes that serve no HTTP: gathered here, added up in Redis, told by every API process.

Counting is an addition in memory; what was gathered goes to Redis every so often, as additions. So a crash loses the last moment,
an answer of Redis that is lost may count a moment twice, and a Redis that was wiped begins at 0 again, as a restarted process
would. Label values are bounded: queues of this deployment, and words that stand in this code.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

BUCKETS_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800)
_SUM = "sum"


@dataclass(frozen=True, slots=True)
class Tally:
    """One metric: its help and its labels."""

    help: str
    labels: tuple[str, ...] = ()


COUNTERS = {
    "lingxi_item_attempts_total": Tally(
        "Attempts of items by what became of them; superseded: fenced off, as somebody else had the item by then.",
        ("queue", "outcome"),
    ),
    "lingxi_item_failures_total": Tally(
        "Attempts that failed, by code; codes of users' processors are `other`.", ("queue", "code")
    ),
    "lingxi_item_sweep_total": Tally(
        "What sweeps found: attempts lost with their worker, items of these that failed, items that Redis had lost, wipes.",
        ("found",),
    ),
    "lingxi_photo_sweep_total": Tally(
        "What sweeps of photos did: put_back from lost workers, enqueued as due, photos of deleted albums cleared.",
        ("found",),
    ),
    "lingxi_invariant_violations_total": Tally(
        "Rows of the newest tasks that break what must always hold, by each look that finds them.",
        ("invariant",),
    ),
    "lingxi_pruned_total": Tally("Rows that were removed, as they were older than they are kept.", ("kind",)),
    "lingxi_photo_attempts_total": Tally(
        "Attempts of first publications by what became of them.", ("outcome",)
    ),
    "lingxi_outbox_events_total": Tally("Events by what the dispatcher did with them.", ("outcome",)),
    "lingxi_outbox_jobs_total": Tally("Jobs that were sent to Redis."),
}
HISTOGRAMS = {
    "lingxi_item_wait_seconds": Tally(
        "From the sending of an item's job to its claim by a worker.", ("queue",)
    ),
    "lingxi_item_run_seconds": Tally("From the claim of an item to the end of the attempt.", ("queue",)),
    "lingxi_photo_publish_seconds": Tally("From the upload's commit to the commit that published the photo."),
    "lingxi_photo_frame_seconds": Tally(
        "From the commit that published a photo to its first frame to a viewer."
    ),
    "lingxi_outbox_lag_seconds": Tally("From when an event was due until it was sent."),
}


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram's observations: how many in each bucket (the last has no bound), and the sum of all in seconds."""

    buckets: tuple[int, ...]
    sum_seconds: float


class Tallies:
    """Counts of one process since they were last taken."""

    def __init__(self) -> None:
        self._grown: dict[str, int] = defaultdict(int)
        self._fields: dict[tuple[str, ...], list[str]] = {}  # made once: this is on the way of every item
        self._followed: list[tuple[str, Callable[[], Mapping[str, int]], dict[str, int]]] = []

    def count(self, name: str, *labels: str, by: int = 1) -> None:
        """`by` more of a counter of COUNTERS."""
        key = (name, *labels)
        fields = self._fields.get(key)
        if fields is None:
            fields = self._fields[key] = ["|".join(key)]
        self._grown[fields[0]] += by

    def observe(self, name: str, *labels: str, seconds: float) -> None:
        """One more observation of a histogram of HISTOGRAMS; less than 0 (two machines' clocks differ) is 0."""
        self.observe_all(name, *labels, seconds=(seconds,))

    def observe_all(self, name: str, *labels: str, seconds: Iterable[float]) -> None:
        """Several at once: for a batch of items that costs a fraction."""
        key = (name, *labels)
        fields = self._fields.get(key)
        if fields is None:
            ends = [*map(str, range(len(BUCKETS_SECONDS) + 1)), _SUM]
            fields = self._fields[key] = ["|".join((*key, end)) for end in ends]
        grown, total = self._grown, 0.0
        for one in seconds:
            grown[fields[bisect_left(BUCKETS_SECONDS, one)]] += 1
            total += one if one > 0 else 0
        grown[fields[-1]] += int(total * 1_000_000)

    def follow(self, name: str, read: Callable[[], Mapping[str, int]]) -> None:
        """A counter from numbers that something else counts: `read` answers them by the label's value (`""`: it has no label)."""
        self._followed.append((name, read, dict(read())))

    def take(self) -> dict[str, int]:
        """What has grown by how much, by field of the hash; it is the caller's from now on."""
        for name, read, seen in self._followed:
            for value, total in read().items():
                self.count(name, *([value] if value else []), by=total - seen.get(value, 0))
                seen[value] = total
        taken, self._grown = self._grown, defaultdict(int)
        return {field: grown for field, grown in taken.items() if grown}

    def give_back(self, taken: Mapping[str, int]) -> None:
        """What could not be told is told the next time."""
        for field, grown in taken.items():
            self._grown[field] += grown


def counters(fields: Mapping[str, int]) -> dict[str, dict[tuple[str, ...], float]]:
    """Of the hash's fields the counters: samples by label values. Fields that this version does not know are left out."""
    samples: dict[str, dict[tuple[str, ...], float]] = {}
    for field, value in fields.items():
        name, *labels = field.split("|")
        if name in COUNTERS and len(labels) == len(COUNTERS[name].labels):
            samples.setdefault(name, {})[tuple(labels)] = value
    return samples


def distributions(fields: Mapping[str, int]) -> dict[str, dict[tuple[str, ...], Distribution]]:
    """Of the hash's fields the histograms, likewise."""
    found: dict[tuple[str, tuple[str, ...]], dict[str, int]] = {}
    for field, value in fields.items():
        name, *labels = field.split("|")
        if name in HISTOGRAMS and len(labels) == len(HISTOGRAMS[name].labels) + 1:
            found.setdefault((name, tuple(labels[:-1])), {})[labels[-1]] = value
    result: dict[str, dict[tuple[str, ...], Distribution]] = {}
    for (name, key), parts in found.items():
        buckets = tuple(parts.get(str(i), 0) for i in range(len(BUCKETS_SECONDS) + 1))
        result.setdefault(name, {})[key] = Distribution(buckets, parts.get(_SUM, 0) / 1_000_000)
    return result
