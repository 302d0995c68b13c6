"""One place in a process for suspects: items whose last attempt was lost, because one of them may have killed its worker.

When a worker dies, all that it was running is charged, and only one of these items may be guilty. Run side by side again,
the innocent would die with it each time, and end with it. So a process runs one suspect at a time: whoever kills it then
takes no other suspect along.
"""

import asyncio
from collections import deque
from collections.abc import Callable


class Ward:
    """Shared by all consumers of a process."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[Callable[[], None]] = deque()

    def enter(self) -> bool:
        """Take the place; False when somebody has it."""
        if self._taken:
            return False
        self._taken = True
        return True

    def leave(self) -> None:
        """The place is free: the one that waits longest may try."""
        self._taken = False
        self._call_next()

    def wait(self, call: Callable[[], None]) -> None:
        """Call `call` once when the place is free, soon if it is now."""
        self._waiting.append(call)
        if not self._taken:
            self._call_next()

    def _call_next(self) -> None:
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._waiting.popleft())
