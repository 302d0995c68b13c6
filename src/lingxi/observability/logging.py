"""One JSON line an event on standard error; the only place that configures logging.

Events are snake_case words in the past tense (`attempt_finished`); the rest are fields. Secrets, file names of users and
positions never go into a field at level info; what others' messages may hold of them is cut out (`redaction.py`). Lines of
libraries, which use the standard library's logging, have the same shape.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, cast

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from lingxi.observability.kept_lines import keep
from lingxi.observability.redaction import redact

LEVELS = ("debug", "info", "warning", "error")
_process: dict[str, Any] = {}  # on every line, whichever thread writes it


class _Stderr:
    """Looks up sys.stderr at each line: pytest and daemons replace it."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure(level: str = "info", **fields: Any) -> None:
    """Log from `level` (one of LEVELS) on, with `fields` on every line of this process."""
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=_PROCESSORS,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=cast(Any, _Stderr())),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    _process.clear()
    say_of_process(**fields)
    handler = logging.StreamHandler(cast(Any, _Stderr()))
    handler.setFormatter(_AsJson())
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)


def say_of_process(**fields: Any) -> None:
    """From now on these fields stand on every line of this process, of all its threads."""
    _process.update(fields)


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """The logger of one module; `name` becomes the field `component` (structlog keeps `logger` for itself)."""
    return cast(structlog.typing.FilteringBoundLogger, structlog.get_logger(component=name))


# ── how a line is made ───────────────────────────────────────────────────────────────────────────────────
def _of_process(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {**_process, **event}


def _redacted(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return redact(cast(dict[str, Any], event))


# No values of variables, which it would show by default: they hold secrets and file names.
_EXCEPTIONS = structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
_RENDER = structlog.processors.JSONRenderer(ensure_ascii=False)
_PROCESSORS: list[structlog.typing.Processor] = [
    _of_process,
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _EXCEPTIONS,
    _redacted,
    keep,
    _RENDER,
]


class _AsJson(logging.Formatter):
    """A line of the standard library's logging, as one of ours: `library_spoke`, with what it said."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, Any] = {
            "component": record.name,
            "event": "library_spoke",
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["exc_info"] = record.exc_info
        line: Any = event
        for step in _PROCESSORS:
            line = step(None, record.levelname.lower(), line)
        return str(line)
