"""Decoding in children that can be killed: one picture a child at a time, so that a crash, a hang or a bomb costs
only the picture that caused it.

The children are plain processes of our own program (no fork of a process that has threads), each with a socket to
us: the open file goes over it as a descriptor. They know no secrets: their environment is made here. A pool of
multiprocessing workers was tried instead (pebble 5.2): there an idle child's death breaks the whole pool, and a time
limit within C code is answered three seconds late.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lingxi.imaging import limits
from lingxi.imaging.admission import Admission
from lingxi.imaging.child import DESCRIBE, INSPECT, LOOK, VARIANT_KINDS, VARIANTS
from lingxi.imaging.child_process import Decoder
from lingxi.imaging.errors import ImageError
from lingxi.imaging.facts import ImageFacts, Looks, MadePhoto, MadeVariant
from lingxi.observability.logging import get_logger
from lingxi.sandbox.host import ChildDiedError

VARIANT_TYPE = "image/jpeg"

_log = get_logger("imaging.children")


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """`children`: pictures at once, and processes at most (they start when needed). Limits are for one picture."""

    children: int = 2
    time_limit_seconds: float = 30.0
    decoded_bytes_at_once: int = 512 << 20  # by the headers: one photo of 100 million pixels, and not two
    memory_limit_bytes: int = 2 << 30  # of address space; a 12-bit AVIF of 100 million pixels takes 1.9
    start_limit_seconds: float = 30.0
    recycle_after_pictures: int = 1000
    recycle_above_bytes: int = 400 << 20  # resident after a picture


class Decoders:
    """The children. Belongs to one event loop."""

    def __init__(self, config: DecoderConfig) -> None:
        self._config = config
        self._turns = asyncio.Semaphore(config.children)
        self._admission = Admission(config.decoded_bytes_at_once)
        self._share_bytes = config.decoded_bytes_at_once // config.children
        self.deaths: Counter[str] = Counter()  # of children, by the code of the picture that it cost
        self._idle: list[Decoder] = []
        self._ended: list[Decoder] = []  # killed and not reaped yet
        self._closed = False

    @property
    def waiting_for_memory(self) -> int:
        """How many pictures are held back, by a child that has read their header, until others are decoded."""
        return self._admission.waiting

    async def inspect(self, descriptor: int) -> ImageFacts:
        """Decode the whole file behind `descriptor` and say what it is.

        ImageError: `decode_timeout` and `decoder_crashed` when a child had to be killed or died, else why the picture
        is refused. Cancelling kills the child. The descriptor stays the caller's; its position is not kept.
        """
        answer = await self._decode(INSPECT, [descriptor])
        return ImageFacts(**answer["facts"])

    async def describe(self, descriptor: int) -> dict[str, Any]:
        """What the header and the metadata of the file behind `descriptor` say; see `imaging.describe`. No pixel is decoded.

        ImageError as `inspect`.
        """
        described: dict[str, Any] = (await self._decode(DESCRIBE, [descriptor]))["described"]
        return described

    async def look(self, descriptor: int) -> Looks:
        """Hashes of the picture behind `descriptor`, how sharp it is, and what took it when. ImageError as `inspect`."""
        looks = (await self._decode(LOOK, [descriptor]))["looks"]
        local = looks["captured_local"]
        return Looks(
            width=looks["width"],
            height=looks["height"],
            perceptual_hash=_from_hex(looks["perceptual_hash"]),
            difference_hash=_from_hex(looks["difference_hash"]),
            thumb_hash=bytes.fromhex(looks["thumb_hash"]),
            sharpness=looks["sharpness"],
            camera=looks["camera"],
            captured_local=datetime.fromisoformat(local) if local else None,
        )

    async def make_variants(self, descriptor: int, out_folder: Path) -> MadePhoto:
        """Write the variants of the photo behind `descriptor` into `out_folder`, as `browse.jpg` and `thumb.jpg`.

        ImageError as `inspect`, FileExistsError when there are such files; the folder then holds none of ours. Not
        synchronised to disk: the folder is for scratch files. Cancelling kills the child.
        """
        started_at = time.monotonic()
        paths = {kind: out_folder / f"{kind}.jpg" for kind in VARIANT_KINDS}
        with _new_files(list(paths.values())) as outputs:
            made = (await self._decode(VARIANTS, [descriptor, *outputs]))["made"]
        taken = made["captured_at"]
        return MadePhoto(
            content_type=made["content_type"],
            width=made["width"],
            height=made["height"],
            captured_at=datetime.fromisoformat(taken) if taken else None,
            variants=tuple(_variant(paths, encoded) for encoded in made["variants"]),
            decoded_ms=(made["decoded_at"] - started_at) * 1000,
            encoded_ms=(made["encoded_at"] - started_at) * 1000,
        )

    async def close(self) -> None:
        """End all children and wait for them."""
        self._closed = True
        while self._idle:
            self._end(self._idle.pop(), "closed")
        for child in self._ended:
            await asyncio.to_thread(child.process.wait)
        self._ended.clear()

    async def _decode(self, what: bytes, descriptors: Sequence[int]) -> dict[str, Any]:
        """The answer of a child. ImageError."""
        limits.check_file_size(os.fstat(descriptors[0]).st_size)
        async with self._turns:
            answer = None
            while answer is None:
                answer = await self._ask(await self._take(), what, descriptors)
        if "code" in answer:
            raise ImageError(answer["code"], answer["detail"])
        return answer

    async def _ask(self, child: Decoder, what: bytes, descriptors: Sequence[int]) -> dict[str, Any] | None:
        """The answer; None when the child had died before it took the picture, which then is not to blame.

        It may decode its share at once, which most photos need no more than; for a larger one it asks.
        """
        granted_bytes = self._admission.take_now(self._share_bytes)
        try:
            async with asyncio.timeout(self._config.time_limit_seconds) as timer:
                if not await child.take(b"%s %d" % (what, granted_bytes), descriptors):
                    self._end(child, "died_idle")
                    return None
                answer = await child.answer()
                if "neededBytes" in answer:
                    self._admission.give_back(granted_bytes)
                    granted_bytes = 0
                    answer = await self._proceed(child, answer["neededBytes"], timer)
        except TimeoutError:
            self._end(child, "time_limit", "decode_timeout")
            limit = f"{self._config.time_limit_seconds:g} seconds"
            raise ImageError("decode_timeout", f"Decoding took longer than {limit}.") from None
        except ChildDiedError:
            how = child.how_it_ended()
            self._end(child, "died", "decoder_crashed")
            raise ImageError("decoder_crashed", f"The decoder died ({how}).") from None
        except BaseException:
            self._end(child, "cancelled")
            raise
        finally:
            self._admission.give_back(granted_bytes)
        self._give_back(child, answer)
        return answer

    async def _proceed(self, child: Decoder, needed_bytes: int, timer: asyncio.Timeout) -> dict[str, Any]:
        """Let it decode when there is room. The time limit stands still meanwhile."""
        now = asyncio.get_running_loop().time
        left_seconds = (timer.when() or now()) - now()
        timer.reschedule(None)
        async with self._admission.hold(needed_bytes):
            timer.reschedule(now() + left_seconds)
            return await child.proceed()

    async def _take(self) -> Decoder:
        while self._idle:
            child = self._idle.pop()
            if child.process.poll() is None:
                return child
            self._end(child, "died_idle")
        child = Decoder(self._config.memory_limit_bytes)
        try:
            async with asyncio.timeout(self._config.start_limit_seconds):
                await child.ready()
        except (TimeoutError, ChildDiedError):
            self._end(child, "did_not_start")
            raise ImageError("decoder_crashed", "The decoder did not start.") from None
        except BaseException:
            self._end(child, "cancelled")
            raise
        return child

    def _give_back(self, child: Decoder, answer: dict[str, Any]) -> None:
        child.pictures += 1
        if answer.get("code") == "decoder_crashed":  # it lives, and nobody knows in what state
            self._end(child, "failed", "decoder_crashed")
        elif (
            self._closed
            or child.pictures >= self._config.recycle_after_pictures
            or answer["rssBytes"] > self._config.recycle_above_bytes
        ):
            self._end(child, "recycled")
        else:
            self._idle.append(child)

    def _end(self, child: Decoder, reason: str, code: str | None = None) -> None:
        child.kill()
        if code is not None:
            self.deaths[code] += 1
        self._ended = [ended for ended in [*self._ended, child] if ended.process.poll() is None]
        log = _log.debug if reason in ("closed", "recycled", "cancelled") else _log.warning
        log("decoder_ended", reason=reason, pid=child.process.pid, pictures=child.pictures)


@contextmanager
def _new_files(paths: Sequence[Path]) -> Iterator[list[int]]:
    """Descriptors of new files, closed at the end; after an exception the files are gone."""
    opened: list[int] = []
    made: list[Path] = []
    try:
        for path in paths:
            opened.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            made.append(path)
        yield opened
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        raise
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _from_hex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _variant(paths: dict[str, Path], encoded: dict[str, Any]) -> MadeVariant:
    return MadeVariant(
        kind=encoded["kind"],
        path=paths[encoded["kind"]],
        width=encoded["width"],
        height=encoded["height"],
        size_bytes=encoded["size_bytes"],
        sha256=bytes.fromhex(encoded["sha256"]),
        content_type=VARIANT_TYPE,
    )
