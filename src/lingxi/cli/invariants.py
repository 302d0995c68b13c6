"""`lingxi invariants`: what must hold in every committed state, looked up in a database that may be at work."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from lingxi.cli import running
from lingxi.cli.exits import CommandError, Exit
from lingxi.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.services.check_invariants import Violation

SHOWN = 50

TaskOption = Annotated[
    str | None,
    typer.Option("--task", metavar="TASK", help="Look at this task alone.", show_default=False),
]


def register(app: typer.Typer) -> None:
    app.command("invariants")(invariants)


def invariants(
    task: TaskOption = None, data_dir: DataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False
) -> None:
    """Look for rows that break what must always hold. Changes nothing; exits 1 and names the rows if there are any."""
    output = Output(as_json)
    found = asyncio.run(_look(running.settings_beside(data_dir).database_url, _task_id(task), output))
    output.result(found)
    if not found["ok"]:
        raise typer.Exit(Exit.NOT_SUCCEEDED)


def _task_id(text: str | None) -> UUID | None:
    try:
        return None if text is None else UUID(text)
    except ValueError:
        raise CommandError(f"{text!r} is no task id", Exit.USAGE) from None


async def _look(database_url: str, task_id: UUID | None, output: Output) -> dict[str, Any]:
    from lingxi.db.session import connect
    from lingxi.services.check_invariants import Looked, check_invariants, check_task

    looked = Looked()
    counts = Counter[str]()
    shown: list[Violation] = []
    connection = await connect(database_url, name="lingxi-invariants")
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            checking = check_task(connection, task_id) if task_id else check_invariants(connection, looked)
            async for violation in checking:
                counts[violation.invariant] += 1
                if len(shown) < SHOWN:
                    shown.append(violation)
                    output.say(f"BROKEN  {violation.invariant}: {violation.subject}: {violation.detail}")
    finally:
        await connection.close()
    if task_id is None:
        output.say(f"Looked at {looked.tasks} tasks, {looked.items} items, {looked.albums} albums.")
    total = counts.total()
    output.say("Everything holds." if not total else f"{total} rows break what must hold.")
    return {
        "ok": not total,
        "violations": dict(counts),
        "rows": [{"invariant": v.invariant, "subject": v.subject, "detail": v.detail} for v in shown],
        "tasks": looked.tasks if task_id is None else 1,
        "items": looked.items,
        "albums": looked.albums,
    }
