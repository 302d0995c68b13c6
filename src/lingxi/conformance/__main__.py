"""`python -m lingxi.conformance URL`: a line a rule; exit 0 only when every rule that was tried passed."""

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path

from lingxi.conformance.rule import Outcome, Rule
from lingxi.conformance.run import RULES, NotReady, conform, report


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 all that was tried passed, 1 a rule failed, 2 it could not be tried at all."""
    given = _parse(arguments)
    if given.list:
        for rule in RULES:
            _say(f"{rule.name:20} {rule.sentence}")
        return 0
    token = _token()
    if not given.url or not token:
        _say("A URL is needed, and a token in LINGXI_TOKEN or in $LINGXI_DATA_DIR/token.", error=True)
        return 2
    tell = _quiet if given.json else _tell
    try:
        outcomes = asyncio.run(
            conform(
                given.url,
                token,
                restart_command=given.restart_command,
                names=given.rule,
                at_once=given.at_once,
                tell=tell,
            )
        )
    except NotReady as reason:
        _say(f"{given.url} cannot be tried: {reason}", error=True)
        return 2
    return _conclude(outcomes, as_json=given.json)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="conform",
        description="Try the event stream of a server, rule by rule, over HTTP.",
        epilog="The token (role editor) comes from LINGXI_TOKEN, else from the file $LINGXI_DATA_DIR/token.",
    )
    parser.add_argument("url", nargs="?", metavar="URL", help="of the server, e.g. http://127.0.0.1:3000")
    parser.add_argument("--json", action="store_true", help="no lines, one JSON object at the end")
    parser.add_argument(
        "--restart-command", metavar="CMD", help="restarts the server; returns when it serves again"
    )
    parser.add_argument(
        "--rule", action="append", default=[], metavar="NAME", help="only this rule (may be repeated)"
    )
    parser.add_argument(
        "--at-once", type=int, default=1, metavar="N", help="rules tried beside each other (default 1)"
    )
    parser.add_argument("--list", action="store_true", help="the rules")
    return parser.parse_args(arguments)


def _token() -> str:
    if token := os.environ.get("LINGXI_TOKEN", "").strip():
        return token
    try:
        return (Path(os.environ.get("LINGXI_DATA_DIR", ".lingxi")) / "token").read_text("utf-8").strip()
    except OSError:
        return ""


def _quiet(rule: Rule, outcome: Outcome) -> None:
    """With --json nothing is said before the end."""


def _tell(rule: Rule, outcome: Outcome) -> None:
    mark = "passed   " if outcome.ok else "FAILED   " if outcome.tried else "not tried"
    count = f"{outcome.passed}/{outcome.passed + outcome.failed}" if outcome.tried else "–"
    _say(f"{mark}  {rule.name:20} {count:>9}  {rule.sentence}")
    if outcome.why:
        _say(f"           {outcome.why}")


def _conclude(outcomes: dict[str, Outcome], *, as_json: bool) -> int:
    summary = report(outcomes)
    if as_json:
        _say(json.dumps(summary))
    else:
        passed = sum(outcome.ok for outcome in outcomes.values())
        not_tried = [name for name, outcome in outcomes.items() if not outcome.tried]
        said = f", not tried: {', '.join(not_tried)}" if not_tried else ""
        _say(f"{passed} of {len(outcomes)} rules passed{said}")
    return 0 if summary["ok"] else 1


def _say(line: str, *, error: bool = False) -> None:
    (sys.stderr if error else sys.stdout).write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
