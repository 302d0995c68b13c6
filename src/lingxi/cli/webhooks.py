"""Commands for webhook endpoints over HTTP: make, show, rotate, enable, disable and delete them; deliveries and replays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingxi.cli.answers import YesOption, duration_seconds, make_sure
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

EVENTS = ("photo.published", "photo.updated", "photo.removed", "task.ended")
_UNITS = "smhd"

WebhookArgument = Annotated[
    str, typer.Argument(metavar="WEBHOOK", help="The endpoint's id, as `webhook list` shows it.")
]


def register(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(no_args_is_help=True, help="Endpoints that hear of events, with an admin's token.")
    group.command("create")(create)
    group.command("list")(list_)
    group.command("show")(show)
    group.command("rotate")(rotate)
    group.command("enable")(enable)
    group.command("disable")(disable)
    group.command("delete")(delete)
    group.command("deliveries")(deliveries)
    group.command("replay")(replay)
    app.add_typer(group, name="webhook")


def create(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="https://…, where events are sent to.")],
    event: Annotated[
        list[str] | None,
        typer.Option("--event", help=f"May be given more than once: {', '.join(EVENTS)}. All, if left out."),
    ] = None,
    description: Annotated[str, typer.Option(help="For people; up to 200 characters.")] = "",
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Make an endpoint. Its secret is printed once and can never be read again."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        made = await client.webhooks.create(address, event or EVENTS, description=description)
        _say(made, output)
        output.say(f"secret: {made['secret']}")
        output.result(made)

    with_client(url, token, data_dir, run)


def list_(
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """List the workspace's endpoints, oldest first."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        found = await client.webhooks.all()
        rows = [(one["id"], _condition(one), ",".join(one["events"]), one["url"]) for one in found]
        if rows:
            output.table(("WEBHOOK", "STATE", "EVENTS", "ADDRESS"), rows)
        else:
            output.say("No webhooks.")
        output.result({"webhooks": found})

    with_client(url, token, data_dir, run)


def show(
    webhook: WebhookArgument,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Show an endpoint (never its secret)."""

    async def run(client: Client) -> None:
        _tell(await client.webhooks.get(webhook), Output(as_json))

    with_client(url, token, data_dir, run)


def rotate(
    webhook: WebhookArgument,
    overlap: Annotated[
        str, typer.Option(help="How long the present secret signs beside the new one: 30m, 24h, 7d, 0s.")
    ] = "24h",
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Give an endpoint a new secret, printed once. For a while both sign each request."""
    output, seconds = Output(as_json), _seconds(overlap, "--overlap")

    async def run(client: Client) -> None:
        made = await client.webhooks.rotate(webhook, overlap_seconds=seconds)
        _say(made, output)
        output.say(f"secret: {made['secret']}")
        output.result(made)

    with_client(url, token, data_dir, run)


def enable(
    webhook: WebhookArgument,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Send to an endpoint again, from the next event on; `webhook replay` sends what it missed."""

    async def run(client: Client) -> None:
        _tell(await client.webhooks.enable(webhook), Output(as_json))

    with_client(url, token, data_dir, run)


def disable(
    webhook: WebhookArgument,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Send nothing to an endpoint any more."""

    async def run(client: Client) -> None:
        _tell(await client.webhooks.disable(webhook), Output(as_json))

    with_client(url, token, data_dir, run)


def delete(
    webhook: WebhookArgument,
    yes: YesOption = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Delete an endpoint with the list of its deliveries."""
    output = Output(as_json)
    make_sure(yes, f"Delete {webhook} and the list of its deliveries?")

    async def run(client: Client) -> None:
        await client.webhooks.delete(webhook)
        output.say(f"deleted {webhook}")
        output.result({"deleted": webhook})

    with_client(url, token, data_dir, run)


def deliveries(
    webhook: WebhookArgument,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            help="Only these: queued, running, retrying, delivered, failed, cancelled, missed.",
        ),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """List what was sent to an endpoint, newest first, and what it answered."""
    output = Output(as_json)

    async def run(client: Client) -> None:
        found = [row async for row in client.webhooks.deliveries(webhook, *(state or ()))]
        if found:
            output.table(
                ("EVENT", "TYPE", "STATE", "TRIES", "CODE", "AT (UTC)", "ANSWER"),
                [_row(one) for one in found],
            )
        else:
            output.say("No deliveries.")
        output.result({"deliveries": found})

    with_client(url, token, data_dir, run)


def replay(
    webhook: WebhookArgument,
    event: Annotated[
        str | None, typer.Option(help="One event, by its id; also when it was delivered.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="All that was not delivered since: a time (2026-12-01T20:00:00Z), or 30m, 24h, 7d ago."
        ),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Deliver again: one event, or all that was not delivered since. What is on its way is left alone."""
    if (event is None) == (since is None):
        raise usage("give --event or --since, one of the two")
    moment = None if since is None else _moment(since)
    output = Output(as_json)

    async def run(client: Client) -> None:
        answer = await client.webhooks.replay(webhook, event_id=event, since=moment)
        count, task = answer["replayed"], answer["taskId"]
        output.say(
            f"{count} to deliver again, as task {task}" if task else "There was nothing to deliver again."
        )
        output.result(answer)

    with_client(url, token, data_dir, run)


def _tell(endpoint: dict[str, Any], output: Output) -> None:
    _say(endpoint, output)
    output.result(endpoint)


def _say(endpoint: dict[str, Any], output: Output) -> None:
    output.say(f"{endpoint['id']}  {_condition(endpoint)}")
    output.say(f"{endpoint['url']}  {', '.join(endpoint['events'])}")
    if endpoint["description"]:
        output.say(endpoint["description"])
    if endpoint["failures"]:
        output.say(f"{endpoint['failures']} failures in a row since {endpoint['failingSince'][:19]} UTC")
    if endpoint["rotatingUntil"]:
        output.say(f"the secret before signs, too, until {endpoint['rotatingUntil'][:19]} UTC")


def _condition(endpoint: dict[str, Any]) -> str:
    return "enabled" if endpoint["enabled"] else f"disabled ({endpoint['disabledReason']})"


def _row(delivery: dict[str, Any]) -> tuple[str, ...]:
    at = delivery["lastAttemptAt"] or delivery["createdAt"]
    answer = delivery["responseBody"] or delivery["errorCode"] or ""
    return (
        delivery["eventId"],
        delivery["type"],
        delivery["state"],
        str(delivery["attempts"]),
        str(delivery["responseStatus"] or "-"),
        at[:19],
        " ".join(answer.split())[:60],
    )


def _seconds(text: str, option: str) -> int:
    if (seconds := duration_seconds(text, _UNITS)) is None:
        raise usage(f"{option} is a time like 30m, 24h or 7d")
    return seconds


def _moment(text: str) -> str:
    """A time as the API takes it; `24h` is so long ago."""
    if (seconds := duration_seconds(text, _UNITS)) is not None:
        return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()
    return text
