"""What the dispatcher did: in one round, and since its start."""

import time
from dataclasses import dataclass


@dataclass(slots=True)
class Round:
    """What one round did. `paused` says which server cannot serve; `full` that there may be more at once."""

    leader: bool = False
    claimed: int = 0
    published: int = 0
    jobs: int = 0
    charged: int = 0
    dead_lettered: int = 0
    held_back: int = 0
    full: bool = False
    paused: str | None = None


@dataclass(slots=True)
class Totals:
    """Since the start; only the dispatcher's loop writes, any thread may read."""

    rounds: int = 0
    published: int = 0
    jobs: int = 0
    charged: int = 0
    dead_lettered: int = 0
    pauses: int = 0
    paused: str | None = None
    last_round_at: float = 0.0
    """`time.monotonic()` at the end of the last round, paused or not."""

    def add(self, done: Round) -> str | None:
        """A round has ended; answers why the one before was paused, if it was."""
        before, self.paused = self.paused, done.paused
        self.rounds += 1
        self.published += done.published
        self.jobs += done.jobs
        self.charged += done.charged
        self.dead_lettered += done.dead_lettered
        self.pauses += done.paused is not None
        self.last_round_at = time.monotonic()
        return before

    def of_events(self) -> dict[str, int]:
        """What became of events: published, charged with a failed try, given up on."""
        return {"published": self.published, "charged": self.charged, "dead_lettered": self.dead_lettered}
