"""Tasks of `demo:drill` that rules submit."""

from typing import Any

Json = dict[str, Any]

AWKWARD = 'two\nlines, a "quote", \\n, \u2028 and \u2029, data: no, 灵犀 🎞, \r\n\r\nid: 7\n\n'


def quick(count: int, **fields: Any) -> list[Json]:
    """Items that succeed at once."""
    return [{**fields} for _ in range(count)]


def mixed(count: int, *, duration_ms: int = 20) -> list[Json]:
    """Items of all kinds of ends: they succeed, fail for good, fail once and then succeed; some report progress."""
    kinds: list[Json] = [
        {"durationMs": duration_ms},
        {"fail": "permanent", "failMessage": AWKWARD},
        {"fail": "transient", "failTimes": 1},
        {"durationMs": 2 * duration_ms, "steps": 4, "resultText": AWKWARD},
        {},
    ]
    return [kinds[index % len(kinds)] for index in range(count)]


def staggered(count: int, *, over_ms: int) -> list[Json]:
    """Items that end one after another, evenly over a time."""
    return [{"durationMs": (index + 1) * over_ms // count} for index in range(count)]
