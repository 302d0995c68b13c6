"""`lingxi demo`: everything in a private folder, six acts on real work, and a proof from the database.

It leaves no process and no file behind, whenever it is ended.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from lingxi.cli import demo_acts
from lingxi.cli.demo_story import Story
from lingxi.cli.exits import CommandError, Exit
from lingxi.cli.interrupts import Interrupted, Interrupts
from lingxi.cli.output import Output
from lingxi.cli.stack import Stack, WorkerPlan

# Few drills at once, so that there is something left to cancel and somebody to kill; all else is as in production.
DEMO_SETTINGS = {"lingxi_concurrency": "demo:drill=4", "grace_seconds": "5", "log_level": "info"}
LONGEST_SECONDS = 240.0
WORKERS = WorkerPlan("workers", ("--processes", "2"))


def run_demo(*, once: bool, photos: Path | None, port: int, output: Output) -> int:
    """Runs the demo to its end and answers the exit code: 0 only if nothing was lost or done twice."""
    with Interrupts() as interrupts:
        folder = Path(tempfile.mkdtemp(prefix="lingxi-demo-"))
        try:
            folder.chmod(0o755)  # PostgreSQL runs as another user when we are root; secrets inside are 0600
            return asyncio.run(_demo(folder, interrupts, once=once, photos=photos, port=port, output=output))
        except Interrupted:
            raise CommandError("Interrupted; nothing is left running", Exit.INTERRUPTED) from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)


async def _demo(
    folder: Path, interrupts: Interrupts, *, once: bool, photos: Path | None, port: int, output: Output
) -> int:
    from lingxi.settings import load_settings

    started = time.monotonic()
    settings = load_settings(
        database_url="",
        redis_url="",
        storage_url="",
        lingxi_data_dir=folder,
        lingxi_host="127.0.0.1",
        lingxi_port=port,
        grace_seconds=float(DEMO_SETTINGS["grace_seconds"]),
    )
    stack = Stack(
        settings,
        interrupts,
        workers=(WORKERS,),
        say=lambda text: output.say(f"  {text}", style="dim"),
        extra_environment={**DEMO_SETTINGS, "storage_url": "", "queue": "", "lingxi_queues": ""},
    )
    try:
        demo_acts.headline(
            output, "Starting PostgreSQL, Valkey, the API with its dispatcher, and two workers"
        )
        await stack.start()
        output.say(f"  up at {stack.url} after {time.monotonic() - started:.1f} s, all in {folder}")
        story = await interrupts.unless_asked(_play(stack, output, photos))
        summary = {**story.summary(), "seconds": round(time.monotonic() - started, 1)}
        _tell(summary, story.complaints, output)
        if not once:
            await _serve_on(stack, output, summary)
    finally:
        await stack.stop()
    output.result(summary)
    return Exit.OK if summary["ok"] else Exit.NOT_SUCCEEDED


async def _play(stack: Stack, output: Output, photos: Path | None) -> Story:
    """All acts; CommandError (exit code 1) when the samples are not through in LONGEST_SECONDS."""
    try:
        async with asyncio.timeout(LONGEST_SECONDS if photos is None else None) as limit:
            return await demo_acts.play(stack, output, photos=photos)
    except TimeoutError:
        if not limit.expired():
            raise
        words = "; ".join(f"{child.name}: {child.last_words()}" for child in stack.children.values())
        raise CommandError(
            f"Not through after {LONGEST_SECONDS:.0f} s ({words})", Exit.NOT_SUCCEEDED
        ) from None


def _tell(summary: dict[str, Any], complaints: list[str], output: Output) -> None:
    output.say()
    for complaint in complaints:
        output.complain(f"NOT AS PROMISED: {complaint}")
    if summary["ok"]:
        text = "Nothing was lost, nothing was done twice"
        output.say(
            f"{text}: {summary['items']} items of {summary['tasks']} tasks and {summary['published']} photos"
            f" in {summary['seconds']} s.",
            style="bold green",
        )


async def _serve_on(stack: Stack, output: Output, summary: dict[str, Any]) -> None:
    output.say()
    output.say(f"The live album, for whoever has this link: {summary['albumUrl']}", style="bold")
    output.say(f"Still serving at {stack.url}; look at the tasks there with the token {stack.token}")
    output.say(f"or: LINGXI_URL={stack.url} LINGXI_TOKEN={stack.token} lingxi list")
    output.say("Ctrl-C ends it and leaves nothing behind.")
    output.line({**summary, "url": stack.url, "token": stack.token})
    await stack.tend()
