"""The OpenAPI document of this deployment: the released one, with the input and the result of each type that is served here.

So a user's own processors are in it too. `NewTask` says by `if`/`then` which input goes with which type, and
`x-lingxi-types` says it once more for readers that do not know those words.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from lingxi.processors.contract import Processor

REF = "#/components/schemas/"


def deployed_document(released: dict[str, Any], processors: Sequence[Processor[Any]]) -> dict[str, Any]:
    """`released` is changed and answered."""
    schemas = released["components"]["schemas"]
    types: dict[str, Any] = {}
    for processor in processors:
        prefix = "".join(word.title() for word in processor.name.replace(":", "-").split("-"))
        result = processor.result_model
        types[processor.name] = {
            "input": _add(schemas, f"{prefix}Input", processor.input_model, "validation"),
            "result": None if result is None else _add(schemas, f"{prefix}Result", result, "serialization"),
            "priority": processor.priority,
            "maxAttempts": processor.max_attempts,
            "timeLimitSeconds": processor.time_limit_seconds,
        }
    new_task = schemas["NewTask"]
    new_task["properties"]["type"]["enum"] = list(types)
    new_task["allOf"] = [_rule(name, said["input"]) for name, said in types.items()]
    new_task["x-lingxi-types"] = types
    return released


def _add(schemas: dict[str, Any], name: str, model: type[BaseModel], mode: Any) -> dict[str, str]:
    """A model with those that it is made of, under names of its own."""
    schema = model.model_json_schema(by_alias=True, mode=mode, ref_template=f"{REF}{name}.{{model}}")
    for inner, definition in schema.pop("$defs", {}).items():
        schemas[f"{name}.{inner}"] = definition
    schemas[name] = schema
    return {"$ref": f"{REF}{name}"}


def _rule(name: str, given: dict[str, str]) -> dict[str, Any]:
    item = {"properties": {"input": given}}
    return {
        "if": {"properties": {"type": {"const": name}}},
        "then": {"properties": {"items": {"items": item}}},
    }
