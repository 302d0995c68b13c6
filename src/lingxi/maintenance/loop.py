"""The one shape of a loop here: run at once, then every interval, survive errors, log what was done."""

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar

from lingxi.broker.errors import BrokerError
from lingxi.db.session import is_conflict, is_unavailable
from lingxi.observability.logging import get_logger
from lingxi.storage.errors import StorageUnavailable

_log = get_logger(__name__)


class Loop(ABC):
    """`run()` until `stop()`. A round ends early when `stopping` is set."""

    name: ClassVar[str]
    """What the log calls it."""
    interval_seconds: float
    stopping: asyncio.Event

    async def run(self) -> None:
        """Do a round at once, then every interval, until `stop`. An outage of a server only delays it."""
        while not self.stopping.is_set():
            await self._round()
            await self._rest()

    def stop(self) -> None:
        """Begin no further batch; `run` returns soon."""
        self.stopping.set()

    @abstractmethod
    async def done_once(self) -> dict[str, int]:
        """One round; answers what it did, by name. Numbers that are not 0 are logged."""

    async def _rest(self) -> None:
        """Until the next round."""
        await self._stops_within(self.interval_seconds)

    async def _stops_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self.stopping.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _round(self) -> None:
        try:
            done = await self.done_once()
        except Exception as error:
            if (
                is_unavailable(error)
                or is_conflict(error)
                or isinstance(error, BrokerError | StorageUnavailable)
            ):
                _log.warning(f"{self.name}_delayed", reason=str(error)[:200] or type(error).__name__)
            else:
                _log.error(f"{self.name}_failed", exc_info=True)
            return
        if any(done.values()):
            _log.info(f"{self.name}_done", **done)
