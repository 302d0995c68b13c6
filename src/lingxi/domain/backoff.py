"""Exponential backoff with full jitter on its upper half: attempt n waits between half and all of base × 2^(n−1), capped."""

import random


def backoff_seconds(
    attempt: int, *, base_seconds: float = 2.0, cap_seconds: float = 600.0, random_unit: float | None = None
) -> float:
    """Seconds until the attempt after `attempt` (from 1). `random_unit` (0 to 1) makes it repeatable."""
    ceiling = min(cap_seconds, base_seconds * 2.0 ** min(attempt - 1, 30))
    unit = random.random() if random_unit is None else random_unit
    return ceiling * (0.5 + unit / 2)
