"""`python -m lingxi.conformance URL`: a line a rule; exit 0 only when every rule that was tried passed."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from lingxi.conformance.rule import Outcome, Rule
from lingxi.conformance.run import RULES, NotReady, conform, report

FAILED, NOT_POSSIBLE = 1, 2

Token = Annotated[
    str,
    typer.Option(
        envvar="LINGXI_TOKEN",
        help="A token with the role editor; else the data folder's.",
        show_default=False,
    ),
]
DataDir = Annotated[Path, typer.Option(envvar="LINGXI_DATA_DIR", help="The file `token` in it is read.")]
Restart = Annotated[
    str | None, typer.Option(metavar="CMD", help="Restarts the server; returns when it serves again.")
]
Names = Annotated[
    list[str] | None, typer.Option("--rule", metavar="NAME", help="Only this rule (may be repeated).")
]
AtOnce = Annotated[int, typer.Option(metavar="N", min=1, help="Rules tried beside each other.")]
AsJson = Annotated[bool, typer.Option("--json", help="No lines; one JSON object at the end.")]


def list_rules(wanted: bool) -> None:
    """The rules, and nothing else."""
    if wanted:
        for rule in RULES:
            typer.echo(f"{rule.name:20} {rule.sentence}")
        raise typer.Exit


def main(
    url: Annotated[str, typer.Argument(metavar="URL", help="Of the server, e.g. http://127.0.0.1:3000")],
    token: Token = "",
    data_dir: DataDir = Path(".lingxi"),
    restart_command: Restart = None,
    names: Names = None,
    at_once: AtOnce = 1,
    as_json: AsJson = False,
    list_only: Annotated[
        bool, typer.Option("--list", callback=list_rules, is_eager=True, help="Say what the rules are.")
    ] = False,
) -> None:
    """Try the event stream of a server, rule by rule, over HTTP alone.

    Exit codes: 0 all that was tried passed, 1 a rule failed, 2 nothing could be tried.
    """
    try:
        outcomes = asyncio.run(
            conform(
                url,
                token or _stored_token(data_dir),
                restart_command=restart_command,
                names=names or (),
                at_once=at_once,
                tell=_quiet if as_json else _tell,
            )
        )
    except NotReady as reason:
        typer.echo(f"{url} cannot be tried: {reason}", err=True)
        raise typer.Exit(NOT_POSSIBLE) from None
    summary = report(outcomes)
    typer.echo(json.dumps(summary) if as_json else _last_line(outcomes))
    raise typer.Exit(0 if summary["ok"] else FAILED)


def _stored_token(data_dir: Path) -> str:
    try:
        return (data_dir / "token").read_text("utf-8").strip()
    except OSError:
        raise NotReady("a token is needed, in LINGXI_TOKEN or in the data folder's file `token`") from None


def _quiet(rule: Rule, outcome: Outcome) -> None:
    """With --json nothing is said before the end."""


def _tell(rule: Rule, outcome: Outcome) -> None:
    mark = "passed   " if outcome.ok else "FAILED   " if outcome.tried else "not tried"
    count = f"{outcome.passed}/{outcome.passed + outcome.failed}" if outcome.tried else "–"
    typer.echo(f"{mark}  {rule.name:20} {count:>9}  {rule.sentence}")
    if outcome.why:
        typer.echo(f"           {outcome.why}")


def _last_line(outcomes: dict[str, Outcome]) -> str:
    passed = sum(outcome.ok for outcome in outcomes.values())
    not_tried = [name for name, outcome in outcomes.items() if not outcome.tried]
    said = f", not tried: {', '.join(not_tried)}" if not_tried else ""
    return f"{passed} of {len(outcomes)} rules passed{said}"


if __name__ == "__main__":
    typer.run(main)
