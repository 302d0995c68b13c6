"""Charges events for what went wrong with them, and them alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lingxi import names
from lingxi.db.query import sql
from lingxi.db.session import Connection, Record
from lingxi.domain.backoff import backoff_seconds
from lingxi.observability.logging import get_logger
from lingxi.outbox.counts import Round

_log = get_logger("outbox.dispatcher")


@dataclass(frozen=True, slots=True)
class Charger:
    """How long a charged event waits: `base_seconds` at first, then twice as long each time, at most `cap_seconds`."""

    base_seconds: float
    cap_seconds: float

    async def charge(
        self, connection: Connection, rows: Sequence[Record], guilty: Mapping[int, str], done: Round
    ) -> None:
        """Each guilty event of `rows`, with the reason, comes again after a while, or is a dead letter after its last attempt."""
        attempts = {row["id"]: row["attempts"] for row in rows}
        for event_id, reason in guilty.items():
            seconds = backoff_seconds(
                attempts[event_id] + 1, base_seconds=self.base_seconds, cap_seconds=self.cap_seconds
            )
            charged = await connection.fetchrow(
                sql("outbox/charge"), event_id, reason, seconds, names.MAX_EVENT_ATTEMPTS
            )
            dead = charged is not None and charged["last_error"] == names.DEAD_LETTERED
            done.charged += 1
            done.dead_lettered += dead
            _log.warning("event_dead_lettered" if dead else "event_charged", event_id=event_id, reason=reason)
