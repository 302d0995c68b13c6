"""Commands beside storage and database: what may be registered, what is collected, whether the database is the right one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from lingxi.cli import running
from lingxi.cli.access import beside_the_database
from lingxi.cli.exits import CommandError, Exit, usage
from lingxi.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.db.session import Connection, Pool
    from lingxi.settings import Settings
    from lingxi.storage import Storage

T = TypeVar("T")
WorkspaceArgument = Annotated[str, typer.Argument(help="The workspace, by name or id.")]
PrefixArgument = Annotated[str, typer.Argument(help="A folder as the bucket names it, with '/' at its end.")]


def register(app: typer.Typer) -> None:
    """Adds the group `storage`."""
    storage = typer.Typer(
        no_args_is_help=True,
        help="Collect trash and orphans; let workspaces register media, beside the database.",
    )
    storage.command("collect")(collect)
    storage.command("accept-database")(accept_database)
    storage.command("allow")(allow)
    storage.command("forbid")(forbid)
    storage.command("allowed")(allowed)
    app.add_typer(storage, name="storage")


def collect(data_dir: DataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False) -> None:
    """One round of what workers do by themselves: empty the trash, look for orphans. Says what it did."""

    async def run(settings: Settings, pool: Pool, storage: Storage) -> dict[str, int]:
        from lingxi.bootstrap.common import collector_config
        from lingxi.maintenance.object_collector import ObjectCollector

        collector = ObjectCollector(pool, storage, collector_config(settings))
        return asdict(await collector.run_once(scan=True))

    done = _beside_the_storage(data_dir, run)
    output = Output(as_json)
    for name, number in done.items():
        output.say(f"{number:8}  {name.replace('_', ' ')}")
    if done["reported"]:
        output.say(
            "The orphans were left alone: this storage was last used by another database, or by a later state of"
        )
        output.say("this one. Once you are sure of the database: lingxi storage accept-database")
    output.result(done)


def accept_database(
    yes: Annotated[bool, typer.Option("--yes", help="You are sure.")] = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """After a restore: this database knows all that it needs, and its orphans may be collected again."""
    if not yes:
        raise usage(
            "What this database does not know will be removed, 7 days after it was stored and 7 days in the trash later."
            " If that is right, say --yes"
        )

    async def run(settings: Settings, pool: Pool, storage: Storage) -> int:
        from lingxi.maintenance.storage_marks import StorageMarks

        return await StorageMarks(pool, storage).accept()

    replaced = _beside_the_storage(data_dir, run)
    output = Output(as_json)
    output.say("This storage is this database's from now on.")
    output.result({"replacedMarks": replaced})


def allow(
    workspace: WorkspaceArgument,
    prefix: PrefixArgument,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Let a workspace register media that lie below a prefix of the bucket."""
    from lingxi.services.object_prefixes import allow_prefix, checked_prefix

    try:
        checked_prefix(prefix)
    except ValueError as error:
        raise usage(f"{prefix!r}: {error}") from None
    _steer(workspace, "storage.allow", prefix, allow_prefix, data_dir)
    output = Output(as_json)
    output.say(f"{workspace} may register what lies below {prefix}")
    output.result({"workspace": workspace, "prefix": prefix})


def forbid(
    workspace: WorkspaceArgument,
    prefix: PrefixArgument,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Take that back. What was registered stays."""
    from lingxi.services.object_prefixes import forbid_prefix

    _steer(workspace, "storage.forbid", prefix, forbid_prefix, data_dir)
    output = Output(as_json)
    output.say(f"{workspace} may register nothing more below {prefix}")
    output.result({"workspace": workspace, "prefix": prefix})


def allowed(
    workspace: WorkspaceArgument, data_dir: DataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False
) -> None:
    """List the prefixes that a workspace may register from."""

    async def run(connection: Connection) -> list[str]:
        from lingxi.services.object_prefixes import list_prefixes

        return await list_prefixes(connection, await _workspace_id(connection, workspace))

    prefixes = beside_the_database(data_dir, run)
    output = Output(as_json)
    for prefix in prefixes:
        output.say(prefix)
    output.result({"prefixes": prefixes})


def _steer(
    workspace: str, verb: str, prefix: str, change: Callable[..., Awaitable[object]], data_dir: Path
) -> None:
    async def run(connection: Connection) -> None:
        from lingxi.services.record_audit import record_audit

        workspace_id = await _workspace_id(connection, workspace)
        if await change(connection, workspace_id, prefix) is False:
            raise CommandError(f"{workspace} was not allowed {prefix}", Exit.REFUSED, 40401)
        await record_audit(
            connection, workspace_id=workspace_id, actor=None, verb=verb, target=prefix, request_id=None
        )

    beside_the_database(data_dir, run)


async def _workspace_id(connection: Connection, name_or_id: str) -> Any:
    from lingxi.services.workspaces import find_workspace

    found = await find_workspace(connection, name_or_id)
    if found is None:
        raise CommandError(f"There is no workspace {name_or_id!r}", Exit.REFUSED, 40401)
    return found.id


def _beside_the_storage(data_dir: Path, run: Callable[[Settings, Pool, Storage], Awaitable[T]]) -> T:
    """Runs `run` with the configured database and storage. CommandError when storage cannot serve."""
    settings = running.settings_beside(data_dir)

    async def main() -> T:
        from lingxi.bootstrap.common import close_pool, make_storage
        from lingxi.db.session import create_pool
        from lingxi.storage import StorageUnavailable

        async with AsyncExitStack() as stack:
            pool = await create_pool(
                settings.database_url, name="lingxi-cli", min_size=0, max_size=2, patient=True
            )
            stack.push_async_callback(close_pool, pool)
            storage = make_storage(settings)
            stack.push_async_callback(storage.close)
            try:
                return await run(settings, pool, storage)
            except StorageUnavailable as error:
                raise CommandError(str(error).capitalize(), Exit.UNREACHABLE) from None

    return asyncio.run(main())
