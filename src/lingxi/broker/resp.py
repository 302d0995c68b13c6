"""Redis's wire format, as far as a client writes it. Bytes in, bytes out: objects would cost more than the work."""

from __future__ import annotations


def bulk(*arguments: bytes) -> bytes:
    """Arguments of a command, without the command's head; pieces may be joined."""
    return b"".join(b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments)


def head(argument_count: int) -> bytes:
    return b"*%d\r\n" % argument_count


def command(*arguments: bytes) -> bytes:
    return head(len(arguments)) + bulk(*arguments)
