"""One open connection: where it stands, and how it goes on.

Why nothing is missed between what it is told first, what it reads from rows, and what it is told live. `seen` is a
point such that every change up to it was sent, or is older than what the client asked for. Three facts hold it together:

- Numbers only grow. A page of rows after `seen`, up to its last point, leaves out no change whose number lies between
  in the page's own moment; what changes later has a number beyond all that was committed in that moment.
- The channel publishes in the same way from its own point on. So the log holds, for a floor F, every change after F
  that was published, and will hold all later ones. Whoever stands at F or beyond reads on in the log, and skips by its
  point what it has seen: also when its own read was newer than the channel's.
- Taking the snapshot, the place in the log and the decision between log and rows is one step of the event loop.

So a watcher reads pages until the log reaches back to where it stands. If the log moves on meanwhile, it reads more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from lingxi.observability import failpoints
from lingxi.stream import frames
from lingxi.stream.catch_up import CatchUp, Gone
from lingxi.stream.channel import Channel
from lingxi.stream.cursor import Point
from lingxi.stream.frames import Block
from lingxi.stream.page import Page

Send = Callable[[bytes], Awaitable[None]]
SendNow = Callable[[bytes], bool]


class Watcher:
    """Follows a channel for one connection. `opening` are its first frames; `seen` is the point up to which it
    needs no changes.

    `over`: the opening is all there is (a finished task). It holds no frames: what it has not sent stays in the
    channel's log.
    """

    __slots__ = (
        "_behind",
        "_catch_up",
        "_final",
        "_heartbeat_seconds",
        "_offset",
        "_opening",
        "_over",
        "_seen",
        "_send_now",
        "_stopped",
        "_waiting",
        "blocked_since",
        "channel",
        "cut",
        "grant",
        "times_behind",
    )

    def __init__(
        self,
        channel: Channel,
        grant: Hashable,
        catch_up: CatchUp,
        *,
        opening: bytes,
        seen: Point,
        over: bool = False,
        heartbeat_seconds: float,
    ) -> None:
        self.channel = channel
        self.grant = grant
        self.blocked_since: float | None = asyncio.get_running_loop().time()  # while a send has not returned
        self.cut = False  # ended from outside, because it takes nothing
        self.times_behind = 0  # how often it fell behind the log
        self._catch_up = catch_up
        self._opening = opening
        self._seen = seen
        self._over = over
        self._heartbeat_seconds = heartbeat_seconds
        offset = channel.log.offset_after(seen)
        self._behind = offset is None
        self._offset = channel.log.end if offset is None else offset
        self._final: bytes | None = None
        self._send_now: SendNow | None = None
        self._waiting: asyncio.Future[None] | None = None  # set while it waits at the log's end
        self._stopped: asyncio.Future[None] | None = None

    def offer(self) -> None:
        """There is something new in the log. A watcher that waits for it is written to at once, if its
        connection takes it; else its own task goes on when it can.
        """
        if self._waiting is None or self._waiting.done():
            return
        while self._send_now is not None and (entry := self.channel.log.get(self._offset)) is not None:
            body = entry.block.after(self._seen)
            if self._final is not None or entry.ends is not None or (body and not self._send_now(body)):
                break
            if body and entry.block.photos:
                self.channel.on_shown(entry.block.photos)
            self._offset += 1
            self._seen = max(self._seen, entry.block.last)
        if self._send_now is None or self._offset < self.channel.log.end:
            self._wake()

    def stop(self, final: bytes = b"") -> None:
        """End the stream, after `final` has been sent."""
        self._final = final
        self._wake()
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    async def run(self, send: Send, send_now: SendNow | None = None) -> None:
        """Send until the stream ends: by the task's end, by `stop`, or because the subject is gone."""
        self._send_now = send_now
        await self._send(send, self._opening)
        self._opening = b""
        await failpoints.reach("stream.between_snapshot_and_subscribe")
        while self._final is None and not self._over:
            if self._behind:
                await self._read_rows(send)
            elif self._offset < self.channel.log.start:
                await self._fall_behind(send)
            elif (entry := self.channel.log.get(self._offset)) is None:
                await self._wait()
            else:
                self._offset += 1
                if entry.ends is None:
                    await self._send_block(send, entry.block)
                elif entry.ends > self._seen[0]:  # not the end of a round before the one that it resumed from
                    await self._send(send, entry.block.body)
                    self._over = True
        if self._final:
            await self._send(send, self._final)

    async def _fall_behind(self, send: Send) -> None:
        """The log has dropped what comes next: rows bring the items, this the counters."""
        self.times_behind += 1
        self._behind = True
        self._offset = self.channel.log.end
        subject = self.channel.subject
        if subject is not None and not subject.final and (progress := self.channel.progress()):
            await self._send(send, progress)

    async def _read_rows(self, send: Send) -> None:
        """One page of what is missing; back to the log as soon as that reaches to where we stand."""
        try:
            page = await self._next_page(send)
        except Gone:
            self._over = True
            return
        if page is None:
            return
        for block in page.blocks:
            await self._send_block(send, block)
            if self._final is not None:
                return
        if page.complete:
            self._seen = max(self._seen, page.last)
            if page.subject.final:
                await self._send(send, page.end_frame)
                self._over = True
        reached = self.channel.log.offset_after(self._seen)
        if reached is not None:  # not after the noted place: the counters told since then are still wanted
            self._offset = min(self._offset, reached)
            self._behind = False

    async def _next_page(self, send: Send) -> Page | None:
        """The next page of rows; None when the stream is to end. Says that it lives while the database does not
        answer.
        """
        page = self._catch_up.page(self.channel.key, self._seen)
        self._stopped = asyncio.get_running_loop().create_future()
        while self._final is None:
            done, _ = await asyncio.wait(
                (page, self._stopped), timeout=self._heartbeat_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if page in done:
                return page.result()
            if not done:
                await self._send(send, frames.HEARTBEAT)
        page.cancel()
        return None

    async def _send_block(self, send: Send, block: Block) -> None:
        if body := block.after(self._seen):
            await self._send(send, body)
            if block.photos:
                self.channel.on_shown(block.photos)
        self._seen = max(self._seen, block.last)

    async def _send(self, send: Send, body: bytes) -> None:
        self.blocked_since = asyncio.get_running_loop().time()
        await send(body)
        self.blocked_since = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        await self._waiting
