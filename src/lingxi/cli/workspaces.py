"""`lingxi workspace create`, `list`, `rename`, `disable` and `enable`, beside the database."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingxi.cli import access
from lingxi.cli.exits import CommandError, Exit, usage
from lingxi.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.db.session import Connection
    from lingxi.services.workspaces import Workspace

WorkspaceArgument = Annotated[str, typer.Argument(metavar="WORKSPACE", help="By name or id.")]


def create(
    name: Annotated[str, typer.Argument(help="1 to 100 characters, unique.")],
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Make a workspace."""
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise usage("A workspace's name has 1 to 100 printable characters")

    async def run(connection: Connection) -> Workspace:
        from lingxi.services.workspaces import create_workspace

        made = await create_workspace(connection, name)
        if made is None:
            raise CommandError("There is a workspace with this name already", Exit.REFUSED, 40901)
        await access.audit(connection, made.id, "workspace.create", made.id)
        return made

    made = access.beside_the_database(data_dir, run)
    output = Output(as_json)
    output.say(f"{made.id}  {made.name}")
    output.result(access.workspace_to_wire(made))


def list_(data_dir: DataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False) -> None:
    """List workspaces."""

    async def run(connection: Connection) -> list[Workspace]:
        from lingxi.services.workspaces import list_workspaces

        return await list_workspaces(connection)

    found = access.beside_the_database(data_dir, run)
    output = Output(as_json)
    rows = [(str(one.id), one.name, "disabled" if one.disabled_at else "open") for one in found]
    output.table(("WORKSPACE", "NAME", "STATE"), rows)
    output.result({"workspaces": [access.workspace_to_wire(one) for one in found]})


def rename(
    workspace: WorkspaceArgument,
    name: Annotated[str, typer.Argument(help="1 to 100 characters, unique.")],
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Give a workspace another name."""
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise usage("A workspace's name has 1 to 100 printable characters")

    async def run(connection: Connection) -> Workspace:
        from lingxi.services.workspaces import rename_workspace

        found = await access.named_workspace(connection, workspace)
        renamed = await rename_workspace(connection, found.id, name)
        if renamed is None:
            raise CommandError("There is a workspace with this name already", Exit.REFUSED, 40901)
        await access.audit(connection, found.id, "workspace.rename", found.id)
        return renamed

    _tell(access.beside_the_database(data_dir, run), as_json)


def disable(
    workspace: WorkspaceArgument, data_dir: DataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False
) -> None:
    """Let nobody of a workspace in, by token, session or share link. What was accepted is finished."""
    _disable(workspace, True, data_dir, as_json)


def enable(
    workspace: WorkspaceArgument, data_dir: DataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False
) -> None:
    """Let the people of a workspace in again."""
    _disable(workspace, False, data_dir, as_json)


def _disable(workspace: str, disabled: bool, data_dir: Path, as_json: bool) -> None:
    async def run(connection: Connection) -> Workspace:
        from lingxi.services.workspaces import disable_workspace

        found = await access.named_workspace(connection, workspace)
        changed = await disable_workspace(connection, found.id, disabled)
        assert changed is not None
        await access.audit(connection, found.id, f"workspace.{'disable' if disabled else 'enable'}", found.id)
        return changed

    changed = access.beside_the_database(data_dir, run)
    asyncio.run(access.hint_access(data_dir))
    _tell(changed, as_json)


def _tell(workspace: Workspace, as_json: bool) -> None:
    output = Output(as_json)
    output.say(f"{workspace.id}  {workspace.name}{'  (disabled)' if workspace.disabled_at else ''}")
    output.result(access.workspace_to_wire(workspace))
