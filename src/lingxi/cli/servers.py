"""Commands that run Lingxi: up, api, worker, dispatcher, migrate, demo."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingxi.cli import running
from lingxi.cli.exits import CommandError, Exit
from lingxi.cli.options import DEFAULT_DATA_DIR, DEFAULT_URL, DataDirOption, JsonOption
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.cli.interrupts import Interrupts
    from lingxi.settings import Settings

HostOption = Annotated[str | None, typer.Option(help="Address to listen on (LINGXI_HOST).")]
PortOption = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port to listen on (LINGXI_PORT); 0 takes a free one.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands in the order in which the help lists them."""
    app.command("up")(up)
    app.command("demo")(demo)
    app.command("api")(api)
    app.command("worker")(worker)
    app.command("dispatcher")(dispatcher)
    app.command("migrate")(migrate)


def up(
    port: PortOption = None,
    host: HostOption = None,
    processes: Annotated[int, typer.Option(min=1, max=256, help="Worker processes.")] = 2,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Start all of it, on embedded servers unless others are set."""
    from lingxi.cli.interrupts import Interrupted, Interrupts
    from lingxi.settings import load_settings

    settings = load_settings(**_given(lingxi_port=port, lingxi_host=host, lingxi_data_dir=data_dir))
    with Interrupts() as interrupts:
        try:
            asyncio.run(_up(settings, interrupts, processes, Output(as_json)))
        except Interrupted:
            raise CommandError("Interrupted before it was up", Exit.INTERRUPTED) from None


async def _up(settings: Settings, interrupts: Interrupts, processes: int, output: Output) -> None:
    from lingxi.cli.stack import Stack, WorkerPlan

    stack = Stack(
        settings,
        interrupts,
        workers=(WorkerPlan("worker", ("--processes", str(processes))),),
        say=output.say,
    )
    try:
        await stack.start()
        token_file = stack.data_dir / "token"
        output.say()
        output.say(f"Lingxi is up at {stack.url}")
        output.say(f"token  {stack.token}  (kept in {token_file})")
        output.say(f"logs   {stack.data_dir / 'logs'}")
        if stack.url != DEFAULT_URL:
            output.say(f"to let other commands find it: export LINGXI_URL={stack.url}")
        output.say("Ctrl-C ends all of it.")
        output.result(
            {"url": stack.url, "token": stack.token, "tokenFile": str(token_file), "pid": os.getpid()}
        )
        await stack.tend()
        output.say("ending: workers finish what they run (Ctrl-C again: at once)")
    finally:
        await stack.stop()


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="End when the proof is done, instead of serving on.")
    ] = False,
    photos: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Use the photographs in this folder.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the API; 0 takes a free one.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """See it work, a worker killed in it, and the proof."""
    from lingxi.cli.demo import run_demo

    status = run_demo(once=once, photos=photos, port=port, output=Output(as_json))
    raise typer.Exit(status)


def api(port: PortOption = None, host: HostOption = None, data_dir: DataDirOption = DEFAULT_DATA_DIR) -> None:
    """Run the API with its dispatcher until SIGTERM."""
    from lingxi.bootstrap.api import run_api

    settings = running.settings_beside(data_dir, **_given(lingxi_port=port, lingxi_host=host))
    _run(run_api(settings))


def worker(
    queue: Annotated[
        str | None, typer.Option("--queue", help="Groups or queues to serve, comma-separated (QUEUE).")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, max=256, help="How many processes.")] = 1,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Run workers until SIGTERM."""
    from lingxi.bootstrap.worker import run_worker

    settings = running.settings_beside(data_dir, **_given(queue=queue))
    _run(run_worker(settings, processes))


def dispatcher(data_dir: DataDirOption = DEFAULT_DATA_DIR) -> None:
    """Run a dispatcher by itself until SIGTERM. The API has one in it."""
    from lingxi.bootstrap.dispatcher import run_dispatcher

    _run(run_dispatcher(running.settings_beside(data_dir)))


def migrate(data_dir: DataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False) -> None:
    """Bring the database to this version's schema. May run many times at once."""
    from lingxi.db.migrate import NeedsDirectAddress
    from lingxi.db.migrate import migrate as migrate_database

    settings = running.settings_beside(data_dir)
    try:
        before, after = asyncio.run(migrate_database(settings.migration_url))
    except NeedsDirectAddress as error:
        raise CommandError(str(error), Exit.NOT_POSSIBLE_HERE) from None
    output = Output(as_json)
    output.say(f"already at {after}" if before == after else f"migrated from {before or 'empty'} to {after}")
    output.result({"before": before, "after": after})


def _given(**options: Any) -> dict[str, Any]:
    """Options that were given; the others are left to the environment."""
    return {name: value for name, value in options.items() if value is not None}


def _run(service: Coroutine[Any, Any, int]) -> None:
    """Runs a service's coroutine on uvloop until it ends; it handles its signals itself, and says why it refuses."""
    import uvloop

    from lingxi.bootstrap.common import EXIT_REFUSED

    status = uvloop.run(service)
    if status:
        raise typer.Exit(Exit.NOT_POSSIBLE_HERE if status == EXIT_REFUSED else status)
