"""webhook:deliver: one event to one endpoint, signed (Standard Webhooks), at least once, under an id that stays the same.

An item names a delivery and nothing else: URL, secrets and body are rows, so that nobody can have something of their own signed.
The outcome of each request and what it means for its endpoint are written behind the fence; a success ends the item in the same
commit. A worker that dies in between sends it again.
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final
from uuid import UUID

from pydantic import Field, field_validator
from standardwebhooks import Webhook

from lingxi import __version__
from lingxi.db.session import is_unavailable
from lingxi.domain.ids import parse_uuid
from lingxi.names import WEBHOOK_ATTEMPTS, WEBHOOK_QUEUE
from lingxi.observability import failpoints
from lingxi.processors.contract import (
    Connection,
    Context,
    Permanent,
    Processor,
    ProcessorInput,
    ProcessorResult,
    Transient,
)
from lingxi.processors.outgoing.post import (
    AddressRefused,
    Answer,
    OutgoingError,
    Poster,
    TooSlow,
)
from lingxi.services.deliver_webhook import Outcome, Outgoing, load_delivery, record_outcome

# Before the second attempt, the third, …: each a little more or less. In all some three days and a half.
WAITS_SECONDS: Final = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
MAX_WAIT_SECONDS: Final = 86_400.0
_JITTER: Final = 0.1
_DATABASE_RETRY_SECONDS: Final = 1.0
_USER_AGENT: Final = f"Lingxi/{__version__}"


class DeliverInput(ProcessorInput):
    """Which event goes to which endpoint of the own workspace."""

    endpoint_id: str = Field(description="The endpoint's id.", json_schema_extra={"format": "uuid"})
    event_id: str = Field(
        description="The event's id, as its deliveries show it.", json_schema_extra={"format": "uuid"}
    )

    @field_validator("endpoint_id", "event_id")
    @classmethod
    def _uuid(cls, value: str) -> str:
        if parse_uuid(value) is None:
            raise ValueError("it must be a UUID")
        return value


class DeliverResult(ProcessorResult):
    """The endpoint took it."""

    status: int = Field(description="Of HTTP, 200 to 299.")
    duration_ms: int


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a request did not deliver. `wait`: the least seconds until the next attempt."""

    code: str
    message: str
    retryable: bool
    wait: float = 0.0


class WebhookDeliver:
    """The processor with what it needs: a way to read the database, and the rule of addresses."""

    def __init__(
        self, connect: Callable[[], AbstractAsyncContextManager[Connection]], poster: Poster
    ) -> None:
        self._connect, self._poster = connect, poster

    def processor(self) -> Processor[DeliverInput]:
        """The entry for the registry."""
        return Processor(
            WEBHOOK_QUEUE,
            DeliverInput,
            self.run,
            result_model=DeliverResult,
            max_attempts=WEBHOOK_ATTEMPTS,
            time_limit_seconds=60.0,
            concurrency=16,
        )

    async def run(self, context: Context, given: DeliverInput) -> None:
        """Delivered, or Permanent (`delivery_not_found`, `endpoint_disabled`, `endpoint_gone`, `address_refused`), or
        Transient (`endpoint_refused`, `endpoint_unreachable`, `endpoint_timeout`)."""
        ids = UUID(given.endpoint_id), UUID(given.event_id)
        delivery = await self._load(context, *ids)
        if delivery is None:
            raise Permanent("delivery_not_found")
        if not delivery.enabled:
            raise Permanent("endpoint_disabled")
        began = time.monotonic()
        answer, failure = await self._send(delivery, given.event_id)
        milliseconds = round((time.monotonic() - began) * 1000)
        await failpoints.reach("webhook.after_response")
        outcome = Outcome(
            None if failure is None else failure.code,
            None if answer is None else answer.status,
            None if answer is None else _text(answer.body),
            milliseconds,
        )
        item = (context.item.task_id, context.item.index + 1)
        async with context.transaction() as connection:
            enabled = await record_outcome(
                connection,
                context.item.workspace_id,
                *ids,
                item,
                outcome,
                gone=failure is not None and failure.code == "endpoint_gone",
            )
            if failure is None and answer is not None:
                context.succeed(DeliverResult(status=answer.status, duration_ms=milliseconds))
                return
        assert failure is not None
        if not failure.retryable:
            raise Permanent(failure.code, failure.message)
        if not enabled:
            raise Permanent(
                "endpoint_disabled",
                f"{failure.message} The endpoint had failed for too long, and was disabled.",
            )
        raise Transient(
            failure.code, failure.message, retry_after=_wait(context.attempt.number, failure.wait)
        )

    async def _load(self, context: Context, endpoint_id: UUID, event_id: UUID) -> Outgoing | None:
        """What is to be sent. While PostgreSQL is away it waits: that is no fault of the item."""
        while True:
            try:
                async with self._connect() as connection:
                    return await load_delivery(connection, context.item.workspace_id, endpoint_id, event_id)
            except Exception as error:
                if not is_unavailable(error) or context.seconds_left() <= 0:
                    raise
            context.stop_if_asked()
            await asyncio.sleep(_DATABASE_RETRY_SECONDS)

    async def _send(self, delivery: Outgoing, event_id: str) -> tuple[Answer | None, _Failure | None]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": _USER_AGENT,
            **signature_headers(delivery.secrets, event_id, delivery.body, datetime.now(UTC)),
        }
        try:
            answer = await self._poster.post(delivery.url, headers, delivery.body.encode())
        except AddressRefused as error:
            return None, _Failure("address_refused", str(error), False)
        except TooSlow as error:
            return None, _Failure("endpoint_timeout", str(error), True)
        except OutgoingError as error:
            return None, _Failure("endpoint_unreachable", str(error), True)
        return answer, _failure_of(answer)


def signature_headers(secrets: tuple[str, ...], message_id: str, body: str, at: datetime) -> dict[str, str]:
    """The three headers of Standard Webhooks; a signature for each secret that is good at present."""
    signatures = [Webhook(secret).sign(message_id, at, body) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def _failure_of(answer: Answer) -> _Failure | None:
    if 200 <= answer.status < 300:
        return None
    if answer.status == 410:
        return _Failure("endpoint_gone", "The endpoint answered 410 (Gone), and was disabled.", False)
    redirect = " Redirects are not followed." if 300 <= answer.status < 400 else ""
    wait = retry_after_seconds(answer.retry_after, datetime.now(UTC))
    return _Failure("endpoint_refused", f"The endpoint answered {answer.status}.{redirect}", True, wait)


def retry_after_seconds(given: str | None, now: datetime) -> float:
    """`Retry-After` (seconds or a date) in seconds, from 0 to a day; 0 when there is none that can be read."""
    if given is None:
        return 0.0
    text = given.strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), int(MAX_WAIT_SECONDS)))
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the latter for a day or a zone of twenty digits
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - now).total_seconds(), 0.0), MAX_WAIT_SECONDS)


def _wait(attempt: int, least: float) -> float:
    """Seconds until the attempt after this one: ours by its number, and never less than the endpoint asked for."""
    ours = WAITS_SECONDS[min(attempt, len(WAITS_SECONDS)) - 1]
    return min(max(ours * random.uniform(1 - _JITTER, 1 + _JITTER), least), MAX_WAIT_SECONDS)


def _text(body: bytes) -> str:
    """The beginning of an answer as text that PostgreSQL can store."""
    return body.decode("utf-8", "replace").replace("\0", "�")
