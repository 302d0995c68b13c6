"""Showing how far `lingxi publish` is: a live bar on a terminal, a line a second elsewhere, each failure at once."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lingxi.cli.output import Output
from lingxi.cli.publishing import Became, Outcome

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PLAIN_LINE_SECONDS = 1.0
_TROUBLES = (Became.REFUSED, Became.FAILED)


class PublishView:
    """Told of every change of every outcome. Use as a context manager, so that the terminal is left as it was found."""

    def __init__(self, output: Output, outcomes: list[Outcome], *, tell_each: bool) -> None:
        """`tell_each`: a line for each photo as it is published, as a long watch wants it."""
        self._output = output
        self._outcomes = outcomes
        self._tell_each = tell_each
        self._told: set[int] = set()
        self._bar: Progress | None = None
        self._bar_task: TaskID | None = None
        self._last_line = ""
        self._last_line_at = 0.0

    def __enter__(self) -> Self:
        if self._output.live:
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

            self._bar = Progress(
                BarColumn(bar_width=20),
                DownloadColumn(),
                TransferSpeedColumn(),
                TextColumn("{task.description}"),
                console=self._output.console,
                transient=True,
            )
            self._bar_task = self._bar.add_task("", total=0)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def changed(self, outcome: Outcome) -> None:
        """Shows what is new about a file."""
        if outcome.became.is_final and id(outcome) not in self._told:
            self._told.add(id(outcome))
            self._output.line(outcome.to_wire())
            if outcome.became in _TROUBLES:
                self._output.say(f"{outcome.path.name}: {outcome.sentence} ({outcome.code})", style="red")
            elif self._tell_each and outcome.became is Became.PUBLISHED:
                self._output.say(f"{outcome.path.name}: published", style="green")
        if self._bar is not None and self._bar_task is not None:
            total = sum(one.size_bytes for one in self._outcomes)
            sent = sum(one.size_bytes if one.became.is_final else one.sent_bytes for one in self._outcomes)
            self._bar.update(self._bar_task, total=total, completed=sent, description=self.in_words())
        elif not self._tell_each:
            self._say_now_and_then()

    def _say_now_and_then(self) -> None:
        text = self.in_words()
        if text != self._last_line and time.monotonic() - self._last_line_at >= PLAIN_LINE_SECONDS:
            self._last_line, self._last_line_at = text, time.monotonic()
            self._output.say(text)

    def in_words(self) -> str:
        """`12 of 40 done: 9 published, 3 there already`; what is zero is left out."""
        count = Counter(one.became for one in self._outcomes)
        words = {
            Became.PUBLISHED: "published",
            Became.THERE: "there already",
            Became.SENT: "being processed",
            Became.REFUSED: "refused",
            Became.FAILED: "failed",
            Became.SKIPPED: "left out",
        }
        parts = [f"{count[became]} {word}" for became, word in words.items() if count[became]]
        final = sum(number for became, number in count.items() if became.is_final)
        return f"{final} of {len(self._outcomes)} done" + (f": {', '.join(parts)}" if parts else "")
