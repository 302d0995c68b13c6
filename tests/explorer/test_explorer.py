"""All interleavings of small tasks; and the explorer finds each bug that is planted for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.explorer.explorer import Broken, Explorer
from tests.explorer.planted import BUGS, NEED_TWO_ITEMS, plant
from tests.explorer.rows import prepare

pytestmark = pytest.mark.portable


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    """Steps are commits, and nothing here has to survive a crash of the server."""
    settings = {"synchronous_commit": "off", "jit": "off", "plan_cache_mode": "force_generic_plan"}
    opened = await asyncpg.connect(database_url, server_settings=settings)
    await prepare(opened)
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    ("size", "rounds", "least"),
    [
        (1, 2, 30),
        pytest.param(1, 4, 80, marks=pytest.mark.slow),
        pytest.param(2, 2, 500, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)]),
        pytest.param(3, 2, 5_000, marks=[pytest.mark.slow, pytest.mark.timeout(7_200)]),
    ],
)
async def test_every_interleaving_of_a_small_task(
    connection: asyncpg.Connection[Any], size: int, rounds: int, least: int
) -> None:
    explored = await Explorer(connection, size, rounds=rounds).explore()
    print(
        f"\n{size} items, {rounds} rounds: {explored.nodes} states, {explored.edges} edges, {explored.ends} ends"
    )
    assert explored.nodes >= least, "it has not walked far"


async def test_two_items_a_few_steps_far(connection: asyncpg.Connection[Any]) -> None:
    """What needs two items to go wrong, and goes wrong soon: the whole of it is in the slow tier."""
    explored = await Explorer(connection, 2).explore(depth=4)
    assert explored.nodes >= 50


async def test_each_planted_bug_is_found(connection: asyncpg.Connection[Any]) -> None:
    survivors = []
    for name, bug in BUGS.items():
        sound = await plant(connection, bug)
        try:
            await Explorer(connection, 2 if name in NEED_TWO_ITEMS else 1).explore()
            survivors.append(name)
        except Broken as found:
            print(f"\n{name}: {found}")
        await connection.execute(sound)
    assert survivors == []
