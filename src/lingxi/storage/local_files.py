"""Opening files below a folder that others may write into, step by step: no link on the way is followed."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NOT_THERE: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError)

Parts = tuple[str, ...]  # folders below the root, and the file's name


def open_file(root: Path, parts: Parts) -> int:
    """A descriptor of a regular file below the root; a pipe would be waited for, and a link may lead anywhere.

    One of NOT_THERE; other OSErrors when it cannot be opened.
    """
    with _folder(root, parts[:-1]) as folder:
        return _open_in(folder, parts[-1])


def read_files(root: Path, wanted: Sequence[Parts], max_bytes: int) -> list[bytes | None]:
    """The first `max_bytes` of each; None for what is not there. OSError."""
    contents: list[bytes | None] = []
    left = list(reversed(wanted))
    while left:
        folders = left[-1][:-1]
        try:
            with _folder(root, folders) as folder:  # for all that follow each other in it
                while left and left[-1][:-1] == folders:
                    contents.append(_read_in(folder, left.pop()[-1], max_bytes))
        except NOT_THERE:
            left.pop()
            contents.append(None)
    return contents


@contextlib.contextmanager
def _folder(root: Path, folders: Parts) -> Iterator[int]:
    at = os.open(root, os.O_PATH | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = os.open(
                folder, _FOLDER, dir_fd=at
            )  # of a link it opens the link, and nothing is below that
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _open_in(folder: int, name: str) -> int:
    try:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return descriptor


def _read_in(folder: int, name: str, most: int) -> bytes | None:
    try:
        descriptor = _open_in(folder, name)
    except NOT_THERE:
        return None
    try:
        # almost always one read, for which one byte more than the size is asked; a network disk may cut it short
        data = os.read(descriptor, min(most, os.fstat(descriptor).st_size + 1))
        while 0 < len(data) < most and (more := os.read(descriptor, most - len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)
