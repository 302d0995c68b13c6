"""`lingxi status`: one screen that says how a deployment is, and goes on saying it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from lingxi.cli.exits import Exit
from lingxi.cli.options import DEFAULT_DATA_DIR, DEFAULT_URL, DataDirOption, JsonOption, UrlOption
from lingxi.cli.output import Output
from lingxi.cli.tasks import span_in_words, with_client

if TYPE_CHECKING:
    from lingxi.client import Client
    from lingxi.client.status import Status

OnceOption = Annotated[bool, typer.Option("--once", help="Show it once; so it is also where nobody watches.")]
IntervalOption = Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("status")(status)


def status(
    once: OnceOption = False,
    interval: IntervalOption = 2.0,
    url: UrlOption = DEFAULT_URL,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Show queues, workers, outbox, canaries, sweeps and what would page soon, again and again until Ctrl-C.

    Needs no token: it reads queue health and metrics. With METRICS_BIND give that address as --url. Shown once, it exits 1 when
    something would page.
    """
    output = Output(as_json)

    async def run(client: Client) -> None:
        if output.live and not once:
            await _go_on(client, interval)
        else:
            from lingxi.client.status import status_to_json

            found = await client.status()
            for line in screen(found):
                output.say(line)
            output.result(status_to_json(found))
            if found.hints():
                raise typer.Exit(Exit.NOT_SUCCEEDED)

    with_client(url, None, data_dir, run)


async def _go_on(client: Client, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from lingxi.client.errors import Unreachable

    with Live(console=Console(highlight=False), screen=True, auto_refresh=False) as live:
        while True:
            try:
                lines = screen(await client.status())
            except Unreachable as error:
                lines = [f"The API does not answer: {error}"]
            live.update(Text("\n".join([*lines, "", "Ctrl-C ends this."])), refresh=True)
            await asyncio.sleep(interval)


def screen(status: Status) -> list[str]:
    """The lines of one screen."""
    hints = status.hints()
    lines = ["All is well." if not hints else "Would page soon:"]
    lines += [f"  {sentence}  → runbook: {alert}" for alert, sentence in hints]
    lines.append("")
    lines += _queues(status)
    lines.append("")
    lines.append(_outbox(status))
    for title, metric in (
        ("sweeps", "lingxi_item_sweep_total"),
        ("photo sweeps", "lingxi_photo_sweep_total"),
    ):
        found = {name: round(value) for name, value in status.by(metric, "found").items() if value}
        lines.append(
            f"{title}: " + (", ".join(f"{n} {name}" for name, n in found.items()) or "found nothing")
        )
    streams = sum(status.by("lingxi_stream_connections", "kind").values())
    disks = ", ".join(
        f"{name} {free:.0%} free" for name, free in status.by("lingxi_disk_free_ratio", "disk").items()
    )
    lines.append(f"streams: {streams:.0f} open · disks: {disks or 'not told'}")
    return lines


def _queues(status: Status) -> list[str]:
    rows = [
        ("QUEUE", "WORKERS", "WAIT", "ACTIVE", "DELAYED", "OLDEST", "DONE 1H", "FAILED 1H", "CANARY", "HOLD")
    ]
    canaries = status.by("lingxi_canary_age_seconds", "queue")
    for queue in status.health.get("queues", ()):
        counts, beat, hold = queue["counts"], queue["heartbeat"], queue["hold"]
        canary = canaries.get(queue["queue"])
        rows.append(
            (
                queue["queue"],
                beat["state"]
                if beat["ageSeconds"] is None
                else f"{beat['state']} {beat['ageSeconds']:.0f} s",
                *(str(counts[name]) for name in ("waiting", "active", "delayed")),
                span_in_words(queue["oldestWaitingSeconds"]),
                str(counts["completed"]),
                str(counts["failed"]),
                "-" if canary is None else "answered" if not canary else span_in_words(canary),
                "-" if hold is None else f"{hold['state']}: {hold['reason'] or ''}".rstrip(": "),
            )
        )
    if len(rows) == 1:
        return ["The queues cannot be told while PostgreSQL or Redis is away."]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _outbox(status: Status) -> str:
    def told(name: str) -> str:
        value = status.one(name)
        return "?" if value is None else f"{value:.0f}"

    held = {1.0: "at work", 0.0: "none"}.get(status.one("lingxi_dispatcher_held") or 0.0, "?")
    lag = status.one("lingxi_outbox_oldest_due_seconds")
    return (
        f"outbox: {told('lingxi_outbox_pending_total')} pending, {told('lingxi_outbox_dead_letter_total')} dead letters, "
        f"lag {'?' if lag is None else span_in_words(lag)} · dispatcher: {held}"
    )
