"""What became of an item that a bench ran."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from lingxi.domain.wire import Item


class Said(NamedTuple):
    """One word of progress, as the processor said it."""

    done: int
    total: int | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Ran:
    """`state`: succeeded, failed or cancelled; `result` as decoded JSON. `outcomes`: of each attempt (`lost`: it crashed).

    `code` and `message` of the error, None without one; `progress`: all that was said, over all attempts.
    """

    item: Item
    progress: tuple[Said, ...]

    @property
    def state(self) -> str:
        return self.item.state

    @property
    def result(self) -> Any:
        return self.item.result

    @property
    def code(self) -> str | None:
        return self.item.error.code if self.item.error else None

    @property
    def message(self) -> str | None:
        return self.item.error.message if self.item.error else None

    @property
    def outcomes(self) -> list[str]:
        return [attempt.outcome for attempt in self.item.attempts or ()]
