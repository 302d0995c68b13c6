"""Undocumented means red: codes, metrics, commands, states, frames, settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from lingxi.cli.app import build
from lingxi.domain.errors import ITEM_CODES, PROBLEMS
from lingxi.domain.machine import Event
from lingxi.domain.states import ItemState, TaskStatus
from lingxi.services.check_invariants import OF_ALBUMS, OF_ALL, OF_TASKS
from lingxi.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
METRIC_AREAS = (
    "canary|collector|database|disk|dispatcher|http|invariant|item|outbox"
    "|photo|processor|pruned|queue|quota|stream|worker"
)


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.parametrize("code", [*map(str, PROBLEMS), *ITEM_CODES])
def test_every_code_has_a_row(code: str) -> None:
    assert re.search(rf"^\| `{code}` \|", text("docs/errors.md"), re.MULTILINE)


def test_no_row_without_a_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", text("docs/errors.md"), re.MULTILINE)
    assert sorted(rows) == sorted([*map(str, PROBLEMS), *ITEM_CODES])


def test_every_metric_is_documented() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src/lingxi").rglob("*.py"))
    named = set(re.findall(rf'"(lingxi_(?:{METRIC_AREAS})_[a-z_]+)"', source))
    assert len(named) >= 6
    documented = set(re.findall(r"^\| `(lingxi_\w+)` \|", text("docs/metrics.md"), re.MULTILINE))
    assert named == documented


def test_every_command_is_documented() -> None:
    commands = typer.main.get_command(build()).commands  # type: ignore[attr-defined]
    documented = set(re.findall(r"^## `lingxi ([a-z-]+)", text("docs/cli.md"), re.MULTILINE))
    assert documented == set(commands)


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
