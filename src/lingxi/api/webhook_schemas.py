"""The shapes of webhook endpoints and their deliveries on the wire; see `schemas.py`."""

from typing import Annotated, Literal

from pydantic import Field

from lingxi.api.reading import Moment
from lingxi.api.schemas import Time, Uuid, Wire, whole

MAX_DESCRIPTION = 200
MAX_OVERLAP_SECONDS = 30 * 86_400
DEFAULT_OVERLAP_SECONDS = 86_400

WebhookEventName = Literal["photo.published", "photo.updated", "photo.removed", "task.ended"]
DeliveryStateName = Literal["queued", "running", "retrying", "delivered", "failed", "cancelled", "missed"]
WantedEvents = Annotated[list[WebhookEventName], Field(min_length=1, max_length=20)]


class Webhook(Wire):
    """An endpoint. `failures` counts attempts that failed since the last success."""

    id: str = Uuid
    url: str
    events: list[WebhookEventName]
    description: str
    enabled: bool
    disabled_at: str | None = Time
    disabled_reason: Literal["asked", "gone", "failing"] | None = Field(
        description="Asked for; answered 410; or has failed for too long."
    )
    failures: int
    failing_since: str | None = Time
    rotating_until: str | None = Field(
        description="Until then the secret before signs, too.", json_schema_extra={"format": "date-time"}
    )
    created_at: str = Time


class CreatedWebhook(Webhook):
    secret: str = Field(description="`whsec_…`: verifies what comes. Only in this answer, and never again.")


class WebhookList(Wire):
    webhooks: list[Webhook]


class NewWebhook(Wire):
    url: str = Field(
        min_length=1,
        max_length=2_000,
        description="https://…; http only to networks that the operator allowed.",
    )
    events: WantedEvents
    description: str = Field(default="", max_length=MAX_DESCRIPTION)


class WebhookChange(Wire):
    """What is not named, or null, stays as it is."""

    url: str | None = Field(default=None, min_length=1, max_length=2_000)
    events: WantedEvents | None = None
    description: str | None = Field(default=None, max_length=MAX_DESCRIPTION)


class WebhookRotation(Wire):
    overlap_seconds: Annotated[int, Field(ge=0, le=MAX_OVERLAP_SECONDS), whole] = Field(
        default=DEFAULT_OVERLAP_SECONDS, description="How long the present secret signs beside the new one."
    )


class WebhookDelivery(Wire):
    """One event for one endpoint, with what the last request was answered."""

    event_id: str = Field(json_schema_extra={"format": "uuid"}, description="The header `webhook-id`.")
    type: WebhookEventName
    state: DeliveryStateName = Field(description="`missed`: it happened while the endpoint was disabled.")
    attempts: int = Field(description="Requests, over all rounds and replays.")
    task_id: str | None = Field(
        json_schema_extra={"format": "uuid"}, description="The task that delivers it."
    )
    last_attempt_at: str | None = Time
    next_attempt_at: str | None = Time
    duration_ms: int | None
    response_status: int | None
    response_body: str | None = Field(description="The first 2 kB.")
    error_code: str | None
    delivered_at: str | None = Time
    created_at: str = Time


class WebhookDeliveryPage(Wire):
    deliveries: list[WebhookDelivery]
    next_cursor: str | None = Field(description="Ask for the next page with it; null on the last one.")


class WebhookReplay(Wire):
    """One of the two."""

    event_id: str | None = Field(
        default=None,
        json_schema_extra={"format": "uuid"},
        description="This event, also when it was delivered.",
    )
    since: Moment | None = Field(
        default=None, description="All that happened since and was not delivered, at most 10,000."
    )


class WebhookReplayed(Wire):
    replayed: int
    task_id: str | None = Field(
        json_schema_extra={"format": "uuid"}, description="Null when there was nothing."
    )
