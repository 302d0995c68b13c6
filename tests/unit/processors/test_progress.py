"""An item's own progress: the latest word soon, five words a second at most."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import Any

from lingxi.processors.progress import INTERVAL_SECONDS, Progress
from tests.support.waiting import wait_until

Published = list[tuple[float, tuple[Any, ...]]]


def watched() -> tuple[Progress, Published]:
    published: Published = []
    return Progress(lambda *said: published.append((time.monotonic(), said))), published


async def test_the_first_word_goes_at_once_and_the_last_is_never_lost() -> None:
    progress, published = watched()
    for done in range(1, 1_001):
        progress.say(done, 1_000)
    assert [said for _, said in published] == [(1, 1_000, None)]
    await wait_until(lambda: len(published) == 2, message="the rest follows as one word")
    assert published[1][1] == (1_000, 1_000, None)
    assert published[1][0] - published[0][0] >= INTERVAL_SECONDS * 0.99


async def test_no_more_than_five_words_a_second() -> None:
    progress, published = watched()
    until = time.monotonic() + 1.1
    done = 0
    while time.monotonic() < until:
        progress.say(done := done + 1)
        await asyncio.sleep(0)
    assert 2 <= len(published) <= 6
    gaps = [late[0] - early[0] for early, late in pairwise(published)]
    assert min(gaps) >= INTERVAL_SECONDS * 0.99


async def test_the_end_says_what_waits_and_nothing_after_it() -> None:
    progress, published = watched()
    progress.say(1, 2)
    progress.say(2, 2, "n" * 500)
    progress.flush()
    assert [said for _, said in published] == [(1, 2, None), (2, 2, "n" * 200)]
    progress.flush()
    assert len(published) == 2


async def test_other_threads_may_speak() -> None:
    progress, published = watched()
    await asyncio.to_thread(progress.say, 7, 9)
    await wait_until(lambda: len(published) == 1, message="it is heard")
    assert published[0][1] == (7, 9, None)
