"""A server that cannot serve now: said once when it begins and once when it ends, however many loops notice."""

import time

from lingxi.observability.logging import get_logger

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_log = get_logger("worker")


class Outage:
    """The state of one server as the loops of this process see it."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._since: float | None = None

    @property
    def lasts(self) -> bool:
        """Was the last word about the server that it is away?"""
        return self._since is not None

    def began(self, error: BaseException) -> None:
        """Somebody met it."""
        if self._since is None:
            self._since = time.monotonic()
            _log.warning(f"{self.server}_unavailable", reason=f"{type(error).__name__}: {error}"[:300])

    def ended(self) -> None:
        """Somebody was served."""
        if self._since is not None:
            seconds = time.monotonic() - self._since
            self._since = None
            _log.info(f"{self.server}_available", seconds=round(seconds, 3))


def pause_seconds(failures: int) -> float:
    """How long to wait after so many failures in a row (from 1): soon at first, then once a second."""
    return min(_FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10), _LONGEST_PAUSE_SECONDS)
