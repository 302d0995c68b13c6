"""An item's own progress: the latest word soon, five words a second at most."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import Any

import numpy
import orjson
import pytest

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


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ((1 << 80, -(1 << 80), "n" * 1_000_000), ((1 << 53) - 1, 1 - (1 << 53), "n" * 200)),
        ((numpy.int64(3), numpy.float64(4.5), "photo \ud800\0"), (3, 4.5, "photo ?\ufffd")),
        ((float("nan"), float("inf"), ""), (0.0, 0.0, "")),
        ((5, 3, None), (5, 3, None)),
        ((True, None, 7), (1, None, "7")),
    ],
)
async def test_whatever_is_said_can_be_told(said: Any, told: Any) -> None:
    progress, published = watched()
    progress.say(0)
    progress.say(*said)
    progress.flush()  # what is said last must not fail where nobody expects it: at the end of the attempt
    assert published[-1][1] == told
    orjson.dumps(published[-1][1])


async def test_going_back_is_told_as_it_is() -> None:
    progress, published = watched()
    progress.say(9, 10)
    progress.say(2, 10)
    progress.flush()
    assert [said[0] for _, said in published] == [9, 2]


async def test_what_is_no_number_is_a_mistake_of_the_caller() -> None:
    progress, published = watched()
    with pytest.raises(TypeError):
        progress.say("half")  # type: ignore[arg-type]
    assert published == []
