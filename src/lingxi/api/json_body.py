"""Strict JSON: what is read is exactly what was sent, or the request is refused with the field's name.

Refused with 40001: what is not JSON (RFC 8259, UTF-8 without a byte order mark), NaN and infinities, integers beyond 64
bits and floats beyond a double, NUL characters (PostgreSQL cannot store them), lone surrogates, a member given twice, and
nesting deeper than MAX_DEPTH. orjson reads at full speed; the slow reader runs only to find and name what looked wrong.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from lingxi.domain.errors import FieldError, MalformedRequest, SchemaError

MAX_DEPTH = 64
OFF_LOOP_BYTES = 1_000_000  # bigger bodies are read in a thread, so that other requests go on
_INTEGER_LIMIT = 2**64
_LONG_DIGITS = re.compile(rb"[0-9]{19}")
_MEMBER = re.compile(rb'"\s*:')


class _Refused:
    """Stands in for a value that must not be accepted, until its place is known."""

    def __init__(self, why: str) -> None:
        self.why = why


def parse(body: bytes) -> Any:
    """The JSON value of `body`; MalformedRequest (40001) with one sentence that names the field."""
    if not body:
        raise MalformedRequest("The body is empty; JSON was expected.")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedRequest(f"The body is not JSON: {_first_words(error)}.") from None
    members = _count_members(value)
    if members < len(_MEMBER.findall(body)) or b"\\u0000" in body or _LONG_DIGITS.search(body):
        _explain(body)
    return value


def canonical_digest(value: Any) -> bytes:
    """SHA-256 (32 bytes) of the canonical form: key order and white space of what was sent do not matter."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).digest()


def _count_members(value: Any) -> int:
    """How many object members `value` has in all; MalformedRequest when it is nested deeper than MAX_DEPTH."""
    members = 0
    level = [value] if type(value) in (dict, list) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return members
        below: list[Any] = []
        for node in level:
            if type(node) is dict:
                members += len(node)
                below += [child for child in node.values() if type(child) is dict or type(child) is list]
            else:
                below += [child for child in node if type(child) is dict or type(child) is list]
        level = below
    if level:
        raise MalformedRequest(f"The body is nested deeper than {MAX_DEPTH} levels.")
    return members


def _explain(body: bytes) -> None:
    """Read slowly what looked wrong at a glance; MalformedRequest with the field when it is, nothing when it was not."""
    value = json.loads(body, object_pairs_hook=_members, parse_int=_integer)
    for path, found in _walk(value, ""):
        if isinstance(found, _Refused):
            where = f"{path}: " if path else ""
            raise SchemaError(f"{where}{found.why}.", [FieldError(path, found.why)])


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if "\0" in name:
            value = _Refused("a member's name holds a NUL character")
        members[name] = _Refused("the member is given twice") if name in members else value
    return members


def _integer(digits: str) -> int | _Refused:
    if len(digits) > 20 or not -_INTEGER_LIMIT // 2 <= int(digits) < _INTEGER_LIMIT:
        return _Refused("the number is too large, 64 bits are the limit")
    return int(digits)


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _walk(child, f"{path}.{name}" if path else name.replace("\0", "\\u0000"))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _walk(child, f"{path}[{index}]")
    elif isinstance(value, str) and "\0" in value:
        yield path, _Refused("the text holds a NUL character, which cannot be stored")
    else:
        yield path, value


def _first_words(error: orjson.JSONDecodeError) -> str:
    """The reader's message without its trailing position triple: "trailing comma is not allowed at line 1 column 8"."""
    return f"{error.msg} at line {error.lineno}, column {error.colno}"
