"""How many streams one token, share link or address may have open: the memory of a process is bounded."""

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from lingxi.domain.errors import OverLimit

if TYPE_CHECKING:
    from lingxi.stream.watcher import Watcher

_RETRY_AFTER_SECONDS = 10


class Places:
    """Counts open streams by grant and by address, in this process."""

    def __init__(self, per_grant: int, per_address: int) -> None:
        self._per_grant, self._per_address = per_grant, per_address
        self._grants: Counter[Hashable] = Counter()
        self._addresses: Counter[str] = Counter()
        self._taken: dict[Watcher, str | None] = {}

    def take(self, watcher: "Watcher", address: str | None) -> None:
        """Count a stream that opens; OverLimit when its grant or its address has as many as it may. None: no address."""
        if self._grants[watcher.grant] >= self._per_grant:
            raise OverLimit(
                f"There are {self._per_grant} open streams with this token or share link, which is the most.",
                retry_after_seconds=_RETRY_AFTER_SECONDS,
            )
        if address is not None and self._addresses[address] >= self._per_address:
            raise OverLimit(
                f"There are {self._per_address} open streams from this address, which is the most.",
                retry_after_seconds=_RETRY_AFTER_SECONDS,
            )
        self._grants[watcher.grant] += 1
        if address is not None:
            self._addresses[address] += 1
        self._taken[watcher] = address

    def leave(self, watcher: "Watcher") -> None:
        """Give the place back."""
        if watcher not in self._taken:
            return
        address = self._taken.pop(watcher)
        _less(self._grants, watcher.grant)
        if address is not None:
            _less(self._addresses, address)


def _less(counts: "Counter[Any]", name: Hashable) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
