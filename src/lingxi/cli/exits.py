"""Exit codes of the command line, and how each kind of error becomes one sentence and one code.

| code | when |
|---|---|
| 0 | done as asked |
| 1 | the task did not succeed, or `check` or `conform` found something wrong |
| 2 | the command was used wrongly: an unknown option, a file that is not JSON |
| 3 | a server could not be reached: the API, PostgreSQL or Redis |
| 4 | the API refused (4xx); its code is in the message |
| 5 | the API failed (5xx); its code is in the message |
| 6 | this machine or configuration does not allow it: a bad setting, a port that is taken, a folder in use |
| 70 | an error inside Lingxi; please report it |
| 130 | ended by Ctrl-C |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Exit(IntEnum):
    """What the process ends with."""

    OK = 0
    NOT_SUCCEEDED = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    SERVER_FAILED = 5
    NOT_POSSIBLE_HERE = 6
    INTERNAL = 70
    INTERRUPTED = 130


@dataclass(slots=True)
class CommandError(Exception):
    """Ends a command: one sentence for the person at the terminal, and the exit code. `code` is the API's, if any."""

    message: str
    exit_code: Exit
    code: int | None = None

    def __str__(self) -> str:
        return self.message


def usage(message: str) -> CommandError:
    """The command was used wrongly."""
    return CommandError(message, Exit.USAGE)


def not_possible(message: str) -> CommandError:
    """This machine or configuration does not allow it."""
    return CommandError(message, Exit.NOT_POSSIBLE_HERE)


def explain(error: BaseException) -> CommandError:
    """The CommandError for anything that a command may raise. Packages are imported only once something failed."""
    if isinstance(error, CommandError):
        return error
    return _of_client(error) or _of_service(error) or _of_servers(error) or _unexpected(error)


def _of_client(error: BaseException) -> CommandError | None:
    from lingxi.client.errors import ApiError, ClientError

    if isinstance(error, ApiError):
        return CommandError(str(error), Exit.REFUSED if error.is_refusal else Exit.SERVER_FAILED, error.code)
    if isinstance(error, ClientError):
        return CommandError(str(error), Exit.UNREACHABLE)
    return None


def _of_service(error: BaseException) -> CommandError | None:
    """Errors of commands that work beside the database."""
    from lingxi.domain.errors import LingxiError

    if not isinstance(error, LingxiError):
        return None
    unreachable = error.code in (50002, 50003)
    refused = Exit.REFUSED if error.status < 500 else Exit.SERVER_FAILED
    message = f"{error.detail.rstrip('.')} ({error.code})"
    return CommandError(message, Exit.UNREACHABLE if unreachable else refused, error.code)


def _of_servers(error: BaseException) -> CommandError | None:
    from lingxi.broker.errors import BrokerError
    from lingxi.db.session import is_unavailable
    from lingxi.embedded import EmbeddedError
    from lingxi.settings import SettingsError

    if isinstance(error, SettingsError):
        return not_possible(f"A setting is wrong: {_sentence(error)}")
    if isinstance(error, EmbeddedError):
        return not_possible(_sentence(error))
    if isinstance(error, BrokerError):
        return CommandError(f"Redis cannot be used: {_sentence(error)}", Exit.UNREACHABLE, 50002)
    if isinstance(error, OSError) and error.filename is not None:
        return not_possible(f"{error.filename}: {error.strerror}")
    if is_unavailable(error):
        return CommandError(f"PostgreSQL cannot be used: {_sentence(error)}", Exit.UNREACHABLE, 50003)
    return None


def _unexpected(error: BaseException) -> CommandError:
    what = f"{type(error).__name__}: {_sentence(error)}" if str(error) else type(error).__name__
    return CommandError(f"Something is wrong inside Lingxi ({what})", Exit.INTERNAL)


def _sentence(error: BaseException) -> str:
    """The error's text on one line, without a full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
