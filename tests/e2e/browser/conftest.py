"""One running Lingxi and one Chromium for all tests of pages; they stay on one test process (`tests/support/schedule.py`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.e2e.browser.stage import Lingxi
from tests.e2e.conftest import Up, start_up
from tests.support.processes import Processes
from tests.support.programs import need_program


@pytest.fixture(scope="session")
def pages_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """`lingxi up` with one worker process, ended in order."""
    folder = tmp_path_factory.mktemp("pages")
    processes = Processes(folder)
    try:
        started = start_up(
            processes,
            folder / "data",
            GRACE_SECONDS="3",
            LINGXI_CONCURRENCY="demo:drill=4",
        )
        yield started
        assert started.process.stop() == 0
        processes.assert_clean_logs()
        for log in (folder / "data" / "logs").glob("*.log"):
            assert "Traceback" not in log.read_text(), log
    finally:
        processes.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium."""
    program = need_program("chromium", "to open the pages")
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        await launched.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lingxi(browser: Browser, pages_up: Up) -> AsyncIterator[Lingxi]:
    """The running system, with visitors."""
    started = Lingxi(pages_up, browser)
    yield started
    await started.http.aclose()
