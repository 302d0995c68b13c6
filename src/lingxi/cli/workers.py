"""`lingxi workers`, beside the database: which worker processes there are; make them quiet, stop them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingxi.cli.access import audit, beside_the_database
from lingxi.cli.exits import usage
from lingxi.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.db.session import Connection
    from lingxi.services.worker_processes import Wanted, WorkerRow

WorkersArgument = Annotated[
    list[str] | None, typer.Argument(metavar="WORKER…", help="Boots or names, as `workers list` shows them.")
]
QueueOption = Annotated[str | None, typer.Option(help="All that serve this queue, e.g. media:verify.")]
AllOption = Annotated[bool, typer.Option("--all", help="All that there are.")]


def register(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(
        no_args_is_help=True, help="See, quiet and stop worker processes, beside the database."
    )
    group.command("list")(list_)
    group.command("quiet")(quiet)
    group.command("stop")(stop)
    group.command("resume")(resume)
    app.add_typer(group, name="workers")


def list_(data_dir: DataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False) -> None:
    """List worker processes: each tells of itself at its heartbeat."""

    async def run(connection: Connection) -> list[WorkerRow]:
        from lingxi.services.worker_processes import list_workers

        return await list_workers(connection)

    _show(Output(as_json), beside_the_database(data_dir, run))


def quiet(
    workers: WorkersArgument = None,
    queue: QueueOption = None,
    every: AllOption = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Take nothing new, and finish what runs; the processes stay."""
    _ask(workers, queue, every, "quiet", data_dir, as_json)


def stop(
    workers: WorkersArgument = None,
    queue: QueueOption = None,
    every: AllOption = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Stop processes in order, as SIGTERM does; no other is started in their place."""
    _ask(workers, queue, every, "stop", data_dir, as_json)


def resume(
    workers: WorkersArgument = None,
    queue: QueueOption = None,
    every: AllOption = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Let quiet processes work again."""
    _ask(workers, queue, every, None, data_dir, as_json)


def _ask(
    workers: list[str] | None,
    queue: str | None,
    every: bool,
    wanted: Wanted | None,
    data_dir: Path,
    as_json: bool,
) -> None:
    """All in one transaction, each with its audit row."""
    if bool(workers) + (queue is not None) + every != 1:
        raise usage("Name workers, or give --queue or --all")

    async def run(connection: Connection) -> list[WorkerRow]:
        from lingxi.services.worker_processes import ask_worker, list_workers

        names = workers or [
            one.boot
            for one in await list_workers(connection)
            if one.state != "stopping" and (every or queue in one.queues)
        ]
        asked = [await ask_worker(connection, name, wanted) for name in names]
        for one in asked:
            await audit(connection, None, f"worker.{wanted or 'resume'}", f"worker:{one.name}")
        return asked

    _show(Output(as_json), beside_the_database(data_dir, run))


def _show(output: Output, workers: list[WorkerRow]) -> None:
    wire = [worker.to_wire() for worker in workers]
    rows = [
        (
            one["boot"], f"{one['host']}:{one['pid']}", one["state"], one["wanted"], str(one["running"]),
            f"{one['ageSeconds']:.0f} s ago", one["version"], ",".join(one["queues"]),
        )
        for one in wire
    ]  # fmt: skip
    output.table(("BOOT", "PROCESS", "STATE", "WANTED", "RUNNING", "SEEN", "VERSION", "QUEUES"), rows)
    output.result({"workers": wire})
