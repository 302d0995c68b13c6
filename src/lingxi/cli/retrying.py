"""`lingxi retry-failed`: all that failed, some of it, or first one of each cause."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingxi.cli.options import (
    DEFAULT_DATA_DIR,
    DEFAULT_URL,
    DataDirOption,
    JsonOption,
    TaskArgument,
    TokenOption,
    UrlOption,
)
from lingxi.cli.output import Output
from lingxi.cli.tasks import KeyOption, WatchOption, conclude, follow_task, tell, watch_to_end, with_client

if TYPE_CHECKING:
    from lingxi.client import Client

_DECISION_SECONDS = 60.0  # a sweep decides at the latest after 30
_LOOK_SECONDS = 0.5

OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="CODE", help="Only what failed with this code; may be given again."),
]
CanaryOption = Annotated[
    bool,
    typer.Option(
        "--canary",
        help="First one item of each code; the others of a code follow if it succeeds, also when you are gone.",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("retry-failed")(retry_failed)


def retry_failed(
    task: TaskArgument,
    only: OnlyOption = None,
    canary: CanaryOption = False,
    follow: WatchOption = False,
    key: KeyOption = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Queue only what failed again, as a new round."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        again = await client.retry_failed(task, only=only or None, canary=canary, idempotency_key=key)
        if canary:
            for one in (await client.why(f"media-tasks/{task}"))["plan"]:
                output.say(one["sentence"])
        if not follow:
            tell(again, output)
        elif canary:
            await _follow_plan(client, task, output, str(again.cursor))
        else:
            await follow_task(client, task, output, str(again.cursor))

    with_client(url, token, data_dir, run)


async def _follow_plan(client: Client, task_id: str, output: Output, cursor: str) -> None:
    """To the end of the canaries' round, to what is decided then, and to the end of the rest if it follows."""
    task = await watch_to_end(client, task_id, output, cursor)
    for one in await _decided(client, task_id):
        output.say(one["sentence"])
    while not (await client.get(task_id)).is_final:
        task = await watch_to_end(client, task_id, output, str(task.cursor))
    conclude(task, output)


async def _decided(client: Client, task: str) -> list[dict[str, Any]]:
    async with asyncio.timeout(_DECISION_SECONDS):
        while True:
            plan: list[dict[str, Any]] = (await client.why(f"media-tasks/{task}"))["plan"]
            if all(one["state"] != "waiting" for one in plan):
                return plan
            await asyncio.sleep(_LOOK_SECONDS)
