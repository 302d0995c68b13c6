"""Pictures are admitted by what they decode to, in their order."""

import asyncio
from contextlib import AsyncExitStack

from lingxi.imaging.admission import Admission


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Room:
    """Who is inside an admission, each leaving when told."""

    def __init__(self, capacity_bytes: int) -> None:
        self._admission = Admission(capacity_bytes)
        self.inside: list[str] = []
        self._leave: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def enter(self, name: str, needed_bytes: int) -> None:
        self._leave[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._stay(name, needed_bytes))
        await settle()

    async def _stay(self, name: str, needed_bytes: int) -> None:
        async with self._admission.hold(needed_bytes):
            self.inside.append(name)
            await self._leave[name].wait()
        self.inside.remove(name)

    async def leave(self, name: str) -> None:
        self._leave[name].set()
        await self.tasks[name]
        await settle()


async def test_two_large_ones_never_meet() -> None:
    room = Room(500)
    await room.enter("large", 300)
    await room.enter("second", 300)
    await room.enter("small", 100)
    assert room.inside == ["large"], "first come, first served: the second is not passed for ever"
    await room.leave("large")
    assert room.inside == ["second", "small"]
    await room.leave("second")
    await room.leave("small")


async def test_what_fits_goes_together() -> None:
    room = Room(500)
    for number in range(5):
        await room.enter(str(number), 100)
    await room.enter("one too many", 1)
    assert room.inside == ["0", "1", "2", "3", "4"]
    await room.leave("2")
    assert "one too many" in room.inside
    for name in list(room.inside):
        await room.leave(name)


async def test_one_that_is_larger_than_all_goes_alone() -> None:
    room = Room(500)
    await room.enter("giant", 9_000)
    await room.enter("small", 1)
    assert room.inside == ["giant"]
    await room.leave("giant")
    await room.leave("small")


async def test_one_that_gives_up_waiting_holds_up_nobody() -> None:
    room = Room(500)
    await room.enter("first", 400)
    await room.enter("impatient", 400)
    await room.enter("small", 100)
    assert room.inside == ["first"]
    room.tasks["impatient"].cancel()
    await settle()
    assert room.inside == ["first", "small"]
    await room.leave("first")
    await room.leave("small")
    await room.enter("all", 500)
    assert room.inside == ["all"]
    await room.leave("all")


async def test_one_that_gives_up_when_it_is_admitted_leaves_nothing_behind() -> None:
    admission = Admission(500)

    async def hold() -> None:
        async with admission.hold(500):
            raise AssertionError("it was cancelled before it ran on")

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(admission.hold(500))
        waiting = asyncio.create_task(hold())
        await settle()
    waiting.cancel()  # its turn came, and it does not know yet
    await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(1), admission.hold(500):
        pass


async def test_what_is_free_is_given_at_once_and_never_to_those_who_come_late() -> None:
    admission = Admission(100)
    assert admission.take_now(50) == 50
    assert admission.take_now(60) == 0
    assert admission.take_now(50) == 50
    large = asyncio.create_task(_hold_for_ever(admission, 80))
    await settle()
    assert admission.waiting == 1
    admission.give_back(50)
    assert admission.take_now(50) == 0, "somebody waits for it"
    admission.give_back(50)
    await settle()
    assert admission.waiting == 0
    assert admission.take_now(30) == 0
    assert admission.take_now(20) == 20
    large.cancel()


async def _hold_for_ever(admission: Admission, amount_bytes: int) -> None:
    async with admission.hold(amount_bytes):
        await asyncio.Event().wait()
