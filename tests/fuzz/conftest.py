"""Work on the servers of the test session, with a dispatcher that runs; at the end the rows have to be sound."""

from __future__ import annotations

from tests.integration.worker.conftest import work

__all__ = ["work"]
