"""Commands beside the database: workspaces and tokens. Operator tokens can be made only here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from lingxi.cli import running
from lingxi.cli.caps import cap, caps
from lingxi.cli.exits import CommandError, Exit, usage
from lingxi.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption
from lingxi.cli.output import Output
from lingxi.cli.quotas import quota

if TYPE_CHECKING:
    from lingxi.db.session import Connection
    from lingxi.services.tokens import Token
    from lingxi.services.workspaces import Workspace

T = TypeVar("T")
DAY_SECONDS = 86_400


def register(app: typer.Typer) -> None:
    """Adds the groups `token` and `workspace`."""
    from lingxi.cli import workspaces

    token = typer.Typer(
        no_args_is_help=True, help="Make, list, rotate and revoke tokens, beside the database."
    )
    token.command("create")(create)
    token.command("list")(list_)
    token.command("rotate")(rotate)
    token.command("revoke")(revoke)
    token.command("link")(link)
    workspace = typer.Typer(
        no_args_is_help=True, help="Make, list and limit workspaces, beside the database."
    )
    workspace.command("create")(workspaces.create)
    workspace.command("list")(workspaces.list_)
    workspace.command("cap")(cap)
    workspace.command("caps")(caps)
    workspace.command("quota")(quota)
    workspace.command("rename")(workspaces.rename)
    workspace.command("disable")(workspaces.disable)
    workspace.command("enable")(workspaces.enable)
    app.add_typer(token, name="token")
    app.add_typer(workspace, name="workspace")


def create(
    role: Annotated[str, typer.Option(help="viewer, editor or admin.")] = "editor",
    workspace: Annotated[str, typer.Option(help="The workspace, by name or id.")] = "default",
    operator: Annotated[
        bool, typer.Option("--operator", help="An operator's token, which belongs to no workspace.")
    ] = False,
    worker: Annotated[
        bool,
        typer.Option(
            "--worker", help="A token for workers in other languages, which belongs to no workspace."
        ),
    ] = False,
    name: Annotated[str, typer.Option(help="What the token is for; shown in lists.")] = "command line",
    days: Annotated[
        float | None, typer.Option(min=0.001, help="Days until it expires (never, if left out).")
    ] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Make a token. It is printed once and can never be read again."""
    if role not in ("viewer", "editor", "admin"):
        raise usage("--role is one of viewer, editor, admin (and --operator or --worker makes another kind)")
    if operator and worker:
        raise usage("a token is an operator's or a worker's, not both")
    if not 1 <= len(name) <= 100:
        raise usage("--name has 1 to 100 characters")

    async def run(connection: Connection) -> tuple[Token, str]:
        from lingxi.services.tokens import create_token

        owner = None if operator or worker else await named_workspace(connection, workspace)
        made, secret = await create_token(
            connection,
            workspace_id=owner.id if owner else None,
            role="operator" if operator else "worker" if worker else role,
            name=name,
            lifetime_seconds=days * DAY_SECONDS if days is not None else None,
        )
        await audit(connection, made.workspace_id, "token.create", made.id)
        return made, secret

    made, secret = beside_the_database(data_dir, run)
    output = Output(as_json)
    output.say(secret)
    output.result({**_token_to_wire(made), "token": secret})


def list_(
    workspace: Annotated[str | None, typer.Option(help="Only this workspace's, by name or id.")] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """List tokens (never their secrets)."""

    async def run(connection: Connection) -> list[Token]:
        from lingxi.services.tokens import list_tokens

        owner = await named_workspace(connection, workspace) if workspace is not None else None
        return await list_tokens(connection, owner.id if owner else None)

    tokens = beside_the_database(data_dir, run)
    output = Output(as_json)
    rows = [
        (str(token.id), token.role, str(token.workspace_id or "-"), _condition(token), token.name)
        for token in tokens
    ]
    output.table(("TOKEN", "ROLE", "WORKSPACE", "STATE", "NAME"), rows)
    output.result({"tokens": [_token_to_wire(token) for token in tokens]})


def revoke(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The token's id, as `token list` shows it.")],
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Revoke a token. Open streams that use it end at once."""
    token_id = _token_id(token)

    async def run(connection: Connection) -> Token:
        from lingxi.services.tokens import revoke_token

        found = await revoke_token(connection, token_id)
        if found is None:
            raise CommandError("There is no token with this id", Exit.REFUSED, 40401)
        await audit(connection, found.workspace_id, "token.revoke", found.id)
        return found

    revoked = beside_the_database(data_dir, run)
    asyncio.run(hint_access(data_dir))
    output = Output(as_json)
    output.say(f"revoked {revoked.id} ({revoked.name})")
    output.result(_token_to_wire(revoked))


def rotate(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The token's id, as `token list` shows it.")],
    overlap_hours: Annotated[
        float, typer.Option(min=0, max=720, help="For how long the old one still holds.")
    ] = 0.0,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Make another token in the place of one, with the same role, name and lifetime. It is printed once."""
    token_id = _token_id(token)

    async def run(connection: Connection) -> tuple[Token, str]:
        from lingxi.services.tokens import rotate_token

        made = await rotate_token(connection, token_id, overlap_seconds=overlap_hours * 3600)
        if made is None:
            raise CommandError("There is no token with this id that holds", Exit.REFUSED, 40401)
        await audit(connection, made[0].workspace_id, "token.rotate", token_id)
        return made

    made, secret = beside_the_database(data_dir, run)
    asyncio.run(hint_access(data_dir))
    output = Output(as_json)
    output.say(secret)
    output.result({**_token_to_wire(made), "token": secret})


def link(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The token's id, as `token list` shows it.")],
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Make a one-time link that signs a browser in, in the name of a token; it works for ten minutes."""
    token_id = _token_id(token)

    async def run(connection: Connection) -> tuple[str, datetime]:
        from lingxi.services.sign_in_links import create_sign_in_link
        from lingxi.services.tokens import list_tokens

        found = next((one for one in await list_tokens(connection) if one.id == token_id), None)
        if found is None or found.workspace_id is None:
            raise CommandError("There is no token of a workspace with this id", Exit.REFUSED, 40401)
        made = await create_sign_in_link(connection, token_id)
        await audit(connection, found.workspace_id, "session.link", token_id)
        return made

    secret, expires_at = beside_the_database(data_dir, run)
    served = running.read(data_dir)
    address = f"{served.url if served else ''}/login#{secret}"
    output = Output(as_json)
    output.say(address)
    output.result({"url": address, "expiresAt": expires_at.isoformat()})


async def ensure_default_token(database_url: str, workspace: str, path: Path) -> str:
    """The admin token of `workspace` that is kept in `path`, both made where missing; one that no longer works is
    replaced."""
    from lingxi.db.session import connect
    from lingxi.services.tokens import create_token, find_token
    from lingxi.services.workspaces import create_workspace, find_workspace

    secret = running.read_secret(path)
    connection = await connect(database_url, name="lingxi-cli")
    try:
        async with connection.transaction():
            if secret and await find_token(connection, secret) is not None:
                return secret
            owner = await find_workspace(connection, workspace) or await create_workspace(
                connection, workspace
            )
            assert owner is not None, "nobody else makes the default workspace while we start"
            made, secret = await create_token(
                connection, workspace_id=owner.id, role="admin", name="lingxi up"
            )
            await audit(connection, owner.id, "token.create", made.id)
        running.write_secret(path, secret + "\n")
        return secret
    finally:
        await connection.close()


def beside_the_database(data_dir: Path, run: Callable[[Connection], Awaitable[T]]) -> T:
    """Runs `run` in a transaction of the configured database, or of the `up` that runs on this data folder."""
    settings = running.settings_beside(data_dir)

    async def main() -> T:
        from lingxi.db.session import connect

        connection = await connect(settings.database_url, name="lingxi-cli", timeout_seconds=5)
        try:
            async with connection.transaction():
                return await run(connection)
        finally:
            await connection.close()

    return asyncio.run(main())


def _token_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise usage("TOKEN is the token's id (a UUID), not its secret") from None


async def named_workspace(connection: Connection, name_or_id: str) -> Workspace:
    """By name or id; CommandError when there is none."""
    from lingxi.services.workspaces import find_workspace

    found = await find_workspace(connection, name_or_id)
    if found is None:
        raise CommandError(f"There is no workspace {name_or_id!r}", Exit.REFUSED, 40401)
    return found


async def audit(connection: Connection, workspace_id: UUID | None, verb: str, target: UUID | str) -> None:
    """One row: the command line did it."""
    from lingxi.services.record_audit import record_audit

    await record_audit(
        connection, workspace_id=workspace_id, actor=None, verb=verb, target=str(target), request_id=None
    )


async def hint_access(data_dir: Path) -> None:
    """Tells API processes to look at once; without Redis they look within half a minute."""
    from lingxi.broker.client import api_client
    from lingxi.broker.hints import Hints

    redis_url = running.settings_beside(data_dir).redis_url
    if redis_url:
        client = api_client(redis_url)
        hints = Hints(client)
        hints.publish_access()
        await hints.close()
        await client.aclose()


def _condition(token: Token) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is not None:
        return f"until {token.expires_at:%Y-%m-%d}"
    return "valid"


def _token_to_wire(token: Token) -> dict[str, Any]:
    return {
        "id": str(token.id),
        "workspaceId": str(token.workspace_id) if token.workspace_id else None,
        "role": token.role,
        "name": token.name,
        "createdAt": _time(token.created_at),
        "expiresAt": _time(token.expires_at),
        "revokedAt": _time(token.revoked_at),
    }


def workspace_to_wire(workspace: Workspace) -> dict[str, Any]:
    """As the API says it."""
    return {
        "id": str(workspace.id),
        "name": workspace.name,
        "createdAt": _time(workspace.created_at),
        "disabledAt": _time(workspace.disabled_at),
    }


def _time(value: datetime | None) -> str | None:
    from lingxi.domain.wire import time_to_wire

    return time_to_wire(value)
