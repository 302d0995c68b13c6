"""The alert rules say what the contract says, and do what they are for."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.programs import need_program

FOLDER = Path(__file__).resolve().parents[3] / "infra" / "monitoring"
RULES = FOLDER / "queue-alerts.yml", FOLDER / "further-alerts.yml"
FIXED = [
    ("LingxiQueueBacklog", "lingxi_queue_oldest_waiting_seconds > 600", "5m", "warning"),
    ("LingxiQueueHighFailureRatio", "lingxi_queue_failure_ratio > 0.05", "10m", "warning"),
    (
        "LingxiWorkerHeartbeatMissing",
        "lingxi_worker_heartbeat_age_seconds < 0 or lingxi_worker_heartbeat_age_seconds > 60",
        "2m",
        "critical",
    ),
    ("LingxiOutboxDeadLetter", "lingxi_outbox_dead_letter_total > 0", "1m", "critical"),
]


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _field(name: str, text: str) -> list[str]:
    return re.findall(rf"^ +(?:- )?{name}: (.+)$", text, re.MULTILINE)


def test_the_four_are_exactly_those_of_the_contract() -> None:
    text = RULES[0].read_text("utf-8")
    fields = [_field(name, text) for name in ("alert", "expr", "for", "severity")]
    assert list(zip(*fields, strict=True)) == FIXED


def test_every_alert_says_what_it_means_and_leads_to_its_entry_of_the_runbook() -> None:
    for path in RULES:
        text = path.read_text("utf-8")
        alerts = _field("alert", text)
        assert _field("runbook", text) == [f"docs/runbook.md#{name.lower()}" for name in alerts]
        assert len(_field("summary", text)) == len(_field("description", text)) == len(alerts)


def test_every_alert_is_shown_to_fire_and_to_keep_quiet() -> None:
    for path in RULES:
        tests = (FOLDER / "tests" / f"{path.stem}.test.yml").read_text("utf-8")
        for name in _field("alert", path.read_text("utf-8")):
            blocks = re.findall(
                rf"(?:alertname: {name}, exp_alerts: \[\]|alertname: {name}\n +exp_alerts:\n)", tests
            )
            assert {block.endswith("[]") for block in blocks} == {True, False}, name


@pytest.mark.parametrize("name", ["queue-alerts", "further-alerts"])
def test_the_rules_fire_when_they_must_and_resolve(name: str) -> None:
    promtool = need_program("promtool", "to run the tests of the rules")
    _run(promtool, "check", "rules", FOLDER / f"{name}.yml")
    _run(promtool, "test", "rules", FOLDER / "tests" / f"{name}.test.yml")


def test_the_examples_are_valid() -> None:
    _run(need_program("promtool", "to check the example"), "check", "config", FOLDER / "prometheus.yml")
    _run(need_program("amtool", "to check the example"), "check-config", FOLDER / "alertmanager.yml")
