"""Headers with parameters (`form-data; name="files"; filename*=UTF-8''%e2%82%ac.jpg`), from the bytes as they came.

Understood are quoted strings as browsers write them (raw UTF-8, `"` as `%22` or `\\"`), RFC 5987 (`name*=charset'lang'…`) and
RFC 2231 (a value in pieces, `name*0*=…; name*1="…"`). Nothing here fails: what cannot be read is left out.
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

_PARAMETER: Final = re.compile(rb';[ \t]*([^ \t=;"]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;]*))', re.DOTALL)
_PIECE: Final = re.compile(r"(?P<name>[^*]+)(?:\*(?P<number>\d{1,3}))?(?P<encoded>\*)?")
_ESCAPED: Final = re.compile(rb'\\(["\\])')


def header_parameters(value: bytes) -> tuple[bytes, dict[str, bytes]]:
    """The header's first word, and its parameters by lower-case name, as bytes of UTF-8 (or of what the client sent)."""
    first = value.partition(b";")[0].strip(b" \t")
    plain: dict[str, bytes] = {}
    extended: dict[str, bytes] = {}
    pieces: dict[str, dict[int, tuple[bytes, bool]]] = {}
    for match in _PARAMETER.finditer(value, len(value.partition(b";")[0])):
        key = _PIECE.fullmatch(match[1].decode("latin-1").lower())
        if key is None:
            continue
        content = match[3].strip(b" \t") if match[2] is None else _ESCAPED.sub(rb"\1", match[2])
        name, encoded = key["name"], key["encoded"] is not None
        if key["number"] is not None:
            pieces.setdefault(name, {})[int(key["number"])] = content, encoded
        elif encoded:
            extended[name] = _decoded(content)
        else:
            plain.setdefault(name, content)
    for name, numbered in pieces.items():
        extended.setdefault(name, _joined(numbered))
    return first, {**plain, **extended}


def _joined(numbered: dict[int, tuple[bytes, bool]]) -> bytes:
    """RFC 2231: the pieces 0, 1, 2 … up to the first that is missing; the first names the charset."""
    joined = b""
    charset = b""
    for number in range(len(numbered)):
        if number not in numbered:
            break
        content, encoded = numbered[number]
        if number == 0 and encoded and content.count(b"'") >= 2:
            charset, _, content = content.split(b"'", 2)
        joined += unquote_to_bytes(content) if encoded else content
    return _to_utf8(joined, charset)


def _decoded(content: bytes) -> bytes:
    """RFC 5987: `charset'language'percent-encoded`."""
    if content.count(b"'") < 2:
        return unquote_to_bytes(content)
    charset, _, encoded = content.split(b"'", 2)
    return _to_utf8(unquote_to_bytes(encoded), charset)


def _to_utf8(content: bytes, charset: bytes) -> bytes:
    if charset.lower() in (b"iso-8859-1", b"latin1"):
        return content.decode("latin-1").encode()
    return content
