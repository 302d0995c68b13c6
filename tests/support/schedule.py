"""Which test process runs what: a file stays whole, so that what its tests share is set up once.

The groups below share more than a file does, and stay whole too. (xdist's own groups do not do it: it puts the group's name
where pytest no longer reads it, and says nothing.)
"""

from __future__ import annotations

from fnmatch import fnmatch

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

GROUPS = {
    "tests/e2e/browser/*": "one running Lingxi, and one Chromium",
    "tests/integration/storage/*": "S3",
    "tests/integration/archive/test_s3.py": "S3",
    "tests/e2e/test_up_s3.py": "S3",
    "tests/fault/test_storage_*.py": "S3",
}


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Files in the order of collection: what runs processes comes first there, what is small comes last."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((group for pattern, group in GROUPS.items() if fnmatch(file, pattern)), file)

    def schedule(self) -> None:
        super().schedule()
        # A test process begins a test when it knows the one after it, or that there is none. xdist hands the replacement
        # of a dead process one file alone: with one test in it, the run would wait for ever.
        for node in list(self.assigned_work):
            self._reschedule(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Not yet for one that has not told what it collected: two died together, and their replacements come one by one."""
        if node in self.registered_collections:
            super()._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Gives back what a dead process had left, without the test it died of; that test's name.

        xdist gives back that test too, to kill the next process, and files of which nothing is left, which nobody ends.
        """
        files = self.assigned_work.pop(node)
        fatal: str | None = next(
            (name for tests in files.values() for name, done in tests.items() if not done), None
        )
        if fatal is None:
            return None
        for tests in files.values():
            if fatal in tests:
                tests[fatal] = True
        self.workqueue.update({file: tests for file, tests in files.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return fatal


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    config.option.loadscopereorder = (
        False  # xdist's order is by the number of tests, which says nothing of their time
    )
    return ByFile(config, log)
