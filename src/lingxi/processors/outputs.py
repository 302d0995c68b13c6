"""Files that an attempt made, as objects of its item's workspace: all of them and the item's result in one commit."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from lingxi.domain.errors import Conflict, LingxiError, Permanent, Transient
from lingxi.domain.object_names import normalise_object_name
from lingxi.observability import failpoints
from lingxi.processors.context import Context
from lingxi.processors.objects import chunks_of
from lingxi.processors.results import Result
from lingxi.services.get_object import StoredObject
from lingxi.services.put_object import put_object, receive_object
from lingxi.storage import StorageUnavailable


@dataclass(frozen=True, slots=True)
class Output:
    """A file, the name that it gets, and what it is."""

    name: str
    path: Path
    content_type: str


async def succeed_with(
    context: Context, outputs: Sequence[Output], result: Callable[[dict[str, StoredObject]], Result]
) -> None:
    """Store the files, then name them and end the item with `result(objects by name)`, behind the fence: all or nothing.

    A name that has the same bytes already keeps its object. Permanent `object_exists` when it has others, Transient
    `storage_unavailable`; whatever fails, no bytes stay behind, unless the process dies: those are orphans then.
    """
    workspace = context.item.workspace_id
    try:
        async with AsyncExitStack() as stack:
            received = []
            for output in outputs:
                size = output.path.stat().st_size
                one = await stack.enter_async_context(
                    receive_object(context.storage, chunks_of(output.path), max_bytes=size)
                )
                one.content_type = output.content_type
                received.append(one)
            await failpoints.reach("outputs.after_store")
            async with context.transaction() as connection:
                objects = {}
                for output, one in sorted(zip(outputs, received, strict=True), key=lambda pair: pair[0].name):
                    # in the order of their names: two items that make the same ones wait, and do not deadlock
                    put = await put_object(connection, workspace, output.name, one)
                    objects[output.name] = put.object
                context.succeed(result(objects))
    except Conflict as error:
        raise Permanent("object_exists") from error
    except (StorageUnavailable, LingxiError) as error:  # what `receive_object` makes of a storage that failed
        raise Transient("storage_unavailable") from error


def derived_name(name: str, ending: str) -> str:
    """The object's own name with an ending, for an output that got none; ValueError when that is too long."""
    try:
        return normalise_object_name(name + ending)
    except ValueError:
        raise ValueError(f"the object's name with {ending!r} is too long: give the result a name") from None
