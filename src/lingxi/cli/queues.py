"""`lingxi queue`, beside the database: pause, drain and resume queues."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingxi.cli import running
from lingxi.cli.access import audit, beside_the_database
from lingxi.cli.exits import CommandError, Exit
from lingxi.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.db.session import Connection
    from lingxi.services.queue_holds import Hold, HoldState

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="Its logical name, e.g. media:verify.")]
ReasonOption = Annotated[
    str | None, typer.Option(help="For people, up to 200 characters: shown by `lingxi why` and in health.")
]


def register(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(no_args_is_help=True, help="Pause, drain and resume queues, beside the database.")
    group.command("list")(list_)
    group.command("pause")(pause)
    group.command("drain")(drain)
    group.command("resume")(resume)
    app.add_typer(group, name="queue")


def list_(data_dir: DataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False) -> None:
    """List queues, and which are held."""

    async def run(connection: Connection) -> list[Hold]:
        from lingxi.services.queue_holds import list_holds

        return await list_holds(connection)

    holds = {hold.queue: hold for hold in beside_the_database(data_dir, run)}
    queues = [*running.settings_beside(data_dir).deployed_queues]
    wire = [_to_wire(queue, holds.get(queue)) for queue in queues]
    output = Output(as_json)
    rows = [
        (one["queue"] or "", one["state"] or "", one["since"] or "-", one["reason"] or "") for one in wire
    ]
    output.table(("QUEUE", "STATE", "SINCE", "REASON"), rows)
    output.result({"queues": wire})


def pause(
    queue: QueueArgument,
    reason: ReasonOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Send, take and claim nothing more of a queue, until it is resumed. What runs goes on."""
    _hold(queue, "paused", reason, data_dir, as_json)


def drain(
    queue: QueueArgument,
    reason: ReasonOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Send nothing more of a queue; once what was sent is finished, it is paused."""
    _hold(queue, "draining", reason, data_dir, as_json)


def resume(
    queue: QueueArgument, data_dir: DataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False
) -> None:
    """Let a queue go on."""
    _known(queue, data_dir)

    async def run(connection: Connection) -> bool:
        from lingxi.services.queue_holds import resume_queue

        held = await resume_queue(connection, queue)
        await audit(connection, None, "queue.resume", f"queue:{queue}")
        return held

    held = beside_the_database(data_dir, run)
    output = Output(as_json)
    output.say(f"{queue}: resumed" if held else f"{queue}: it was not held")
    output.result(_to_wire(queue, None))


def _hold(queue: str, state: HoldState, reason: str | None, data_dir: Path, as_json: bool) -> None:
    _known(queue, data_dir)
    if reason is not None and len(reason) > 200:
        raise CommandError("--reason has up to 200 characters", Exit.USAGE)

    async def run(connection: Connection) -> Hold:
        from lingxi.services.queue_holds import hold_queue

        hold = await hold_queue(connection, queue, state, reason)
        verb = "queue.pause" if state == "paused" else "queue.drain"
        await audit(connection, None, verb, f"queue:{queue}")
        return hold

    hold = beside_the_database(data_dir, run)
    output = Output(as_json)
    output.say(f"{queue}: {hold.state}")
    output.result(_to_wire(queue, hold))


def _known(queue: str, data_dir: Path) -> None:
    queues = running.settings_beside(data_dir).deployed_queues
    if queue not in queues:
        raise CommandError(f"There is no queue {queue!r}; there are {', '.join(queues)}", Exit.REFUSED, 40401)


def _to_wire(queue: str, hold: Hold | None) -> dict[str, str | None]:
    held = {"state": "open", "reason": None, "since": None} if hold is None else hold.to_wire()
    return {"queue": queue, **held}
