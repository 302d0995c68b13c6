"""One JSON line an event on standard error; the only place that configures logging.

Events are snake_case words in the past tense (`attempt_finished`); the rest are fields. Secrets, file names of users and
positions never go into a field at level info.
"""

import logging
import sys
from typing import Any, cast

import structlog
from structlog.tracebacks import ExceptionDictTransformer

LEVELS = ("debug", "info", "warning", "error")


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
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # No values of variables, which it would show by default: they hold secrets and file names.
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=cast(Any, _Stderr())),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**fields)
    logging.basicConfig(
        level=max(number, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """The logger of one module; `name` becomes the field `component` (structlog keeps `logger` for itself)."""
    return cast(structlog.typing.FilteringBoundLogger, structlog.get_logger(component=name))
