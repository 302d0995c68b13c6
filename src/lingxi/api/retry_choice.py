"""The body of a retry: which of the failed items, and whether one of each cause goes first. None, or `{}`: all at once."""

from dataclasses import dataclass

from pydantic import TypeAdapter
from starlette.requests import Request

from lingxi.api.json_body import canonical_digest
from lingxi.api.reading import read_json, validated
from lingxi.api.why_schemas import RetryChoice
from lingxi.domain.errors import LingxiError, SchemaError

_ADAPTER = TypeAdapter(RetryChoice)


@dataclass(frozen=True, slots=True)
class ReadChoice:
    """What was chosen, the digest of the body, and what is wrong with it: raised only once a used key was looked at."""

    choice: RetryChoice
    digest: bytes
    refusal: LingxiError | None = None


async def read_choice(request: Request) -> ReadChoice:
    """Raises what cannot be read at all."""
    try:
        document = await read_json(request) if await request.body() else {}
        return ReadChoice(validated(_ADAPTER, document), canonical_digest(document))
    except SchemaError as error:
        return ReadChoice(RetryChoice(), canonical_digest([error.detail]), error)
