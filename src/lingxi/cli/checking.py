"""`lingxi check`: what is wrong with this configuration, and how to mend it. `lingxi conform`: a server's manners."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

import typer

from lingxi.cli import running
from lingxi.cli.exits import CommandError, Exit
from lingxi.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption
from lingxi.cli.output import Output

if TYPE_CHECKING:
    from lingxi.db.checks import PostgresReport
    from lingxi.settings import Settings

CLOCK_TOLERANCE_SECONDS = 2.0
CONNECT_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `mend` says what to do when it is not in order."""

    part: str
    level: Literal["ok", "note", "problem"]
    text: str
    mend: str = ""


def register(app: typer.Typer) -> None:
    app.command("check")(check)
    # Its options are those of another command, whose import would slow every start: all are passed on.
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command("conform", context_settings=passed_on, add_help_option=False)(conform)


def check(data_dir: DataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False) -> None:
    """Say what is wrong here and how to mend it. Exits 1 if anything is."""
    output = Output(as_json)
    findings = asyncio.run(_look(data_dir))
    marks = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}
    for finding in findings:
        output.say(f"{marks[finding.level]}  {finding.part}: {finding.text}")
        if finding.mend:
            output.say(f"         → {finding.mend}")
    problems = sum(finding.level == "problem" for finding in findings)
    output.say()
    output.say("Everything is in order." if not problems else f"{problems} to mend.")
    output.result({"ok": not problems, "findings": [asdict(finding) for finding in findings]})
    if problems:
        raise typer.Exit(Exit.NOT_SUCCEEDED)


def conform(context: typer.Context) -> None:
    """Try a server's event streams against the rules. Over HTTP only."""
    from lingxi.conformance.__main__ import main as try_rules

    rules = typer.Typer(add_completion=False, rich_markup_mode=None)
    rules.command()(try_rules)
    raise typer.Exit(rules(context.args, prog_name="lingxi conform", standalone_mode=False) or Exit.OK)


async def _look(data_dir: Path) -> list[Finding]:
    return [finding async for finding in _findings(data_dir)]


async def _findings(data_dir: Path) -> AsyncIterator[Finding]:
    from lingxi.settings import SettingsError

    try:
        settings = running.settings_beside(data_dir)
    except SettingsError as error:
        for line in str(error).splitlines():
            yield Finding("settings", "problem", line, "Set it right in the environment (see .env.example).")
        return
    except CommandError as error:
        yield Finding(
            "settings", "problem", str(error), "Or give DATABASE_URL and REDIS_URL of servers of yours."
        )
        return
    yield Finding("settings", "ok", f"queues: {', '.join(settings.deployed_queues)}")
    async for finding in _postgres(settings):
        yield finding
    async for finding in _redis(settings):
        yield finding
    yield await _storage(settings)
    for finding in _files(settings):
        yield finding


async def _postgres(settings: Settings) -> AsyncIterator[Finding]:
    from lingxi.db.checks import postgres_report
    from lingxi.db.session import connect

    try:
        connection = await connect(
            settings.database_url, name="lingxi-check", timeout_seconds=CONNECT_TIMEOUT_SECONDS
        )
    except Exception as error:
        text = f"cannot be used: {' '.join(str(error).split()) or type(error).__name__}"
        mend = (
            _believe("sslrootcert in DATABASE_URL")
            if _is_disbelief(text)
            else ("Is it running, and are address, user and password in DATABASE_URL right?")
        )
        yield Finding("PostgreSQL", "problem", text, mend)
        return
    try:
        before = datetime.now(UTC)
        report = await postgres_report(connection)
        apart = _apart(report.now, before, datetime.now(UTC))
    finally:
        await connection.close()
    for finding in _of_report(report):
        yield finding
    yield _clock("PostgreSQL", apart)
    yield await _migrations(settings.migration_url, may_create=report.may_create)


def _of_report(report: PostgresReport) -> list[Finding]:
    from lingxi.db.checks import OLDEST_VERSION_NUMBER

    findings = []
    if report.version_number < OLDEST_VERSION_NUMBER:
        text = f"version {report.version} is too old"
        findings.append(Finding("PostgreSQL", "problem", text, "PostgreSQL 15 or newer is needed."))
    else:
        text = f"version {report.version}, database {report.database}, role {report.role}"
        findings.append(Finding("PostgreSQL", "ok", text))
    if report.is_replica:
        mend = "DATABASE_URL must lead to the primary."
        findings.append(Finding("PostgreSQL", "problem", "this server is a read-only replica", mend))
    if report.encoding != "UTF8":
        mend = "Make the database with ENCODING 'UTF8'."
        findings.append(
            Finding("PostgreSQL", "problem", f"the database's encoding is {report.encoding}", mend)
        )
    if report.forbidden_tables:
        text = f"{report.role} may not read and write {', '.join(report.forbidden_tables)}"
        mend = f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "{report.role}";'
        findings.append(Finding("PostgreSQL", "problem", text, mend))
    return findings


async def _migrations(database_url: str, *, may_create: bool) -> Finding:
    from lingxi.db.migrate import NeedsDirectAddress, current_revision
    from lingxi.db.revision import head_revision, is_current

    try:
        current, head = await current_revision(database_url), head_revision()
    except NeedsDirectAddress as error:
        return Finding("schema", "problem", str(error), "")
    if current == head:
        return Finding("schema", "ok", f"at {head}, which is this version's")
    if is_current(current):
        return Finding("schema", "note", f"at {current}, later than this version's {head}: it works on it")
    rights = "" if may_create else " (its role needs CREATE on the schema for that)"
    text = f"at {current or 'nothing (never migrated)'}, but this version needs {head}"
    return Finding("schema", "problem", text, f"Run `lingxi migrate`{rights}.")


async def _redis(settings: Settings) -> AsyncIterator[Finding]:
    from lingxi.broker.checks import server_report
    from lingxi.broker.client import api_client
    from lingxi.broker.errors import BrokerError

    if not settings.redis_url:
        yield Finding("Redis", "problem", "REDIS_URL is not set", "Set it, or start `lingxi up`.")
        return
    client = api_client(settings.redis_url)
    try:
        report = await server_report(client)
        before = datetime.now(UTC)
        seconds, micros = await client.time()
        apart = _apart(datetime.fromtimestamp(seconds + micros / 1e6, UTC), before, datetime.now(UTC))
    except BrokerError as error:
        text = " ".join(str(error).split())
        mend = (
            _believe("ssl_ca_certs in REDIS_URL")
            if _is_disbelief(text)
            else (
                "Is it running, and are address and password in REDIS_URL right? Submissions need no Redis; workers do."
            )
        )
        yield Finding("Redis", "problem", text, mend)
        return
    finally:
        await client.aclose()
    policy = report.eviction_policy or "not told"
    if report.ok:
        yield Finding("Redis", "ok", f"{report.server} {report.version}, eviction policy {policy}")
    for problem in report.problems:
        yield Finding("Redis", "problem", *_split_mend(problem))
    for note in report.notes:
        yield Finding("Redis", "note", note)
    yield _clock("Redis", apart)


def _is_disbelief(text: str) -> bool:
    """Was the server's certificate not believed? OpenSSL's reason stands in the text."""
    return "CERTIFICATE_VERIFY_FAILED" in text


def _believe(parameter: str) -> str:
    return f"{parameter} must name the authority that signed its certificate, and the host be one that it is for."


def _split_mend(sentence: str) -> tuple[str, str]:
    """A problem's text and, where it says so after a colon or in a sentence of its own, how to mend it."""
    text, dot, mend = sentence.partition(". ")
    return (text, mend) if dot else (sentence, "")


async def _storage(settings: Settings) -> Finding:
    """A bucket is written to and read; of a folder that is not there yet it is looked whether it can be made."""
    if settings.storage_url.startswith("s3://"):
        return await _bucket(settings)
    given = unquote(urlsplit(settings.storage_url).path)
    storage = Path(given) if given else settings.data_dir / "objects"
    nearest = next(folder for folder in (storage, *storage.parents) if folder.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return Finding("storage", "ok", f"{storage} can be written")
    mend = f"Give this user the right to write to {nearest}, or set STORAGE_URL."
    return Finding("storage", "problem", f"{storage} cannot be written", mend)


async def _bucket(settings: Settings) -> Finding:
    from lingxi.bootstrap.common import StartRefused, make_storage
    from lingxi.storage import StorageUnavailable

    mend = "Is it running, and are STORAGE_URL and the AWS_… settings right? The keys must allow to read, write, list and delete."
    try:
        storage = make_storage(settings)
    except StartRefused as refused:
        return Finding("storage", "problem", str(refused), mend)
    try:
        await storage.check()
    except StorageUnavailable as error:
        return Finding("storage", "problem", f"{settings.storage_url}: {error}", mend)
    finally:
        await storage.close()
    return Finding("storage", "ok", f"{settings.storage_url} can be written, read and cleared")


def _files(settings: Settings) -> list[Finding]:
    data_dir = settings.data_dir
    findings = [
        Finding("files", "problem", f"{secret} can be read by others", f"chmod 600 {secret}")
        for secret in (data_dir / "token", data_dir / running.FILE)
        if secret.exists() and stat.S_IMODE(secret.stat().st_mode) & 0o077
    ]
    if not settings.lingxi_secret_key:
        text = f"LINGXI_SECRET_KEY is not set: a key is made and kept in {data_dir}"
        mend = "With API processes on several machines, set the same key for all of them."
        findings.append(Finding("settings", "note", text, mend))
    return findings


def _apart(server: datetime, before: datetime, after: datetime) -> timedelta:
    """How far the server's clock is from ours; what the round trip may explain is no difference."""
    if server < before:
        return server - before
    return max(server - after, timedelta(0))


def _clock(part: str, apart: timedelta) -> Finding:
    seconds = apart.total_seconds()
    if abs(seconds) <= CLOCK_TOLERANCE_SECONDS:
        return Finding(f"{part} clock", "ok", "agrees with this machine's")
    text = f"is {abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} this machine's"
    mend = "Leases and deadlines follow the database's clock, so work is safe, but logs will mislead: set up NTP on both."
    return Finding(f"{part} clock", "note", text, mend)
