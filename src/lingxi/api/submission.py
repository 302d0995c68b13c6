"""A submitted batch: from parsed JSON to a `NewTask`, or every mistake with the field that it is in.

The loop over items is the hot part of a submission (10,000 of them at most), so it is plain Python over plain values; the
processor's own schema checks all inputs in one pass.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import orjson

from lingxi.domain.errors import FieldError, SchemaError, TooLarge
from lingxi.names import PRIORITIES
from lingxi.processors.registry import MAX_REPORTED_ERRORS, Registry
from lingxi.services.submit_task import NewTask

MAX_ITEMS = 10_000
MAX_REF_CHARACTERS = 200
MAX_INPUT_BYTES = 16 * 1024
MAX_METADATA_BYTES = 16 * 1024
_MEMBERS = {"type", "items", "metadata", "priority"}
_ITEM_MEMBERS = {"ref", "input"}


def check_submission(document: Any, workspace_id: UUID, registry: Registry) -> NewTask:
    """The task to be; SchemaError (40001, 422) that names the fields, TooLarge (41301) for an input or metadata over 16 kB."""
    if not isinstance(document, dict):
        raise _refused("", "it must be an object with `type` and `items`")
    if unknown := document.keys() - _MEMBERS:
        raise _refused(min(unknown)[:100], "there is no such field")
    if not isinstance(queue := document.get("type"), str):
        raise _refused("type", "it must be the name of a queue")
    processor = registry.get(queue)
    priority = document.get("priority", processor.priority)
    if not isinstance(priority, str) or priority not in PRIORITIES:
        raise _refused("priority", f"it must be one of {', '.join(PRIORITIES)}")
    metadata = _metadata(document.get("metadata"))
    items = document.get("items")
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_ITEMS:
        raise _refused("items", f"it must be a list of 1 to {MAX_ITEMS} items")
    refs, inputs = _items(items)
    if errors := registry.validate_inputs(queue, inputs):
        raise SchemaError(f"{errors[0].field}: {errors[0].message.rstrip('.')}.", errors)
    return NewTask(
        workspace_id=workspace_id,
        type=queue,
        priority=PRIORITIES[priority],
        refs=refs,
        inputs=_texts(inputs),
        metadata=metadata,
        max_attempts=processor.max_attempts,
    )


def _items(items: list[Any]) -> tuple[list[str | None], list[Any]]:
    """The refs and the inputs, in order."""
    errors: list[FieldError] = []
    refs: list[str | None] = []
    inputs: list[Any] = []
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        if type(item) is not dict:
            errors.append(FieldError(f"items[{index}]", "it must be an object with `input`"))
            continue
        if item.keys() - _ITEM_MEMBERS:
            name = min(item.keys() - _ITEM_MEMBERS)[:100]
            errors.append(FieldError(f"items[{index}].{name}", "there is no such field"))
        if type(given := item.get("input")) is not dict:
            errors.append(FieldError(f"items[{index}].input", "it must be an object"))
        ref = item.get("ref")
        if ref is not None and (why := _wrong_ref(ref, seen, index)):
            errors.append(FieldError(f"items[{index}].ref", why))
        refs.append(ref)
        inputs.append(given)
    if errors:
        raise SchemaError(f"{errors[0].field}: {errors[0].message}.", errors[:MAX_REPORTED_ERRORS])
    return refs, inputs


def _wrong_ref(ref: Any, seen: dict[str, int], index: int) -> str | None:
    if type(ref) is not str:
        return "it must be text"
    if len(ref) > MAX_REF_CHARACTERS:
        return f"it must have at most {MAX_REF_CHARACTERS} characters"
    first = seen.setdefault(ref, index)
    return None if first == index else f"items[{first}] has the same; a ref is unique in its task"


def _texts(inputs: list[Any], dumps: Callable[[Any], bytes] = orjson.dumps) -> list[str]:
    texts = []
    for index, given in enumerate(inputs):
        encoded = dumps(given)
        if len(encoded) > MAX_INPUT_BYTES:
            raise TooLarge(
                f"items[{index}].input: it is larger than {MAX_INPUT_BYTES} bytes of JSON, the limit of an input."
            )
        texts.append(encoded.decode())
    return texts


def _metadata(given: Any) -> str | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise _refused("metadata", "it must be an object")
    encoded = orjson.dumps(given)
    if len(encoded) > MAX_METADATA_BYTES:
        raise TooLarge(f"metadata: it is larger than {MAX_METADATA_BYTES} bytes of JSON, the limit.")
    return encoded.decode()


def _refused(field: str, why: str) -> SchemaError:
    return SchemaError(f"{field or 'The body'}: {why}.", [FieldError(field, why)])
