"""Webhook endpoints and deliveries as the wire has them, with examples for the document."""

from typing import Any

from lingxi.domain.wire import time_to_wire
from lingxi.services.webhook_deliveries import WebhookDelivery
from lingxi.services.webhook_endpoints import WebhookEndpoint

ENDPOINT: dict[str, Any] = {
    "id": "5f0c9a4e-7d61-4f0b-9f35-0f0d3c5a1e77",
    "url": "https://hooks.example.com/lingxi",
    "events": ["photo.published", "task.ended"],
    "description": "the gallery",
    "enabled": True,
    "disabledAt": None,
    "disabledReason": None,
    "failures": 0,
    "failingSince": None,
    "rotatingUntil": None,
    "createdAt": "2026-12-01T20:00:00.000000Z",
}
CREATED_ENDPOINT = {**ENDPOINT, "secret": "whsec_c2VjcmV0IG9mIHRoZSBkb2N1bWVudCwgbm90IGEgcmVhbA=="}
EVENT_ID = "0b8c1f52-53a4-4a0c-8a55-1f2a6f0e9d10"
TASK_ID = "01938f2e-4c00-7a31-9b5e-6f2d8c1a0000"
DELIVERY: dict[str, Any] = {
    "eventId": EVENT_ID,
    "type": "photo.published",
    "state": "delivered",
    "attempts": 1,
    "taskId": TASK_ID,
    "lastAttemptAt": "2026-12-01T20:00:03.250000Z",
    "nextAttemptAt": None,
    "durationMs": 42,
    "responseStatus": 200,
    "responseBody": "thank you",
    "errorCode": None,
    "deliveredAt": "2026-12-01T20:00:03.250000Z",
    "createdAt": "2026-12-01T20:00:03.000000Z",
}


def endpoint_to_wire(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """The `Webhook` of the document, without its secrets."""
    return {
        "id": str(endpoint.id),
        "url": endpoint.url,
        "events": list(endpoint.events),
        "description": endpoint.description,
        "enabled": endpoint.enabled,
        "disabledAt": time_to_wire(endpoint.disabled_at),
        "disabledReason": endpoint.disabled_reason,
        "failures": endpoint.failures,
        "failingSince": time_to_wire(endpoint.failing_since),
        "rotatingUntil": time_to_wire(endpoint.rotating_until),
        "createdAt": time_to_wire(endpoint.created_at),
    }


def delivery_to_wire(delivery: WebhookDelivery) -> dict[str, Any]:
    """The `WebhookDelivery` of the document."""
    return {
        "eventId": str(delivery.event_id),
        "type": delivery.type,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "taskId": None if delivery.task_id is None else str(delivery.task_id),
        "lastAttemptAt": time_to_wire(delivery.last_attempt_at),
        "nextAttemptAt": time_to_wire(delivery.next_attempt_at),
        "durationMs": delivery.duration_ms,
        "responseStatus": delivery.response_status,
        "responseBody": delivery.response_body,
        "errorCode": delivery.error_code,
        "deliveredAt": time_to_wire(delivery.delivered_at),
        "createdAt": time_to_wire(delivery.created_at),
    }
