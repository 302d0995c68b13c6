"""Is a queue well? Pure rules over what Redis and PostgreSQL said."""

from typing import Literal

from lingxi.names import HEARTBEAT_TTL_SECONDS

STALE_AFTER_SECONDS = 2 * HEARTBEAT_TTL_SECONDS

HeartbeatState = Literal["fresh", "stale", "missing"]
QueueStatus = Literal["ok", "degraded"]


def heartbeat_state(age_seconds: float | None) -> HeartbeatState:
    """missing: the key is gone (it expires after 30 s); stale: it is there and older than twice that."""
    if age_seconds is None:
        return "missing"
    return "stale" if age_seconds > STALE_AFTER_SECONDS else "fresh"


def queue_status(
    *, waiting: int, oldest_waiting_seconds: float, heartbeat_age_seconds: float | None
) -> QueueStatus:
    """degraded: something waits and no worker is heard. An idle queue without a worker is ok: nobody misses it."""
    backlog = waiting > 0 or oldest_waiting_seconds > 0
    return "degraded" if backlog and heartbeat_state(heartbeat_age_seconds) != "fresh" else "ok"
