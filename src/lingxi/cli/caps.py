"""`lingxi workspace cap` and `caps`: how many items of a workspace may run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lingxi.cli.exits import usage
from lingxi.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from uuid import UUID

    from lingxi.db.session import Connection
    from lingxi.services.workspace_caps import Cap

MOST = 1_000_000


def cap(
    workspace: Annotated[str, typer.Argument(metavar="WORKSPACE", help="By name or id.")],
    most: Annotated[
        str, typer.Argument(metavar="NUMBER", help="Items at once, from 1 on; `none` lifts the cap.")
    ],
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Bound how many items of a workspace run at once, from the next claim on. What runs goes on."""
    from lingxi.cli.access import audit, beside_the_database, named_workspace

    if most != "none" and not (most.isascii() and most.isdigit() and 1 <= int(most) <= MOST):
        raise usage(f"NUMBER is from 1 to {MOST}, or none")
    number = None if most == "none" else int(most)

    async def run(connection: Connection) -> UUID:
        from lingxi.services.workspace_caps import set_cap

        found = await named_workspace(connection, workspace)
        await set_cap(connection, found.id, number)
        await audit(connection, found.id, "workspace.cap", found.id)
        return found.id

    changed = beside_the_database(data_dir, run)
    output = Output(as_json)
    output.say(f"{workspace}: {'no cap' if number is None else f'at most {number} items at once'}")
    output.result({"workspaceId": str(changed), "maxRunning": number})


def caps(data_dir: DataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False) -> None:
    """List the workspaces that have a cap, and how many of their items run now."""
    from lingxi.cli.access import beside_the_database

    async def run(connection: Connection) -> list[Cap]:
        from lingxi.services.workspace_caps import list_caps

        return await list_caps(connection)

    found = beside_the_database(data_dir, run)
    output = Output(as_json)
    rows = [(str(one.workspace_id), one.name, str(one.running), str(one.max_running)) for one in found]
    output.table(("WORKSPACE", "NAME", "RUN NOW", "AT MOST"), rows)
    output.result(
        {
            "caps": [
                {"workspaceId": str(one.workspace_id), "maxRunning": one.max_running, "running": one.running}
                for one in found
            ]
        }
    )
