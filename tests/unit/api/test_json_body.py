"""Strict JSON: the fast reader and its glances agree with a slow reader that knows nothing of speed."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingxi.api.json_body import MAX_DEPTH, canonical_digest, parse
from lingxi.domain.errors import LingxiError

_KEYS = st.text(alphabet='ab":\\\u0000é ', max_size=3)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet='a":\\\u0000😀/u0', max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)


def _acceptable(value: Any) -> bool:
    if isinstance(value, dict):
        return all("\0" not in key and _acceptable(child) for key, child in value.items())
    if isinstance(value, list):
        return all(map(_acceptable, value))
    if isinstance(value, str):
        return "\0" not in value
    return not isinstance(value, int) or isinstance(value, bool) or -(2**63) <= value < 2**64


@given(_VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_what_is_acceptable_comes_back_and_the_rest_is_refused(
    value: Any, indent: Any, ascii_only: bool
) -> None:
    body = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    if _acceptable(value):
        assert parse(body) == value
    else:
        with pytest.raises(LingxiError) as refused:
            parse(body)
        assert refused.value.code == 40001


@given(_VALUES.filter(_acceptable), st.randoms())
def test_the_digest_ignores_order_and_white_space(value: Any, random: Any) -> None:
    def shuffled(node: Any) -> Any:
        if isinstance(node, dict):
            items = [(key, shuffled(child)) for key, child in node.items()]
            random.shuffle(items)
            return dict(items)
        return [shuffled(child) for child in node] if isinstance(node, list) else node

    other = json.dumps(shuffled(value), indent=2).encode()
    assert canonical_digest(parse(other)) == canonical_digest(parse(orjson.dumps(value)))


@pytest.mark.parametrize(
    ("one", "other"),
    [('{"a":1}', '{"a":2}'), ('{"a":[1,2]}', '{"a":[2,1]}'), ('{"a":1}', '{"a":"1"}'), ("{}", "[]")],
)
def test_the_digest_tells_bodies_apart(one: str, other: str) -> None:
    assert canonical_digest(parse(one.encode())) != canonical_digest(parse(other.encode()))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"a": {"b": 1, "b": 2}}', "a.b"),
        ('{"a": [0, {"b": 18446744073709551616}]}', "a[1].b"),
        ('{"a": "\\u0000"}', "a"),
        ('[{"x": 1}, {"x":1,"\\u0078": 2}]', "[1].x"),
        ('{"a": "\\\\u0000", "b": "\\u0000"}', "b"),
    ],
)
def test_the_field_is_named(body: str, field: str) -> None:
    with pytest.raises(LingxiError) as refused:
        parse(body.encode())
    assert [error.field for error in refused.value.errors] == [field]
    assert field in refused.value.detail


def test_depth() -> None:
    deepest = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert parse(deepest) is not None
    for bad in (b"[" + deepest + b"]", b'{"a":' * 65 + b"1" + b"}" * 65):
        with pytest.raises(LingxiError):
            parse(bad)


def test_signs_of_trouble_inside_text_are_no_trouble() -> None:
    text = '{"a": "x\\":1,\\"x\\":2 \\\\u0000 12345678901234567890123", "b": 1}'
    assert parse(text.encode()) == json.loads(text)
