"""What can go wrong between a client and the service, as exceptions.

`ApiError` is an answer: the service understood and refused, or failed, and said so as problem+json.
`Unreachable` is the absence of an answer: nothing listens there, or it stopped speaking for too long.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


class ClientError(Exception):
    """Base of everything this package raises on purpose."""


class Unreachable(ClientError):
    """No usable answer came from the service: refused, lost, timed out, or not this service at all."""


class StreamBroken(ClientError):
    """The event stream said something that no server of this protocol says (a frame without JSON, too large)."""


@dataclass(slots=True)
class ApiError(ClientError):
    """An RFC 9457 answer. `code` is the five-digit code of the API's table, `status` the HTTP status."""

    status: int
    code: int
    title: str
    detail: str
    errors: list[dict[str, Any]] = field(default_factory=list)
    retry_after_seconds: float | None = None
    request_id: str | None = None

    def __str__(self) -> str:
        """One sentence that a person can act on, with the first field that was wrong."""
        sentence = self.detail or self.title
        for wrong in self.errors[:1]:
            where, why = wrong.get("field"), wrong.get("message")
            if where and why and str(why) not in sentence:
                sentence = f"{sentence.rstrip('.')}: {where}: {why}"
        return f"{sentence.rstrip('.')} ({self.code})"

    @property
    def is_refusal(self) -> bool:
        """True when the request itself is at fault (4xx), so that sending it again cannot help."""
        return 400 <= self.status < 500

    @classmethod
    def from_answer(cls, status: int, headers: Any, body: bytes) -> ApiError:
        """Reads a problem+json body. A body of another kind (a proxy's page) keeps the status and says so."""
        retry_after = _seconds(headers.get("retry-after"))
        request_id = headers.get("x-request-id")
        try:
            problem = json.loads(body)
        except ValueError:
            problem = None
        if not isinstance(problem, dict) or not isinstance(problem.get("code"), int):
            detail = f"The server at this address answered HTTP {status} without saying why"
            return cls(status, status * 100, f"HTTP {status}", detail, [], retry_after, request_id)
        return cls(
            status,
            problem["code"],
            str(problem.get("title") or f"HTTP {status}"),
            str(problem.get("detail") or ""),
            [wrong for wrong in problem.get("errors") or [] if isinstance(wrong, dict)],
            retry_after,
            request_id,
        )


def _seconds(header: str | None) -> float | None:
    """`Retry-After` in seconds; its date form is not used by this API and reads as absent."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None
