"""How the hub behaves, and what it has done."""

from bisect import bisect_left
from dataclasses import dataclass, field

from lingxi.observability.tallies import BUCKETS_SECONDS


@dataclass(frozen=True, slots=True)
class HubConfig:
    """How the hub behaves; the defaults are the product's numbers."""

    poll_seconds: float = 0.8
    heartbeat_seconds: float = 15.0
    access_check_seconds: float = 30.0
    send_timeout_seconds: float = 60.0
    close_seconds: float = 5.0  # for `closing` to reach those that can take it
    log_bytes: int = 128 * 1024  # recent frames kept of each channel
    streams_per_grant: int = 10_000  # of one token or share link
    streams_per_address: int = 10_000


@dataclass(slots=True)
class HubCounts:
    """What the hub has done since its start."""

    opened: int = 0
    pages: int = 0  # statements for those behind
    fell_behind: int = 0
    stalled: int = 0  # ended: a send did not return in time
    revoked: int = 0
    refused: int = 0
    ends: list[int] = field(
        default_factory=lambda: [0] * (len(BUCKETS_SECONDS) + 1)
    )  # that watchers were told of, by how long after the commit
    ends_seconds: float = 0.0

    def told_of_end(self, seconds: float) -> None:
        """Those who watch a task were told of its end, so long after it."""
        self.ends[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self.ends_seconds += seconds
