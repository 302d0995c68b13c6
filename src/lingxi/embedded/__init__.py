"""PostgreSQL and Valkey from wheels, for the demo, the tests and a first `lingxi up`.

Both are real servers that listen on loopback only, with generated passwords, and live no longer than the process
that started them. In production the same code takes `DATABASE_URL` and `REDIS_URL` instead.
"""

from lingxi.embedded.postgres import EmbeddedPostgres
from lingxi.embedded.servers import EmbeddedServers
from lingxi.embedded.supervise import EmbeddedError, FolderInUse
from lingxi.embedded.valkey import EmbeddedValkey

__all__ = ["EmbeddedError", "EmbeddedPostgres", "EmbeddedServers", "EmbeddedValkey", "FolderInUse"]
