"""What can go wrong with stored bytes; `domain.errors` knows nothing of storage, callers translate."""


class StorageError(Exception):
    """Base of what this package raises."""


class StorageUnavailable(StorageError):
    """Storage cannot serve now: full, read-only, unreachable, broken. Trying again later can help.

    The text is fit for a log and a problem report: it names the cause and no path.
    """


class ObjectMissing(StorageError):
    """No bytes are stored under this key."""


class ObjectTooLarge(StorageError):
    """The stream went on past `limit_bytes`; nothing of it was kept."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"larger than {limit_bytes} bytes")
        self.limit_bytes = limit_bytes
