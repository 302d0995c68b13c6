"""What must not stand in a log line, cut out of the texts that others wrote: messages of exceptions, reasons, tracebacks.

Fields that we fill ourselves hold ids, codes and numbers. A message from a driver, a library or a user's processor may quote
anything: a value of a row, an address with a password, a file's name, a place. So every text of a line but the few that are
ours by construction passes here. It is a net below the rule, not the rule.
"""

import re
from typing import Any

CUT = "…"
_OURS = frozenset(
    ("event", "level", "timestamp", "component", "role", "worker", "request_id", "route", "method", "queue")
)  # fields whose texts are ours by construction

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), into)
    for pattern, into in (
        (r"(\w+://)[^\s/@'\"]+@", rf"\1{CUT}@"),  # user and password of an address
        (r"(https?://[^\s?#'\"]+)[?#][^\s'\"]*", rf"\1?{CUT}"),  # queries hold signatures and tokens
        (r"(/s/|signed-objects/)[\w-]{8,}", rf"\1{CUT}"),
        (r"\b(lx_|whsec_|whsk_)[\w+/=-]{8,}", rf"\1{CUT}"),
        (r"\b(Bearer|Basic)\s+[\w.+/=-]+", rf"\1 {CUT}"),
        (
            r"((?:authorization|cookie|password|passwd|secret\w*|token|signature|api_?key|key_?id)['\"]?\s*[:=]\s*)"
            r"(?:'[^']*'|\"[^\"]*\"|[^\s,;&'\")}]+)",
            rf"\1{CUT}",
        ),
        (r"\bDETAIL:.*", f"DETAIL: {CUT}"),  # PostgreSQL shows the row's values there
        (r"\)=\([^\n]*\)", f")=({CUT})"),
        (r"input_value=.*?(, input_type=)", rf"input_value={CUT}\1"),  # pydantic shows what it was given
        (r"\bmedia:[^\s'\"]*[./][^\s'\"]*", f"media:{CUT}"),
        (
            r"(?:[^\s'\"/\\=:(]|\\')*\.(?:jpe?g|png|webp|avif|hei[cf]|tiff?|gif|dng|cr[23]|nef|arw|raf|rw2|orf|mp4|mov|m4v|"
            r"avi|mkv|webm|mts|mp3|wav|flac|m4a|zip|tar|gz|pdf|svg|txt|csv|json|xmp|bin)\b",
            CUT,
        ),
        (r"-?\d{1,3}\.\d{3,}\s*°?\s*[NSEW]?\s*[,;/ ]\s*-?\d{1,3}\.\d{3,}\s*°?\s*[NSEW]?", CUT),  # degrees
        (r"\d{1,3}\s*(?:°|deg)\s*\d{1,2}\s*['′]\s*[\d.]+\s*(?:[\"″]|'')\s*[NSEW]", CUT),
    )
)
# Quoted texts of a message: an OSError's path, a KeyError's key, a ValueError's value.
_QUOTED = re.compile(r"(?<!\w)'[^'\n]{1,4096}'(?!\w)|\"[^\"\n]{1,4096}\"|`[^`\n]{1,4096}`")
_WORD = re.compile(r"[a-z][a-z0-9]{0,20}([_:.][a-z0-9]{1,20}){0,4}|[A-Z][A-Za-z]{2,40}")


def redacted(text: str) -> str:
    """`text` without secrets, names of files and positions; its words remain.

    A quoted text remains when it is one word, like a column's or a module's name.
    """
    for pattern, into in _RULES:
        text = pattern.sub(into, text)
    return _QUOTED.sub(_unquoted, text)


def _unquoted(match: re.Match[str]) -> str:
    whole = match.group()
    inner = whole[1:-1]
    return whole if _WORD.fullmatch(inner) or inner.endswith(".py") else f"{whole[0]}{CUT}{whole[-1]}"


def redact(event: dict[str, Any]) -> dict[str, Any]:
    """The fields of a log line, redacted in place where their texts may be somebody else's."""
    for name, value in event.items():
        if name not in _OURS:
            event[name] = _of(value)
    return event


def _of(value: Any, within: str = "") -> Any:
    if isinstance(value, str):
        # where our own code stands is no secret: `"filename": "…/executor.py"` in a frame of a traceback
        return value if within in _FRAME or _PLAIN.fullmatch(value) else redacted(value)
    if isinstance(value, dict):
        return {key: _of(one, str(key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_of(one) for one in value]
    return value


_FRAME = frozenset(("filename", "name", "exc_type"))
_PLAIN = re.compile(r"[A-Za-z_:]*|[0-9a-f-]{36}(\.\d+)?")  # a word or a code, an id, an attempt
