"""`lingxi dead-letters`, beside the database: events that were given up on, sent again or discarded."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingxi.cli.access import audit, beside_the_database, named_workspace
from lingxi.cli.answers import YesOption, make_sure
from lingxi.cli.exits import CommandError, Exit, usage
from lingxi.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.db.session import Connection
    from lingxi.services.dead_letters import DeadLetter, Event

_MOST = 10_000
IdsArgument = Annotated[
    list[int] | None, typer.Argument(metavar="ID…", help="As `dead-letters list` shows them.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All that there are.")]


def register(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(no_args_is_help=True, help="Events that were given up on, beside the database.")
    group.command("list")(list_)
    group.command("show")(show)
    group.command("redrive")(redrive)
    group.command("discard")(discard)
    app.add_typer(group, name="dead-letters")


def list_(
    workspace: Annotated[str | None, typer.Option(help="Only this workspace's, by name or id.")] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """List dead letters, oldest first."""

    async def run(connection: Connection) -> list[DeadLetter]:
        from lingxi.services.dead_letters import list_dead_letters

        owner = None if workspace is None else (await named_workspace(connection, workspace)).id
        return await list_dead_letters(connection, owner, limit=_MOST)

    found = beside_the_database(data_dir, run)
    output = Output(as_json)
    rows = [
        (
            str(one.id), one.type, one.queue or "-", str(one.task_id or "-"), str(one.item_count),
            one.created_at.isoformat(timespec="seconds"), one.error_detail or "",
        )
        for one in found
    ]  # fmt: skip
    output.table(("ID", "TYPE", "QUEUE", "TASK", "ITEMS", "SINCE", "ERROR"), rows)
    output.result({"deadLetters": [one.to_wire() for one in found]})


def show(
    letter: Annotated[int, typer.Argument(metavar="ID", help="As `dead-letters list` shows it.")],
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Show a dead letter with its payload."""

    async def run(connection: Connection) -> DeadLetter:
        from lingxi.services.dead_letters import get_dead_letter

        found = await get_dead_letter(connection, None, letter)
        if found is None:
            raise _missing(letter)
        return found

    found = beside_the_database(data_dir, run)
    output = Output(as_json)
    for name, value in found.to_wire().items():
        output.say(f"{name}: {json.dumps(value, ensure_ascii=False) if name == 'payload' else value}")
    output.result(found.to_wire())


def redrive(
    letters: IdsArgument = None,
    every: AllOption = False,
    payload: Annotated[
        str | None, typer.Option(help="With one ID: the payload that it is sent with, as JSON.")
    ] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Send dead letters again, as if they had never been tried."""
    if payload is not None and (every or len(letters or ()) != 1):
        raise usage("--payload is for one ID")
    mended = None if payload is None else _object(payload)

    async def step(connection: Connection, event: Event) -> None:
        from lingxi.services.dead_letters import redrive

        await redrive(connection, event, mended)

    _handle(letters, every, "redrive", "sent again", step, data_dir, Output(as_json))


def discard(
    letters: IdsArgument = None,
    every: AllOption = False,
    yes: YesOption = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Give dead letters up for good: items that wait for them end as failed, with dispatch_failed."""
    which = "all dead letters" if every else f"{len(letters or ())} dead letter(s)"
    make_sure(yes, f"Discard {which}? What they should have sent is never sent.")

    async def step(connection: Connection, event: Event) -> None:
        from lingxi.services.dead_letters import discard

        await discard(connection, event)

    _handle(letters, every, "discard", "discarded", step, data_dir, Output(as_json))


def _handle(
    letters: list[int] | None,
    every: bool,
    verb: str,
    said: str,
    step: Callable[[Connection, Event], Awaitable[None]],
    data_dir: Any,
    output: Output,
) -> None:
    """Each in a transaction of its own with its audit row."""
    if bool(letters) == every:
        raise usage("Name dead letters by their ids, or give --all")

    async def ids(connection: Connection) -> list[int]:
        from lingxi.services.dead_letters import list_dead_letters

        return [one.id for one in await list_dead_letters(connection, None, limit=_MOST)]

    done: list[int] = []
    for letter in letters or beside_the_database(data_dir, ids):

        async def one(connection: Connection, letter: int = letter) -> None:
            from lingxi.services.dead_letters import find_event

            event = await find_event(connection, None, letter)
            await step(connection, event)
            await audit(connection, event.workspace_id, f"dead_letter.{verb}", f"event:{letter}")

        beside_the_database(data_dir, one)
        done.append(letter)
        output.say(f"{letter} {said}")
    output.result({"ids": done, "outcome": said})


def _missing(letter: int) -> CommandError:
    return CommandError(f"There is no dead letter {letter}", Exit.REFUSED, 40401)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise usage(f"--payload is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise usage("--payload is a JSON object")
    return value
