"""What a benchmark says: medians with spreads, and an exit code that tells the truth."""

import json

import pytest

from benchmarks.report import Report
from benchmarks.stats import Spread


def test_spread_of_runs() -> None:
    spread = Spread.of([30.0, 10.0, 20.0])
    assert (spread.median, spread.low, spread.high) == (20.0, 10.0, 30.0)
    assert spread.as_json(0) == {"median": 20, "min": 10, "max": 30, "runs": 3}
    assert spread.text() == "20 (10–30)"


def test_percentile_is_the_nearest_rank() -> None:
    spread = Spread.of([float(value) for value in range(1, 101)])
    assert [spread.percentile(percent) for percent in (1, 50, 99, 100)] == [1, 50, 99, 100]
    assert Spread.of([7.0]).percentile(99) == 7


def test_a_spread_needs_a_run() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        Spread.of([])


def test_only_required_claims_decide() -> None:
    report = Report("items")
    report.claim("an aim", 0.5, holds=False, required=False)
    assert report.ok
    report.claim("a promise", 7.9, holds=False)
    assert not report.ok
    assert "claim FAILS: a promise (measured: 7.9)" in report.as_text()
    assert "aim not reached: an aim (measured: 0.5)" in report.as_text()


def test_json_has_the_agreed_shape() -> None:
    report = Report("items", lingxi={"itemsPerSecond": 5}, peers={"celery": {}}, ratios={"celery": 1 / 3})
    body = json.loads(report.as_json())
    assert body["bench"] == "items"
    assert body["lingxi"] == {"itemsPerSecond": 5}
    assert body["peers"] == {"celery": {}}
    assert body["ratios"] == {"celery": 0.33}
    assert body["ok"] is True
