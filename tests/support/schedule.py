"""Which test process runs what: a file stays whole, so that what its tests share is set up once.

The folders below share more than a file does, and stay whole too. (xdist's own groups do not do it: it puts the group's name
where pytest no longer reads it, and says nothing.)
"""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

WHOLE_FOLDERS = ("tests/e2e/browser",)  # one running Lingxi, and one Chromium


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Files in the order of collection: what runs processes comes first there, what is small comes last."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((folder for folder in WHOLE_FOLDERS if PurePosixPath(file).is_relative_to(folder)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    config.option.loadscopereorder = (
        False  # xdist's order is by the number of tests, which says nothing of their time
    )
    return ByFile(config, log)
