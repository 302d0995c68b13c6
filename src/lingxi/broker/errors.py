"""What can go wrong between us and Redis. The difference that matters: can the server serve now, or is one job bad?"""

from __future__ import annotations

# First words of error replies that speak about the server, not about the command that was sent.
UNABLE_PREFIXES = (
    "OOM",
    "LOADING",
    "READONLY",
    "BUSY ",  # a script runs too long
    "MISCONF",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "MASTERDOWN",
    "NOREPLICAS",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "UNKILLABLE",
    "ERR max number of clients reached",
)


class BrokerError(Exception):
    """Base of everything that this package raises on purpose."""


class BrokerUnavailable(BrokerError):
    """The server cannot serve now: refused, lost, out of memory, loading, read-only, busy, not authenticated.

    Nobody's job is to blame: wait and try again, charge nothing.
    """


class BrokerTimeout(BrokerUnavailable):
    """No answer in time. The server may be gone, or this one command was too much for it: a PING tells which."""


class JobRejected(BrokerError):
    """The server is well, but this job cannot be added; the rest of its batch may have been."""

    def __init__(self, job_id: str, reason: str) -> None:
        super().__init__(f"job {job_id!r} was rejected: {reason}")
        self.job_id = job_id
        self.reason = reason


def means_unavailable(message: str) -> bool:
    """Whether an error reply says that the server as a whole cannot serve."""
    return message.startswith(UNABLE_PREFIXES)


def is_closed_transport(error: RuntimeError) -> bool:
    """Whether it is uvloop's answer to a write on a connection that was lost a moment ago; redis-py lets it through."""
    return "handler is closed" in str(error)
