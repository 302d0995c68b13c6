"""Who may decode now: pictures are admitted by the bytes that they decode to, in the order in which they came."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Admission:
    """`capacity_bytes` shared by the pictures that are being decoded. One that needs more is admitted alone."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = self._free = capacity_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many pictures wait for others to end."""
        return len(self._waiting)

    def take_now(self, amount_bytes: int) -> int:
        """`amount_bytes` if they are free and nobody waits for his turn, else 0; to be given back."""
        if self._waiting or amount_bytes > self._free:
            return 0
        self._free -= amount_bytes
        return amount_bytes

    def give_back(self, amount_bytes: int) -> None:
        """What `take_now` gave."""
        self._free += amount_bytes
        self._admit()

    @asynccontextmanager
    async def hold(self, needed_bytes: int) -> AsyncIterator[None]:
        """Wait for one's turn; the bytes are given back when the block is left."""
        amount = min(needed_bytes, self._capacity)
        await self._acquire(amount)
        try:
            yield
        finally:
            self._free += amount
            self._admit()

    async def _acquire(self, amount: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (amount, turn)
        self._waiting.append(entry)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free += amount  # admitted and cancelled in the same moment
            else:
                self._waiting.remove(entry)
            self._admit()
            raise

    def _admit(self) -> None:
        """First come, first served: a large one is not passed for ever by small ones."""
        while self._waiting and self._waiting[0][0] <= self._free:
            amount, turn = self._waiting.popleft()
            self._free -= amount
            turn.set_result(None)
