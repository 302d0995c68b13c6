"""An alert or a code without an entry in the runbook means red."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lingxi.domain.errors import ITEM_CODES, PROBLEMS

ROOT = Path(__file__).resolve().parents[2]
RUNBOOK = (ROOT / "docs/runbook.md").read_text("utf-8")
ALERTS = [
    name
    for path in sorted((ROOT / "infra/monitoring").glob("*.yml"))
    for name in re.findall(r"^\s*- alert: (\w+)", path.read_text("utf-8"), re.MULTILINE)
]


@pytest.mark.parametrize("code", [*map(str, PROBLEMS), *ITEM_CODES])
def test_every_code_has_an_entry(code: str) -> None:
    row = re.search(rf"^\| `{code}` \|(.+)\|(.+)\|(.+)\|$", RUNBOOK, re.MULTILINE)
    assert row is not None, f"docs/runbook.md has no row for {code}"
    assert all(cell.strip() for cell in row.groups())
    over, _, otherwise = row[3].partition("; else ")
    assert over.strip() and otherwise.strip(), f"{code}: when is it over, and what was it when it isn't that?"


def test_no_entry_is_of_a_code_that_is_not_there() -> None:
    rows = re.findall(r"^\| `([\w]+)` \|", RUNBOOK, re.MULTILINE)
    assert sorted(rows) == sorted([*map(str, PROBLEMS), *ITEM_CODES])


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_has_an_entry(alert: str) -> None:
    entry = re.search(rf"^## {alert}\n(.+?)(?=^#|\Z)", RUNBOOK, re.MULTILINE | re.DOTALL)
    assert entry is not None, f"docs/runbook.md has no entry for {alert}"
    parts = dict(re.findall(r"^- \*\*([\w ]+)\*\*: (.+?)(?=^- \*\*|\Z)", entry[1], re.MULTILINE | re.DOTALL))
    assert list(parts) == ["The user sees", "First look", "Do", "Over when", "Else"]
    for part in ("First look", "Do"):
        assert re.search(r"`[^`]+`|\]\(#", parts[part]), f"{alert}: {part} has no command and leads nowhere"


def test_no_entry_is_of_an_alert_that_is_not_there() -> None:
    assert sorted(re.findall(r"^## (Lingxi\w+)$", RUNBOOK, re.MULTILINE)) == sorted(ALERTS)
    pages = [path.read_text("utf-8") for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]]
    named = {one for page in pages for one in re.findall(r"`(Lingxi[A-Z]\w+)`", page)}
    assert named - set(ALERTS) == set()


@pytest.mark.parametrize("section", ["Codes of requests", "Codes of items"])
def test_what_all_codes_have_in_common_is_a_command(section: str) -> None:
    (intro,) = re.findall(rf"^# {section}\n(.+?)^\|", RUNBOOK, re.MULTILINE | re.DOTALL)
    assert re.search(r"`(grep|lingxi why) [A-Z_]+`", intro)


def test_links_within_the_runbook_lead_to_a_heading() -> None:
    headings = {
        re.sub(r"[^\w -]", "", one).lower().replace(" ", "-")
        for one in re.findall(r"^#+ (.+)$", RUNBOOK, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", RUNBOOK)) <= headings
