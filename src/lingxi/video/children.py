"""Videos decoded and encoded in children that can be killed: one piece of work a child, so that a crash, a hang or a bomb
costs only the video that caused it. The child dies with its work, at the latest."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lingxi.observability.logging import get_logger
from lingxi.sandbox.host import Child, ChildDiedError, ChildLimits
from lingxi.video import limits
from lingxi.video.errors import VideoError

_ENVIRONMENT: Final = {"MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"}
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_log = get_logger("video.children")
Progress = Callable[[float, float | None], None]


@dataclass(frozen=True, slots=True)
class VideoConfig:
    """`children` at once, of which each has `threads`. A child that says nothing for the stall limit is killed."""

    children: int = 4  # a guard: a queue's concurrency comes first
    threads: int = field(default_factory=lambda: min(8, os.cpu_count() or 1))
    memory_limit_bytes: int = 4 << 30  # of address space, which threads' stacks count to
    output_limit_bytes: int = 4 << 30
    start_limit_seconds: float = 30.0
    stall_limit_seconds: float = 60.0  # of a transcoding, which speaks with every frame
    time_limit_seconds: float = 120.0  # of all else


class VideoChildren:
    """Belongs to one event loop."""

    def __init__(self, config: VideoConfig | None = None) -> None:
        self._config = config or VideoConfig()
        self._turns = asyncio.Semaphore(self._config.children)
        self._living: set[Child] = set()
        self.deaths: Counter[str] = Counter()  # of children, by the code of the video that it cost

    async def probe(self, descriptor: int) -> dict[str, Any]:
        """What is in the file behind `descriptor`; see `video.probe`. VideoError. Cancelling kills the child."""
        return await self._work("probe", {}, [descriptor])

    async def make_poster(self, descriptor: int, folder: Path, **options: Any) -> dict[str, Any]:
        """Write `poster.jpg` and `preview.mp4` into `folder`; facts as `video.poster` gives them. VideoError."""
        with _new_files(folder / "poster.jpg", folder / "preview.mp4") as outputs:
            return await self._work("poster", self._with_threads(options), [descriptor, *outputs], folder)

    async def transcode(
        self, descriptor: int, folder: Path, progress: Progress, **options: Any
    ) -> dict[str, Any]:
        """Write `video.mp4` into `folder`; facts as `video.transcode` gives them. VideoError."""
        with _new_files(folder / "video.mp4") as outputs:
            given = self._with_threads(options)
            return await self._work("transcode", given, [descriptor, *outputs], folder, progress)

    async def close(self) -> None:
        """End all children and wait for them."""
        for child in list(self._living):
            child.kill()
            await asyncio.to_thread(child.process.wait)
        self._living.clear()

    def _with_threads(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "threads": self._config.threads}

    async def _work(
        self,
        what: str,
        options: dict[str, Any],
        descriptors: Sequence[int],
        scratch: Path | None = None,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        limits.check_file_size(os.fstat(descriptors[0]).st_size)
        message = json.dumps({"what": what, "options": options}).encode()
        async with self._turns, self._child(scratch) as child:
            try:
                await self._begin(child, message, descriptors)
                answer = await self._answer(child, progress)
            except ChildDiedError:
                self.deaths["decoder_crashed"] += 1
                raise VideoError("decoder_crashed", f"The decoder died ({child.how_it_ended()}).") from None
            except TimeoutError:
                self.deaths["decode_timeout"] += 1
                raise VideoError("decode_timeout", self._too_slow(progress)) from None
        if "code" in answer:
            raise VideoError(answer["code"], answer["detail"])
        done: dict[str, Any] = answer["done"]
        return done

    async def _begin(self, child: Child, message: bytes, descriptors: Sequence[int]) -> None:
        try:
            async with asyncio.timeout(self._config.start_limit_seconds):
                await child.ready()
                if not await child.take(message, descriptors):
                    raise ChildDiedError
        except TimeoutError:
            raise VideoError("decoder_crashed", "The decoder did not start.") from None

    async def _answer(self, child: Child, progress: Progress | None) -> dict[str, Any]:
        limit = self._config.time_limit_seconds if progress is None else self._config.stall_limit_seconds
        while True:
            async with asyncio.timeout(limit):
                answer = await child.answer()
            if "progress" not in answer:
                return answer
            if progress is not None:
                progress(*answer["progress"])

    def _too_slow(self, progress: Progress | None) -> str:
        if progress is None:
            return f"Decoding took longer than {self._config.time_limit_seconds:g} seconds."
        return f"Decoding stood still for {self._config.stall_limit_seconds:g} seconds."

    @asynccontextmanager
    async def _child(self, scratch: Path | None) -> AsyncIterator[Child]:
        """A new child, killed at the end whatever happens: at once, and before the block is left."""
        limit = ChildLimits(self._config.memory_limit_bytes, self._config.output_limit_bytes)
        environment = _ENVIRONMENT if scratch is None else {**_ENVIRONMENT, "TMPDIR": str(scratch)}
        child = Child("lingxi.video.child", limit, environment)
        self._living.add(child)
        try:
            yield child
        finally:
            child.kill()
            self._living = {one for one in self._living if one.process.poll() is None}


@contextmanager
def _new_files(*paths: Path) -> Iterator[list[int]]:
    """Descriptors of new files, closed at the end; after an exception the files are gone."""
    opened: list[int] = []
    try:
        for path in paths:
            opened.append(os.open(path, _NEW, 0o600))  # noqa: PERF401 - what is open has to be closed
        yield opened
    except BaseException:
        for path in paths[: len(opened)]:
            path.unlink(missing_ok=True)
        raise
    finally:
        for descriptor in opened:
            os.close(descriptor)
