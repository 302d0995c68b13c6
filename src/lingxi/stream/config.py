"""How the hub behaves, and what it has done."""

from dataclasses import dataclass


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
