"""What becomes of an attempt: one pure match over what happened. The statements in the database carry it out."""

from dataclasses import dataclass
from typing import Literal

from lingxi.domain.backoff import backoff_seconds
from lingxi.domain.errors import ITEM_CODES, ItemError

Outcome = Literal["succeeded", "failed", "retrying", "released"]
MAX_MESSAGE_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The processor brought a result: JSON text, or None."""

    result: str | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The processor raised; `retry_after` seconds when it said so."""

    code: str
    message: str
    retryable: bool
    retry_after: float | None = None

    @classmethod
    def by(cls, error: ItemError) -> "Failed":
        return cls(error.code, error.message, error.retryable, error.retry_after)

    @classmethod
    def with_code(cls, code: str) -> "Failed":
        """A failure with one of ITEM_CODES and its own sentence."""
        return cls(code, ITEM_CODES[code].sentence, ITEM_CODES[code].retryable)


@dataclass(frozen=True, slots=True)
class GivenBack:
    """The worker stops before the attempt could end."""


Happening = Succeeded | Failed | GivenBack


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write: an outcome for `finish_items`, with a result, or an error and the wait before the next attempt."""

    outcome: Outcome
    result: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    error_retryable: bool | None = None
    delay_seconds: float = 0.0


def decide(
    happening: Happening, *, attempt: int, max_attempts: int, backoff_base_seconds: float = 2.0
) -> Decision:
    """The decision for attempt number `attempt` of at most `max_attempts`.

    The database has the last word: after a cancel, what would wait again ends instead.
    """
    match happening:
        case Succeeded(result):
            return Decision("succeeded", result)
        case GivenBack():
            return Decision("released")
        case Failed(code, message, retryable, retry_after) if retryable and attempt < max_attempts:
            wait = (
                backoff_seconds(attempt, base_seconds=backoff_base_seconds)
                if retry_after is None
                else retry_after
            )
            return Decision("retrying", None, code, clean(message), True, max(0.0, wait))
        case Failed(code, message, retryable, _):
            return Decision("failed", None, code, clean(message), retryable)


def clean(message: str) -> str:
    """A message that PostgreSQL can store: no NUL, no lone surrogates, at most 1,000 characters."""
    kept = message[:MAX_MESSAGE_CHARACTERS].replace("\x00", "�")
    return kept.encode("utf-8", "replace").decode("utf-8")
