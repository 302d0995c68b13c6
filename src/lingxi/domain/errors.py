"""Every error has one class, one code, one status and one documented row (`docs/errors.md`).

`LingxiError` is what an HTTP caller or a user of the command line meets; `ItemError` is how an item fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """One mistake in a request: where (`items[16].input.sha256`) and why."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A row of the table of errors: HTTP status and title of a code."""

    status: int
    title: str


PROBLEMS: dict[int, Problem] = {
    40001: Problem(400, "The request is malformed"),  # 422 when it is JSON that breaks the schema
    40002: Problem(400, "The Idempotency-Key is malformed"),
    40101: Problem(401, "A valid token is needed"),
    40301: Problem(403, "The token's role does not allow this"),
    40401: Problem(404, "There is no such thing here"),
    40501: Problem(405, "The method is not allowed here"),
    40801: Problem(408, "The body came too slowly"),
    40901: Problem(409, "Not possible in this state"),
    40902: Problem(409, "The Idempotency-Key was used with a different body"),
    41301: Problem(413, "Too large"),
    41501: Problem(415, "The content is of no accepted type"),
    42901: Problem(429, "Over the limit of the workspace"),
    50001: Problem(500, "Internal error"),
    50002: Problem(503, "Redis is unavailable"),
    50003: Problem(503, "PostgreSQL is unavailable"),
}


class LingxiError(Exception):
    """An error with a code of PROBLEMS. `detail` is one plain sentence that names no path, secret or foreign id."""

    code = 50001

    def __init__(
        self,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        status: int | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.status = status or PROBLEMS[self.code].status
        self.retry_after_seconds = retry_after_seconds

    @property
    def title(self) -> str:
        return PROBLEMS[self.code].title


class MalformedRequest(LingxiError):
    """Not JSON, a bad cursor or a bad header (400); or JSON that breaks the schema (422, with `errors`)."""

    code = 40001


class SchemaError(MalformedRequest):
    """JSON that breaks the schema: 422, and `errors` says which field and why."""

    def __init__(self, detail: str, errors: Sequence[FieldError]) -> None:
        super().__init__(detail, errors=errors, status=422)


class MalformedKey(LingxiError):
    """Idempotency-Key is not 1 to 255 visible ASCII characters."""

    code = 40002


class Unauthenticated(LingxiError):
    """No token, or one that is unknown, expired or revoked."""

    code = 40101


class Forbidden(LingxiError):
    """The token's role is too low for the route."""

    code = 40301


class NotFound(LingxiError):
    """Nothing with that id in the caller's workspace; the same words whether or not it exists elsewhere."""

    code = 40401

    def __init__(self) -> None:
        super().__init__("There is nothing with this id or at this address.")


class MethodNotAllowed(LingxiError):
    """The address exists, and does not take this method."""

    code = 40501


class TooSlow(LingxiError):
    """The body did not arrive in time."""

    code = 40801


class Conflict(LingxiError):
    """The thing is in a state in which this is not possible."""

    code = 40901


class KeyReused(LingxiError):
    """The Idempotency-Key was used with a different body."""

    code = 40902


class TooLarge(LingxiError):
    """Body, item or upload over its limit; the limit is in the detail."""

    code = 41301


class UnsupportedContent(LingxiError):
    """The file's content is of no accepted type."""

    code = 41501


class OverLimit(LingxiError):
    """Over the workspace's rate or quota; `retry_after_seconds` says when to try again."""

    code = 42901


class RedisUnavailable(LingxiError):
    """Redis cannot serve now."""

    code = 50002


class PostgresUnavailable(LingxiError):
    """PostgreSQL cannot serve now."""

    code = 50003


# ── how an item fails ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ItemCode:
    """A stable code of a failed item: whether a retry can help, and a plain sentence."""

    retryable: bool
    sentence: str


ITEM_CODES: dict[str, ItemCode] = {
    "internal_error": ItemCode(True, "Something went wrong inside; the worker's log has the details."),
    "worker_lost": ItemCode(True, "The worker that ran this was lost."),
    "deadline_exceeded": ItemCode(True, "It took longer than its time limit."),
    "dispatch_failed": ItemCode(True, "It could not be handed to a worker."),
    "result_too_large": ItemCode(False, "Its result is larger than 64 kB."),
    "result_invalid": ItemCode(False, "Its result cannot be stored."),
    "input_invalid": ItemCode(False, "Its input does not fit the processor's schema any more."),
    "object_not_found": ItemCode(False, "There is no object with this name in the workspace."),
    "album_not_found": ItemCode(False, "There is no album with this id in the workspace."),
    "nothing_to_archive": ItemCode(False, "There is no file to put into the archive."),
    "signing_key_differs": ItemCode(
        True,
        "The worker's LINGXI_SECRET_KEY is not the deployment's: give all processes the same, and retry.",
    ),
    "photo_not_found": ItemCode(False, "There is no photo with this id in the workspace."),
    "generation_not_requested": ItemCode(False, "This generation of the photo was not asked for."),
    "empty_file": ItemCode(False, "The file is empty."),
    "unsupported_type": ItemCode(False, "The file's content is of no accepted type."),
    "corrupt_image": ItemCode(False, "The picture is damaged."),
    "truncated_image": ItemCode(False, "The picture is cut off: a part of the file is missing."),
    "too_many_pixels": ItemCode(False, "The picture has more pixels than is accepted."),
    "too_large": ItemCode(False, "The file is larger than is accepted."),
    "size_mismatch": ItemCode(False, "The file does not have the size that was expected."),
    "checksum_mismatch": ItemCode(False, "The file does not have the SHA-256 that was expected."),
    "type_mismatch": ItemCode(False, "The file is not of the type that was expected."),
    "decode_timeout": ItemCode(True, "Decoding the picture took too long."),
    "decoder_crashed": ItemCode(True, "The decoder died on this picture."),
    "corrupt_video": ItemCode(False, "The video is damaged."),
    "truncated_video": ItemCode(False, "The video is cut off: a part of the file is missing."),
    "hdr_unsupported": ItemCode(False, "The video's HDR cannot be brought to an ordinary screen."),
    "too_long": ItemCode(False, "The video is longer than is accepted."),
    "too_many_streams": ItemCode(False, "The file has more streams than are accepted."),
    "storage_unavailable": ItemCode(True, "The storage did not answer."),
    "database_unavailable": ItemCode(True, "The database did not answer."),
    "database_conflict": ItemCode(
        True, "Its transaction met another one in the database, and was rolled back."
    ),
    "object_exists": ItemCode(False, "An object with this name exists and has other bytes."),
    "crashed": ItemCode(True, "The process that worked on it died."),
    "out_of_memory": ItemCode(False, "It needs more memory than its processor may take."),
    "scratch_full": ItemCode(False, "It needs more room on disk than its processor may take."),
    "delivery_not_found": ItemCode(False, "There is no such delivery: its endpoint or its event is gone."),
    "endpoint_disabled": ItemCode(False, "The endpoint is disabled; enable it, and replay."),
    "endpoint_gone": ItemCode(False, "The endpoint answered 410 (Gone) and was disabled."),
    "address_refused": ItemCode(False, "The endpoint is at an address to which nothing is sent."),
    "endpoint_unreachable": ItemCode(True, "The endpoint could not be reached."),
    "endpoint_timeout": ItemCode(True, "The endpoint did not answer in time."),
    "endpoint_refused": ItemCode(True, "The endpoint did not take it."),
    "drill_failed": ItemCode(False, "The drill was told to fail."),
    "drill_busy": ItemCode(True, "The drill was told to fail for now."),
}


class ItemError(Exception):
    """How a processor says that its item failed: a code (snake_case) and a plain sentence (≤ 1,000 characters kept)."""

    retryable = False

    def __init__(self, code: str, message: str | None = None, *, retry_after: float | None = None) -> None:
        self.code = code
        self.message = message or (ITEM_CODES[code].sentence if code in ITEM_CODES else code)
        self.retry_after = retry_after
        super().__init__(f"{code}: {self.message}")


class Permanent(ItemError):
    """No retry can help."""


class Transient(ItemError):
    """May pass: tried again while attempts remain, after `retry_after` seconds when given."""

    retryable = True


FOR_PHOTOGRAPHERS: dict[str, str] = {
    "empty_file": "This file is empty. Copy it from the camera again.",
    "unsupported_type": "This is no photo that can be shown here. Export it as JPEG and upload that.",
    "corrupt_image": "This photo is damaged and cannot be opened. Copy it from the camera again.",
    "truncated_image": "A part of this photo is missing, as after a copy that broke off. Copy it from the camera again.",
    "too_many_pixels": "This photo has more pixels than can be shown here. Export it smaller.",
    "too_large": "This file is larger than is accepted. Export it smaller or with stronger compression.",
    "decode_timeout": "This photo takes too long to open. Upload it again, or export it as JPEG first.",
    "decoder_crashed": "This photo cannot be opened here. Upload it again, or export it as JPEG first.",
    "storage_unavailable": "The storage could not be reached for too long. Upload this photo again.",
    "worker_lost": "Working on this photo was broken off again and again. Upload it again, or export it as JPEG first.",
    "deadline_exceeded": "This photo took too long. Upload it again.",
    "internal_error": "Something went wrong here, and it was not your photo's fault. Upload it again.",
    "object_not_found": "The uploaded file is gone from the storage. Upload this photo again.",
}
"""What to tell the person whose photo it is when it has failed for good, by code: what is the matter, and what to do (uploaded
again, a photo that failed is processed anew). `imaging.errors.ImageError.detail` and `ITEM_CODES` are for engineers."""
