"""The suite against somebody else's server: it passes when the contract is kept, and each break of it is noticed."""

from __future__ import annotations

import pytest

from lingxi.conformance import rules_albums
from lingxi.conformance.run import RULES, conform, report
from tests.conformance.small_server import FAULTS, TOKEN, serving


async def test_a_server_that_keeps_the_contract_passes_every_rule() -> None:
    async with serving() as url:
        outcomes = await conform(url, TOKEN)
    assert list(outcomes) and set(outcomes) == {rule.name for rule in RULES}
    not_tried = {name for name, outcome in outcomes.items() if not outcome.tried}
    assert not_tried == {"restart"}
    assert {name: o.why for name, o in outcomes.items() if o.tried and not o.ok} == {}
    assert report(outcomes)["ok"] and not report(outcomes)["rules"]["restart"]["tried"]


def test_every_rule_has_a_fault_that_it_must_notice() -> None:
    assert {rule.name for rule in RULES} - {"restart"} == set(FAULTS.values())


@pytest.mark.parametrize(("fault", "rule"), FAULTS.items())
async def test_a_broken_server_is_noticed(fault: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for patience in (
        "TOLD_SECONDS",
        "REVOKED_SECONDS",
    ):  # what a broken server never says is not waited for long
        monkeypatch.setattr(rules_albums, patience, 2.0)
    async with serving(fault) as url:
        outcomes = await conform(url, TOKEN, names=[rule])
    outcome = outcomes[rule]
    assert outcome.tried and outcome.failed and outcome.why and not outcome.ok
    assert not report(outcomes)["ok"]
