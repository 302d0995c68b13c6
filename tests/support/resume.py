"""`./run test --resume`: leave out what has passed already on the code exactly as it is now.

For a run that was broken off. The names of passed tests are kept under a digest of all code, tests and locks, so any
change of any of them makes everything run again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import DATA, ROOT, flavour

_WATCHED = ("src", "tests", "scripts", "benchmarks", "infra")
_FILES = ("pyproject.toml", "requirements-dev.lock")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--resume", action="store_true", help="leave out what has passed on the code as it is")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Record(), "lingxi-record")
    if config.getoption("--resume"):
        config.pluginmanager.register(_LeaveOut(config), "lingxi-leave-out")


class _Record:
    """Writes down what passed; in the process that hears of every test."""

    def __init__(self) -> None:
        self.path = _record()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.skipped:
            self._failed.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self._failed:
            with open(self.path, "a") as record:
                record.write(report.nodeid + "\n")


class _LeaveOut:
    """Deselects what passed; in every process that collects, by one snapshot, as all have to collect the same."""

    def __init__(self, config: pytest.Config) -> None:
        worker_input = getattr(config, "workerinput", None)
        if worker_input is not None:
            self._passed: list[str] = worker_input["lingxi_passed"]
        else:
            record = _record()
            self._passed = record.read_text().splitlines() if record.exists() else []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["lingxi_passed"] = self._passed

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        passed = set(self._passed)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = [item for item in items if item.nodeid not in passed]


def _record() -> Path:
    return DATA / "passed" / f"{flavour()}-{digest_of_tree()}"


def digest_of_tree() -> str:
    """16 hex digits that change with all code, tests and locks."""
    digest = hashlib.sha256()
    for path in _watched_files():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _watched_files() -> list[Path]:
    found = [ROOT / name for name in _FILES]
    for folder in _WATCHED:
        found += [p for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return sorted(found)
