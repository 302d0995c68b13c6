"""What a refused file is as the problem of a request that had no other file."""

from collections.abc import Mapping
from typing import Final

from lingxi.domain.errors import LingxiError, MalformedRequest, TooLarge, UnsupportedContent
from lingxi.services.receive_photo import Refusal

_PROBLEMS: Final[Mapping[str, type[LingxiError]]] = {
    "too_large": TooLarge,
    "unsupported_type": UnsupportedContent,
    "storage_unavailable": LingxiError,
}


def problem_of(refusal: Refusal) -> LingxiError:
    """`too_large` 41301, `unsupported_type` 41501, `storage_unavailable` 50001; `empty_file` is 40001 with status 422."""
    if (kind := _PROBLEMS.get(refusal.code)) is not None:
        return kind(refusal.message)
    return MalformedRequest(refusal.message, status=422)
