"""Undocumented means red: codes, metrics, commands, states, frames, settings."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from lingxi.cli.app import build
from lingxi.domain.errors import ITEM_CODES, PROBLEMS
from lingxi.domain.machine import Event
from lingxi.domain.states import ItemState, TaskStatus
from lingxi.services.check_invariants import OF_ALBUMS, OF_ALL, OF_TASKS
from lingxi.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
Command = Any  # click's, which typer brings along
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "infra").rglob("*.md")),
]
SOURCES = sorted((ROOT / "src/lingxi").rglob("*.py"))
# What else is spelt like one: cookies, a context, databases of `lingxi.testing`. Settings are left out by their name.
NO_METRICS = {
    "lingxi_session",
    "lingxi_share_",
    "lingxi_kept_lines",
    "lingxi_bench_",
}
OTHERS_VARIABLES = {  # of the environment, that are no settings: of clients, tests, benchmarks and other programs
    "LINGXI_URL", "LINGXI_TOKEN", "LINGXI_TYPE", "LINGXI_TEST_SERVERS", "LINGXI_BENCH_ENV", "WEBHOOK_SECRET", "SSL_CERT_FILE",
    "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_RESOURCE_ATTRIBUTES", "REQUEST_ID", "ON_ERROR_STOP", "O_APPEND",
}  # fmt: skip
SHARED_OPTIONS = {"--url", "--token", "--data-dir", "--json", "--help", "--install-completion"}


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def code_in(page: str) -> list[str]:
    """What a page shows as code: lines of blocks, and spans."""
    blocks = re.findall(r"^```.*?^```", page, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL))
    return [line for block in blocks for line in block.splitlines()] + spans


@cache
def commands() -> dict[str, Command]:
    """By what is typed, `album create` for example; groups too."""

    def below(path: str, command: Command) -> dict[str, Command]:
        found = {path: command} if path else {}
        for name, one in getattr(command, "commands", {}).items():
            found |= below(f"{path} {name}".strip(), one)
        return found

    return below("", typer.main.get_command(build()))


def options_of(command: Command) -> set[str]:
    return {
        option
        for parameter in command.params
        if parameter.param_type_name == "option"
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--")
    }


@pytest.mark.parametrize("code", [*map(str, PROBLEMS), *ITEM_CODES])
def test_every_code_has_a_row(code: str) -> None:
    assert re.search(rf"^\| `{code}` \|", text("docs/errors.md"), re.MULTILINE)


def test_no_row_without_a_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", text("docs/errors.md"), re.MULTILINE)
    assert sorted(rows) == sorted([*map(str, PROBLEMS), *ITEM_CODES])


def test_codes_that_items_fail_with_are_known() -> None:
    """Written out where an attempt fails: a code that is not in the table would have no row anywhere."""
    failing = {"Permanent", "Transient", "Failed", "ItemError", "ImageError", "VideoError"}
    codes = {
        node.args[0].value
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in failing
        if path.parts[-2] != "conformance" and node.args and isinstance(node.args[0], ast.Constant)
    }
    assert len(codes) > 20
    assert codes <= set(ITEM_CODES)


def test_every_metric_is_documented() -> None:
    """Whatever in the source is spelt like a metric is one, or has to be named above; none is put together from parts."""
    named = {
        node.value
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant)
        if isinstance(node.value, str) and re.fullmatch(r"lingxi_[a-z0-9_]+", node.value)
    }
    metrics = named - NO_METRICS - set(Settings.model_fields)
    assert len(metrics) > 30
    assert metrics == set(re.findall(r"^\| `(lingxi_\w+)` \|", text("docs/metrics.md"), re.MULTILINE))


def test_pages_name_metrics_that_are_there() -> None:
    there = set(re.findall(r"^\| `(lingxi_\w+)` \|", text("docs/metrics.md"), re.MULTILINE))
    roles = {"lingxi_app", "lingxi_owner"} | NO_METRICS
    named = {
        (page.name, re.sub(r"_(bucket|count|sum)$", "", word))
        for page in PAGES
        for code in code_in(page.read_text("utf-8"))
        for word in re.findall(r"\blingxi_[a-z0-9_]*[a-z0-9]\b(?![*.])", code)
    }
    assert {one for one in named if one[1] not in there | roles} == set()


def test_every_command_is_documented() -> None:
    documented = set(re.findall(r"^## `lingxi ([a-z-]+)", text("docs/cli.md"), re.MULTILINE))
    assert documented == {path for path in commands() if " " not in path}


@pytest.mark.parametrize("path", [path for path in commands() if " " not in path])
def test_every_subcommand_and_option_is_documented(path: str) -> None:
    """In the section of its command, as code; and the section shows no other."""
    (section,) = re.findall(
        rf"^## `lingxi {path}\b(?!-).*?(?=^## |\Z)", text("docs/cli.md"), re.MULTILINE | re.DOTALL
    )
    shown = {word.strip(",.…") for code in code_in(section) for word in re.split(r"[\s=|]+", code)}
    own = {name: one for name, one in commands().items() if name.split()[0] == path}
    options = {option for one in own.values() for option in options_of(one)}
    assert options - SHARED_OPTIONS - shown == set(), "options that are not shown"
    assert {name.split()[1] for name in own if " " in name} - shown == set(), "subcommands that are not shown"
    assert {word for word in shown if word.startswith("--")} - options - SHARED_OPTIONS == set()


def test_options_of_all_commands_are_documented_once() -> None:
    (intro, *_) = text("docs/cli.md").split("\n## ")
    assert {word for code in code_in(intro) for word in code.split()} >= SHARED_OPTIONS


def test_pages_show_commands_and_options_that_are_there() -> None:
    """Everywhere in the documentation, from the word `lingxi` on."""
    wrong = []
    for page in PAGES:
        for code in code_in(page.read_text("utf-8")):
            for line in re.findall(r"(?:^|run |-u lingxi |run --rm )lingxi ([a-z].*)", code):
                words = re.split(r"\s+", re.split(r"\s[|>#]|[;&]|\$\(", line)[0].strip("`…"))
                name = " ".join(words[:2]) if " ".join(words[:2]) in commands() else words[0]
                command = commands().get(name)
                if command is None or (
                    hasattr(command, "commands") and re.fullmatch(r"[a-z-]+", "".join(words[1:2]))
                ):
                    wrong.append((page.name, line))
                    continue
                below = [
                    one for path, one in commands().items() if path == name or path.startswith(f"{name} ")
                ]
                known = {option for one in below for option in options_of(one)} | SHARED_OPTIONS
                given = {re.split("[=…,.]", word)[0] for word in words if word.startswith("--")}
                wrong += [(page.name, line, option) for option in given - known]
    assert wrong == []


def test_every_option_says_what_it_is_for() -> None:
    silent = [
        (path, parameter.name)
        for path, command in commands().items()
        for parameter in command.params
        if parameter.param_type_name == "option" and not getattr(parameter, "help", None)
    ]
    assert silent == []


@pytest.mark.parametrize("word", [*ItemState, *TaskStatus])
def test_every_state_has_a_paragraph(word: str) -> None:
    assert f"**{word}**:" in text("ARCHITECTURE.md")


@pytest.mark.parametrize("event", list(Event))
def test_every_edge_has_a_label(event: str) -> None:
    assert re.search(rf"\b{event}\b", text("ARCHITECTURE.md"))


@pytest.mark.parametrize("frame", ["snapshot", "item", "progress", "itemProgress", "end", "reset", "closing"])
def test_every_frame_is_documented(frame: str) -> None:
    assert f"| `{frame}` |" in text("docs/stream.md")


@pytest.mark.parametrize("name", list(Settings.model_fields))
def test_every_setting_has_a_description(name: str) -> None:
    description = Settings.model_fields[name].description
    assert description
    assert description.endswith(".")
    assert f"# {name.upper()}=" in text(".env.example")


def test_pages_name_settings_that_are_there() -> None:
    known = {name.upper() for name in Settings.model_fields} | OTHERS_VARIABLES
    named = {
        (page.name, word)
        for page in PAGES
        if page.name != "CHANGELOG.md"
        for code in code_in(page.read_text("utf-8"))
        for word in re.findall(r"(?<![\w$.-])[A-Z][A-Z0-9]*(?:_[A-Z]+)+(?![\w.])", code)
    }
    assert len(named) > 50
    assert {one for one in named if one[1] not in known} == set()


def test_links_in_the_documentation_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "infra").rglob("*.md")]:
        targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
        broken += [
            f"{page.name}: {one}" for one in targets if "://" not in one and not (page.parent / one).exists()
        ]
    assert broken == []


@pytest.mark.parametrize("page", ["docs/guarantees.md", "docs/cases.md", "docs/faults.md"])
def test_pages_name_tests_that_are_there(page: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", text(page)))
    assert len(named) > 20
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert named - there == set()


def test_every_case_names_a_test() -> None:
    rows = re.findall(r"^\| (C\d+) \|.*\|(.*)\|$", text("docs/cases.md"), re.MULTILINE)
    assert len(rows) == len(dict(rows)) >= 45
    assert [case for case, tests in rows if "`test_" not in tests] == []


def test_every_invariant_is_documented() -> None:
    checked = {name.removeprefix("invariants/") for name in (*OF_TASKS, *OF_ALBUMS, *OF_ALL)}
    section = text("docs/guarantees.md").split("## Invariants")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == checked
