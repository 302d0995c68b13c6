"""A processor's result as JSON text that PostgreSQL can hold, or why there is none."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from pydantic import BaseModel

from lingxi.domain.decide import Failed, Succeeded

Result = BaseModel | Mapping[str, Any] | None
MAX_RESULT_BYTES: Final = 64 * 1024


def encode_result(result: object, model: type[BaseModel] | None = None) -> Succeeded | Failed:
    """`result` is a model, a dict or None; where the processor declares a `model`, it has to be or to fit that.

    Failed with `result_invalid` or `result_too_large`.
    """
    try:
        encoded = _encode(result if model is None else _typed(result, model))
    except (TypeError, ValueError, RecursionError):  # orjson's and pydantic's errors are among these
        return Failed.with_code("result_invalid")
    if encoded is None:
        return Succeeded(None)
    if len(encoded) > MAX_RESULT_BYTES:
        return Failed.with_code("result_too_large")
    if b"\\u0000" in encoded and _has_nul(orjson.loads(encoded)):
        return Failed.with_code("result_invalid")
    return Succeeded(encoded.decode())


def _typed(result: object, model: type[BaseModel]) -> BaseModel:
    return result if isinstance(result, model) else model.model_validate(result)


def _encode(result: object) -> bytes | None:
    if result is None:
        return None
    if isinstance(result, BaseModel):
        return result.__pydantic_serializer__.to_json(result, by_alias=True)
    if isinstance(result, dict):
        return orjson.dumps(result)
    raise TypeError("a result is a model, a dict or None")


def _has_nul(value: object) -> bool:
    match value:
        case str():
            return "\x00" in value
        case list():
            return any(map(_has_nul, value))
        case dict():
            return any(_has_nul(key) or _has_nul(inner) for key, inner in value.items())
        case _:
            return False
