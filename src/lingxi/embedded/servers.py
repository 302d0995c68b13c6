"""Both servers in one data folder, started and stopped together."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from lingxi.embedded.postgres import EmbeddedPostgres
from lingxi.embedded.valkey import EmbeddedValkey


class EmbeddedServers:
    """PostgreSQL in `<folder>/postgres` and Valkey in `<folder>/valkey`; a context manager.

    After the start `database_url` and `redis_url` say where they are. Raises `FolderInUse` when another live process
    has started them on this folder.
    """

    def __init__(self, folder: Path | str, *, fast: bool = False) -> None:
        self.postgres = EmbeddedPostgres(Path(folder) / "postgres", fast=fast)
        self.valkey = EmbeddedValkey(Path(folder) / "valkey")

    @property
    def database_url(self) -> str:
        """The URL of the database `lingxi`, password included."""
        return self.postgres.url

    @property
    def redis_url(self) -> str:
        """The URL of Valkey's database 0, password included."""
        return self.valkey.url

    def start(self) -> Self:
        """Start both and wait until both take connections."""
        self.postgres.start()
        try:
            self.valkey.start()
        except BaseException:
            self.postgres.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop both; Valkey first, as clients mind its absence least."""
        try:
            self.valkey.stop()
        finally:
            self.postgres.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
