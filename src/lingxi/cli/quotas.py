"""`lingxi workspace quota`: how much of the deployment a workspace may take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingxi.cli import running
from lingxi.cli.exits import usage
from lingxi.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.db.session import Connection
    from lingxi.services.quotas import Limits, Quota, Usage
    from lingxi.services.workspaces import Workspace

_NAMES = ("requests_per_minute", "open_items", "stored_bytes")
_MOST = (10_000_000, 1_000_000_000, 2**60)
_HELP = "a number, `none` for no limit, `default` for the deployment's"


def quota(
    workspace: Annotated[str, typer.Argument(metavar="WORKSPACE", help="By name or id.")],
    requests_per_minute: Annotated[
        str | None, typer.Option(help=f"Requests to each API process: {_HELP}.")
    ] = None,
    open_items: Annotated[str | None, typer.Option(help=f"Items that have not ended: {_HELP}.")] = None,
    stored_bytes: Annotated[str | None, typer.Option(help=f"Objects and uploaded photos: {_HELP}.")] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Show a workspace's limits and what it has of each; with options, change these limits."""
    from lingxi.cli.access import audit, beside_the_database, named_workspace

    given = zip(_NAMES, (requests_per_minute, open_items, stored_bytes), _MOST, strict=True)
    asked = {name: _number(name, text, most) for name, text, most in given if text is not None}

    async def run(connection: Connection) -> tuple[Workspace, Quota, Usage]:
        from lingxi.services.quotas import get_quota, read_usage, set_quota

        found = await named_workspace(connection, workspace)
        own = await get_quota(connection, found.id)
        if asked:
            own = replace(own, **asked)
            await set_quota(connection, found.id, own)
            await audit(connection, found.id, "workspace.quota", found.id)
        return found, own, await read_usage(connection, found.id)

    found, own, used = beside_the_database(data_dir, run)
    limits = own.over(_defaults(data_dir))
    wire: dict[str, Any] = {"workspaceId": str(found.id)}
    rows = []
    for name in _NAMES:
        limit, has = getattr(limits, name) or None, getattr(used, name, None)
        is_own = getattr(own, name) is not None
        wire[_camel(name)] = {"limit": limit, "own": is_own, **({} if has is None else {"used": has})}
        whose = "its own" if is_own else "the deployment's"
        rows.append(
            (name.replace("_", " "), str(limit or "no limit"), "-" if has is None else str(has), whose)
        )
    output = Output(as_json)
    output.table(("LIMIT", "AT MOST", "HAS", "WHOSE"), rows)
    output.result(wire)


def _defaults(data_dir: Any) -> Limits:
    from lingxi.services.quotas import Limits

    settings = running.settings_beside(data_dir)
    return Limits(
        settings.workspace_requests_per_minute,
        settings.workspace_open_items,
        settings.workspace_stored_bytes,
    )


def _number(name: str, text: str, most: int) -> int | None:
    if text == "default":
        return None
    if text == "none":
        return 0
    if text.isascii() and text.isdigit() and 1 <= int(text) <= most:
        return int(text)
    raise usage(f"--{name.replace('_', '-')} is from 1 to {most}, none, or default")


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
