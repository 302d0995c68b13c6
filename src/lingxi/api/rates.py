"""How often one address may ask: a bucket each, in this process's memory, bounded.

IPv6 addresses count by their /64, which is what one customer is given. Several API processes each count for themselves.
"""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

_MAX_ADDRESSES = 20_000  # the ones that have been silent longest are forgotten first


class AddressRates:
    """Lets `per_minute` requests a minute through for each address, and as many at once after a minute of silence."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = float(per_minute)
        self._per_second = per_minute / 60
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = (
            OrderedDict()
        )  # what is left, and when that was

    def wait_seconds(self, address: str) -> float:
        """0 when the address may ask now (and it is counted), else how long until it may."""
        key, now = _customer(address), self._clock()
        left, at = self._buckets.get(key, (self._capacity, now))
        left = min(self._capacity, left + (now - at) * self._per_second)
        allowed = left >= 1
        self._buckets[key] = (left - 1 if allowed else left, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self._per_second


def _customer(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
