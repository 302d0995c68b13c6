"""Commands over HTTP: submit, watch, list, show, cancel, priority."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from lingxi.cli.exits import Exit, usage
from lingxi.cli.options import (
    DEFAULT_DATA_DIR,
    DEFAULT_URL,
    DataDirOption,
    JsonOption,
    TaskArgument,
    TokenOption,
    UrlOption,
)
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.client import Client, Task

T = TypeVar("T")
LONGEST_GOODBYE_SECONDS = 2.0  # for connections to be closed after Ctrl-C

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Then follow the task to its end.")]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", help="The Idempotency-Key: the same key and body again make no second task."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands in the order in which the help lists them."""
    app.command("submit")(submit)
    app.command("watch")(watch)
    app.command("list")(list_tasks)
    app.command("show")(show)
    app.command("cancel")(cancel)
    app.command("priority")(priority)


def submit(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE…", help="A task as JSON (`-` for stdin); with --type, the files to work on."
        ),
    ] = None,
    type_: Annotated[
        str | None,
        typer.Option(
            "--type", "-t", help="Upload the files and submit one item for each, e.g. media:verify."
        ),
    ] = None,
    priority: Annotated[str | None, typer.Option(help="live, normal or bulk.")] = None,
    metadata: Annotated[str | None, typer.Option(help="A JSON object to keep with the task.")] = None,
    key: KeyOption = None,
    follow: WatchOption = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Submit a task, from JSON or of files to upload.

    `lingxi submit task.json` (or `-`) sends a task as it stands; `lingxi submit --type media:verify FILES…` uploads the
    files and makes an item for each."""
    from lingxi.cli import submission

    if not files:
        raise usage("Name a JSON file (or - for stdin), or give --type and the files to work on")
    output = Output(as_json)
    extras = submission.extras(priority, metadata)
    body = submission.read_body(files) if type_ is None else None

    async def run(client: Client) -> None:
        if body is not None:
            made = await client.submit_body({**body, **extras}, idempotency_key=key)
        else:
            items = await submission.upload(client, type_ or "", files, output)
            made = await client.submit_body({"type": type_, "items": items, **extras}, idempotency_key=key)
        if follow:
            output.say(f"task {made.id}: {made.counts.total} items of {made.type}")
            await follow_task(client, made.id, output, None)
        else:
            tell(made, output)

    with_client(url, token, data_dir, run)


def watch(
    task: TaskArgument,
    last_event_id: Annotated[
        str | None, typer.Option("--last-event-id", help="Go on after this id; 0 replays every item.")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=0, help="Give up after so many seconds without a server.")
    ] = 60.0,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Follow a task to its end. Exits 0 only if it succeeded. With --json each frame is a line, the task the last."""
    output = Output(as_json)
    with_client(
        url, token, data_dir, lambda client: follow_task(client, task, output, last_event_id, patience)
    )


def list_tasks(
    status: Annotated[str | None, typer.Option(help="Only tasks of this status.")] = None,
    type_: Annotated[str | None, typer.Option("--type", "-t", help="Only tasks of this type.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="Go on from an earlier page's nextCursor.")] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """List tasks, newest first."""
    output = Output(as_json)
    filters = {name: value for name, value in (("status", status), ("type", type_)) if value is not None}

    async def run(client: Client) -> None:
        from lingxi.cli.progress import counts_in_words
        from lingxi.client import Task

        page = await client.list(limit=limit, cursor=cursor, **filters)
        tasks = [Task.from_wire(row) for row in page.rows]
        rows = [(t.id, t.type, t.status, counts_in_words(t.counts), t.created_at[:19]) for t in tasks]
        if rows:
            output.table(("TASK", "TYPE", "STATUS", "ITEMS", "CREATED (UTC)"), rows)
        else:
            output.say("No tasks.")
        if page.next_cursor:
            output.say(f"More: --cursor {page.next_cursor}")
        output.result({"tasks": page.rows, "nextCursor": page.next_cursor})

    with_client(url, token, data_dir, run)


def show(
    task: TaskArgument,
    state: Annotated[str | None, typer.Option(help="Only items in this state, e.g. failed.")] = None,
    items: Annotated[bool, typer.Option("--items/--no-items", help="List the items.")] = True,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Show a task, its items, and why they failed."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        found = await client.get(task, eta=True)
        rows = [item async for item in client.items(task, state=state)] if items else []
        _say_task(found, output)
        if (eta := found.raw.get("eta")) is not None:
            low, high = span_in_words(eta["lowSeconds"]), span_in_words(eta["highSeconds"])
            output.say(f"  about {span_in_words(eta['seconds'])} to go ({low} to {high})")
        if rows:
            output.say()
            table = [
                (
                    str(item.index),
                    item.ref or "",
                    item.state,
                    str(item.attempt),
                    f"{item.error.code}: {item.error.message}" if item.error else "",
                )
                for item in rows
            ]
            output.table(("INDEX", "REF", "STATE", "ATTEMPT", "ERROR"), table)
        output.result({"task": found.raw, "items": [item.raw for item in rows]})

    with_client(url, token, data_dir, run)


def cancel(
    task: TaskArgument,
    key: KeyOption = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Cancel what has not started. What runs finishes."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        tell(await client.cancel(task, idempotency_key=key), output)

    with_client(url, token, data_dir, run)


def priority(
    task: TaskArgument,
    new: Annotated[str, typer.Argument(metavar="PRIORITY", help="live, normal or bulk.")],
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Change a task's priority while it waits."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        tell(await client.set_priority(task, new), output)

    with_client(url, token, data_dir, run)


# ── shared ───────────────────────────────────────────────────────────────────────────────────────────────
def with_client(
    url: str, token: str | None, data_dir: Path, run: Callable[[Client], Awaitable[None]]
) -> None:
    from lingxi.cli.connection import connect

    async def main() -> None:
        async with connect(url, token, data_dir) as client:
            await run(client)

    asyncio.run(_until_interrupted(main()))


async def _until_interrupted(work: Coroutine[Any, Any, None]) -> None:
    """Ctrl-C ends it, also where a library below takes the cancellation for one of its own and goes on."""
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    task, waiting = asyncio.ensure_future(work), asyncio.ensure_future(interrupted.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if interrupted.is_set() and not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=LONGEST_GOODBYE_SECONDS)
        raise KeyboardInterrupt
    waiting.cancel()
    task.result()


async def follow_task(
    client: Client, task_id: str, output: Output, last_event_id: str | None, patience_seconds: float = 60.0
) -> None:
    """Shows the task to its end. Exit code 1 unless it succeeded."""
    conclude(await watch_to_end(client, task_id, output, last_event_id, patience_seconds), output)


async def watch_to_end(
    client: Client, task_id: str, output: Output, last_event_id: str | None, patience_seconds: float = 60.0
) -> Task:
    """Shows the task as it goes on; the task as it ended."""
    from lingxi.cli.progress import ProgressView, counts_in_words

    with ProgressView(output) as view:
        async for frame in client.watch(
            task_id, last_event_id=last_event_id, patience_seconds=patience_seconds
        ):
            view.show(frame)
    task = view.state.task
    assert task is not None, "a watch ends with an end frame"
    if output.live:
        output.say(f"{task.status}: {counts_in_words(task.counts)}")
    return task


def conclude(task: Task, output: Output) -> None:
    """The result of a watch. Exit code 1 unless the task succeeded."""
    output.result(task.raw)
    if task.status != "succeeded":
        raise typer.Exit(Exit.NOT_SUCCEEDED)


def tell(task: Task, output: Output) -> None:
    """The task in a line, and as the result."""
    _say_task(task, output)
    output.result(task.raw)


def span_in_words(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def _say_task(task: Task, output: Output) -> None:
    from lingxi.cli.progress import counts_in_words

    output.say(f"task {task.id}")
    output.say(f"  {task.type}, round {task.round}, {task.status}: {counts_in_words(task.counts)}")
