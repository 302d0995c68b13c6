"""Try the rules against a server, and report."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import httpx

from lingxi.conformance import rules_albums, rules_opening, rules_resuming, rules_trouble
from lingxi.conformance.connection import ConnectionLost
from lingxi.conformance.rule import Bench, Check, NotTried, Outcome, Rule
from lingxi.conformance.server import Refused, Server
from lingxi.conformance.sse import ProtocolError
from lingxi.conformance.work import quick

RULES: tuple[Rule, ...] = (
    *rules_opening.RULES,
    *rules_resuming.RULES,
    *rules_trouble.RULES,
    *rules_albums.RULES,
)

Tell = Callable[[Rule, Outcome], None]


class NotReady(Exception):
    """The server cannot be tried at all, and why."""


async def conform(
    url: str,
    token: str,
    *,
    restart_command: str | None = None,
    names: Iterable[str] = (),
    at_once: int = 1,
    tell: Tell = lambda *_: None,
) -> dict[str, Outcome]:
    """The outcome of each rule (of `names`, or of all), told as soon as it is known. Raises NotReady.

    `at_once` rules are tried beside each other, and those that mostly wait beside all; the restart comes last, alone.
    """
    rules = chosen(names)
    async with httpx.AsyncClient(trust_env=False) as http:
        server = Server(url.rstrip("/"), token, http)
        await _is_ready(server)
        bench = Bench(server, restart_command)
        outcomes: dict[str, Outcome] = {}
        places = asyncio.Semaphore(at_once)

        async def attempt(rule: Rule) -> None:
            async with nullcontext() if rule.slow else places:
                outcomes[rule.name] = await _try(rule, bench)
            tell(rule, outcomes[rule.name])

        together = sorted((rule for rule in rules if not rule.alone), key=lambda rule: not rule.slow)
        await asyncio.gather(*(attempt(rule) for rule in together))
        for rule in rules:
            if rule.alone:
                await attempt(rule)
    return outcomes


def chosen(names: Iterable[str]) -> Sequence[Rule]:
    """The rules with these names, all for none; NotReady for an unknown name."""
    wanted = set(names)
    if unknown := wanted - {rule.name for rule in RULES}:
        raise NotReady(f"there is no rule {', '.join(sorted(unknown))}")
    return [rule for rule in RULES if not wanted or rule.name in wanted]


def report(outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """The JSON of a run. `ok`: every rule that was tried passed, and some was."""
    tried = [outcome for outcome in outcomes.values() if outcome.tried]
    return {
        "ok": bool(tried) and all(outcome.ok for outcome in tried),
        "rules": {
            name: {"passed": o.passed, "failed": o.failed, "tried": o.tried, "why": o.why}
            for name, o in outcomes.items()
        },
    }


async def _is_ready(server: Server) -> None:
    try:
        await server.ended((await server.submit(quick(1)))["id"], timeout_seconds=30)
    except TimeoutError:
        raise NotReady(
            "a task of one item did not end within 30 s: is a worker with QUEUE=demo running?"
        ) from None
    except (Refused, httpx.HTTPError) as error:
        raise NotReady(str(error)) from error


async def _try(rule: Rule, bench: Bench) -> Outcome:
    check = Check()
    try:
        async with asyncio.timeout(180):
            await rule.attempt(bench, check)
    except NotTried as reason:
        return Outcome(0, 0, False, str(reason))
    except TimeoutError:
        check(False, "it took too long: something that was waited for did not come")
    except (ProtocolError, ConnectionLost, Refused, OSError, httpx.HTTPError) as error:
        check(False, f"{type(error).__name__}: {error}")
    except (KeyError, IndexError, TypeError, AttributeError, AssertionError, ValueError) as error:
        check(
            False,
            f"an answer or a frame does not have the form of the contract ({type(error).__name__}: {error})",
        )
    if not check.passed and not check.failed:
        check(False, "nothing was observed")
    return Outcome(check.passed, check.failed, True, "; ".join(check.reasons))
