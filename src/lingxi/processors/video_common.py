"""What the processors of videos share: an object as a file, work that ends when the attempt is to stop, and codes."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, Field

from lingxi.domain.errors import ITEM_CODES, ItemError, Permanent, Transient
from lingxi.domain.object_names import normalise_object_name
from lingxi.processors.context import Context, FetchedObject, StopReason
from lingxi.processors.contract import ProcessorResult
from lingxi.services.get_object import StoredObject
from lingxi.video.errors import VideoError

ObjectName = Annotated[str, AfterValidator(normalise_object_name)]
_LOOK_SECONDS: Final = 0.1
T = TypeVar("T")


class MadeObject(ProcessorResult):
    """An object that was made."""

    object_name: str = Field(alias="object", description="Its name in the workspace.")
    content_type: str
    size_bytes: int
    sha256: str
    width: int = Field(description="In pixels.")
    height: int = Field(description="In pixels.")


def made_object(stored: StoredObject, width: int, height: int) -> MadeObject:
    """As results show it."""
    return MadeObject(
        object=stored.name,
        content_type=stored.content_type,
        size_bytes=stored.size_bytes,
        sha256=stored.sha256.hex(),
        width=width,
        height=height,
    )


async def with_object(
    context: Context, name: str, work: Callable[[int, Path], Coroutine[Any, Any, T]]
) -> tuple[FetchedObject, T]:
    """The object, and the answer of `work(descriptor, scratch folder)` on it, which ends within a second when the attempt is
    to stop.

    Permanent or Transient with a code of ITEM_CODES; Stopped.
    """
    fetched = await unless_stopped(context, context.fetch_object(name))
    try:
        with open(fetched.path, "rb") as source:  # noqa: ASYNC230 - nothing is read here
            answer = await unless_stopped(context, work(source.fileno(), context.scratch()))
    except VideoError as error:
        raise item_error(error.code, error.detail) from error
    return fetched, answer


async def unless_stopped(context: Context, work: Coroutine[Any, Any, T]) -> T:
    """The work's answer; Stopped, and the work is cancelled, when the attempt is to stop. A near deadline is only a notice."""
    doing = asyncio.ensure_future(work)
    try:
        await _until_done_or_stopped(context, doing)
        if not doing.done():
            context.stop_if_asked()
        return await doing
    finally:
        if not doing.done():
            doing.cancel()
            await asyncio.wait([doing])


async def _until_done_or_stopped(context: Context, doing: "asyncio.Future[T]") -> None:
    while not doing.done() and context.stop_reason in (None, StopReason.DEADLINE_NEAR):
        await asyncio.wait([doing], timeout=_LOOK_SECONDS)


def item_error(code: str, detail: str) -> ItemError:
    """Permanent or Transient, as the table of codes says."""
    return Transient(code, detail) if ITEM_CODES[code].retryable else Permanent(code, detail)
