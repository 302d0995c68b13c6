"""`lingxi why`: what a task, an item or a photo waits for, or why it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from lingxi.cli.exits import usage
from lingxi.cli.options import (
    DEFAULT_DATA_DIR,
    DEFAULT_URL,
    DataDirOption,
    JsonOption,
    TokenOption,
    UrlOption,
)
from lingxi.cli.output import Output
from lingxi.cli.tasks import with_client

if TYPE_CHECKING:
    from lingxi.client import Client


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("why")(why)


def why(
    subject: Annotated[str, typer.Argument(metavar="TASK|ITEM|PHOTO", help="The id of any of these.")],
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Say why a task, an item or a photo waits or failed."""
    from lingxi.domain.ids import parse_uuid, split_item_id

    output, found = Output(as_json), parse_uuid(subject)
    if found is None:
        raise usage(f"{subject!r} is no id: it looks like 0193a3f0-2b5c-7c3e-9d4f-1a2b3c4d0000")
    task_id, position = split_item_id(found)
    tail = f"/items/{quote(subject)}" if position else ""

    async def run(client: Client) -> None:
        from lingxi.client.errors import ApiError

        try:
            answer = await client.why(f"media-tasks/{task_id}{tail}")
        except ApiError as error:
            if error.status != 404:
                raise
            answer = await client.why(f"photos/{quote(subject)}")
        _say(answer, output)
        output.result(answer)

    with_client(url, token, data_dir, run)


def _say(answer: dict[str, Any], output: Output) -> None:
    output.say(f"{answer['kind']} {answer['id']} ({answer['queue']}): {answer['state']}")
    output.say(answer["sentence"])
    if answer["attempts"]:
        output.say()
        output.table(
            ("ROUND", "ATTEMPT", "WORKER", "STARTED", "ENDED", "OUTCOME", "ERROR"),
            [
                (
                    str(one["round"]),
                    str(one["number"]),
                    one["worker"] or "",
                    one["startedAt"],
                    one["finishedAt"] or "",
                    one["outcome"],
                    f"{one['error']['code']}: {one['error']['message']}" if one["error"] else "",
                )
                for one in answer["attempts"]
            ],
        )
        for one in answer["attempts"]:
            if one["logLines"]:
                output.say()
                output.say(f"Attempt {one['number']} of round {one['round']} logged:")
                for line in one["logLines"]:
                    output.say(f"  {line}")
    for one in answer["plan"]:
        output.say(one["sentence"])
    if failed := [cause for cause in answer["causes"] if cause["state"] == "failed"]:
        output.say()
        output.table(
            ("ITEMS", "CODE", "A RETRY CAN HELP", "FIRST", "MESSAGE"),
            [
                (
                    str(cause["items"]),
                    cause["code"],
                    "yes" if cause["canRetry"] else "no",
                    str(cause["firstIndex"]),
                    cause["message"] or "",
                )
                for cause in failed
            ],
        )
