"""Does a new OpenAPI document still keep what an old one promised to clients?

Requests may only become more permissive, answers only say more: an address, a method, an answer's field may not go away, a
request's field may not become required, a limit may not become tighter.
"""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_METHODS = ("get", "put", "post", "delete", "head", "patch")
_UPPER = ("maximum", "maxLength", "maxItems", "maxProperties")
_LOWER = ("minimum", "minLength", "minItems", "minProperties")


def breaking_changes(old: Schema, new: Schema) -> list[str]:
    """A sentence for each promise of `old` that `new` does not keep."""
    return list(_Comparison(old, new).paths())


class _Comparison:
    def __init__(self, old: Schema, new: Schema) -> None:
        self._old = old
        self._new = new

    def paths(self) -> Iterator[str]:
        for path, operations in self._old["paths"].items():
            for method in _METHODS:
                if method not in operations:
                    continue
                where = f"{method.upper()} {path}"
                after = self._new["paths"].get(path, {}).get(method)
                if after is None:
                    yield f"{where} is gone"
                else:
                    yield from self._operation(where, operations[method], after)

    def _operation(self, where: str, old: Schema, new: Schema) -> Iterator[str]:
        yield from self._parameters(where, old.get("parameters", []), new.get("parameters", []))
        if (body := new.get("requestBody")) is not None:
            before = old.get("requestBody", {})
            if body.get("required") and not before.get("required"):
                yield f"{where}: a body is required now"
            for media, content in before.get("content", {}).items():
                if media not in body["content"]:
                    yield f"{where}: {media} is not taken any more"
                else:
                    yield from self._request(
                        f"{where} body", content["schema"], body["content"][media]["schema"]
                    )
        for status, answer in old["responses"].items():
            if not status.startswith("2"):
                continue
            if status not in new["responses"]:
                yield f"{where}: the answer {status} is gone"
                continue
            contents = new["responses"][status].get("content", {})
            for media, content in answer.get("content", {}).items():
                if media not in contents:
                    yield f"{where} {status}: {media} is gone"
                else:
                    yield from self._answer(f"{where} {status}", content["schema"], contents[media]["schema"])

    def _parameters(self, where: str, old: list[Schema], new: list[Schema]) -> Iterator[str]:
        before = {(p["in"], p["name"]): p for p in old}
        after = {(p["in"], p["name"]): p for p in new}
        for key, parameter in before.items():
            if key not in after:
                yield f"{where}: the {key[0]} parameter {key[1]} is gone"
            else:
                yield from self._request(f"{where} {key[1]}", parameter["schema"], after[key]["schema"])
        for key, parameter in after.items():
            if parameter.get("required") and not before.get(key, {}).get("required"):
                yield f"{where}: the {key[0]} parameter {key[1]} is required now"

    def _request(self, where: str, old: Schema, new: Schema) -> Iterator[str]:
        """What was accepted has to be accepted."""
        old, new = self._resolved(self._old, old), self._resolved(self._new, new)
        if lost := _types(old) - _types(new):
            yield f"{where}: {', '.join(sorted(lost))} is not accepted any more"
        if new.get("enum") is not None:
            lost_values = set(map(str, old.get("enum") or ["anything"])) - set(map(str, new["enum"]))
            if lost_values:
                yield f"{where}: {', '.join(sorted(lost_values))} is not accepted any more"
        for word in _UPPER:
            if word in new and new[word] < old.get(word, float("inf")):
                yield f"{where}: {word} is tighter"
        for word in _LOWER:
            if word in new and new[word] > old.get(word, float("-inf")):
                yield f"{where}: {word} is tighter"
        if new.get("pattern") not in (None, old.get("pattern")):
            yield f"{where}: the pattern has changed"
        for name in set(new.get("required", [])) - set(old.get("required", [])):
            yield f"{where}.{name} is required now"
        for name, schema in old.get("properties", {}).items():
            if name in new.get("properties", {}):
                yield from self._request(f"{where}.{name}", schema, new["properties"][name])
            elif new.get("additionalProperties") is False:
                yield f"{where}.{name} is not accepted any more"
        if "items" in old and "items" in new:
            yield from self._request(f"{where}[]", old["items"], new["items"])

    def _answer(self, where: str, old: Schema, new: Schema) -> Iterator[str]:
        """What was answered has to be answered."""
        old, new = self._resolved(self._old, old), self._resolved(self._new, new)
        if added := _types(new) - _types(old):
            yield f"{where} may be {', '.join(sorted(added))} now"
        if old.get("enum") is not None and new.get("enum") is None:
            yield f"{where} may be anything now"
        required = set(new.get("required", []))
        for name, schema in old.get("properties", {}).items():
            if name not in new.get("properties", {}):
                yield f"{where}.{name} is gone"
                continue
            if name in old.get("required", []) and name not in required:
                yield f"{where}.{name} may be absent now"
            yield from self._answer(f"{where}.{name}", schema, new["properties"][name])
        if "items" in old and "items" in new:
            yield from self._answer(f"{where}[]", old["items"], new["items"])

    @staticmethod
    def _resolved(document: Schema, schema: Schema) -> Schema:
        """References followed; `anyOf` with null becomes the other branch with null among its types."""
        while "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        branches = schema.get("anyOf", [])
        others = [branch for branch in branches if branch.get("type") != "null"]
        if len(others) == 1 and len(branches) == 2:
            inner = _Comparison._resolved(document, others[0])
            return {**inner, "type": [*_types(inner), "null"]}
        return schema


def _types(schema: Schema) -> set[str]:
    """The JSON types that a schema allows; without a word about it, any of them."""
    given = schema.get("type")
    if given is None:
        if "const" in schema or "enum" in schema:
            return {"string"}
        return {"null", "boolean", "integer", "number", "string", "array", "object"}
    return {given} if isinstance(given, str) else set(given)
