"""Debian's Prometheus, with the example's configuration, scrapes an API that runs, loads the rules, and answers every query of
the dashboards."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from lingxi.broker.client import api_client
from lingxi.broker.totals import Totals
from lingxi.observability.tallies import COUNTERS, HISTOGRAMS, Tallies
from tests.integration.api.harness import open_api
from tests.support.programs import need_program
from tests.support.waiting import wait_until

FOLDER = Path(__file__).resolve().parents[3] / "infra" / "monitoring"
TRUE_HERE = {  # of an API alone, for which one of each was counted
    "LingxiWorkerHeartbeatMissing",
    "LingxiDispatcherStopped",
    "LingxiInvariantViolated",
}


@contextmanager
def _prometheus(folder: Path, target: str) -> Iterator[str]:
    """Its address. It scrapes `target` every two seconds."""
    program = need_program("prometheus", "to scrape an API")
    text = (FOLDER / "prometheus.yml").read_text("utf-8")
    for was, becomes in (
        ("127.0.0.1:3000", target),
        (": 15s", ": 2s"),
        ("- queue-alerts.yml", f"- {FOLDER}/queue-alerts.yml"),
        ("- further-alerts.yml", f"- {FOLDER}/further-alerts.yml"),
    ):
        assert was in text
        text = text.replace(was, becomes)
    (folder / "prometheus.yml").write_text(text, "utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            yield f"http://127.0.0.1:{port}/api/v1/"
        finally:
            process.kill()
            process.wait()


async def _asked(client: httpx.AsyncClient, path: str, **query: str) -> Any:
    """The data of an answer; None while Prometheus starts."""
    try:
        answer = await client.get(path, params=query)
    except httpx.TransportError:
        return None
    return answer.json()["data"] if answer.status_code == 200 else None


def _queries() -> dict[str, str]:
    """Of all dashboards, by panel."""
    return {
        f"{path.stem}: {panel['title']} {target['refId']}": target["expr"]
        for path in sorted((FOLDER / "dashboards").glob("*.json"))
        for panel in json.loads(path.read_text("utf-8"))["panels"]
        for target in panel["targets"]
    }


async def _count_once(redis_url: str) -> None:
    """As if workers and the dispatcher had counted one of each."""
    tallies, client = Tallies(), api_client(redis_url)
    for name, tally in COUNTERS.items():
        tallies.count(name, *tally.labels)
    for name, tally in HISTOGRAMS.items():
        tallies.observe(name, *tally.labels, seconds=1.0)
    await Totals(client).tell(tallies)
    await client.aclose()


async def test_prometheus_scrapes_an_api_loads_the_rules_and_answers_the_dashboards(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    await _count_once(redis_url)
    async with open_api(database_url, redis_url, tmp_path) as api:
        with _prometheus(tmp_path, api.url.removeprefix("http://")) as address:
            async with httpx.AsyncClient(base_url=address, timeout=30) as client:

                async def scraped() -> Any:
                    data = await _asked(client, "query", query="lingxi_worker_heartbeat_age_seconds")
                    return data and data["result"]

                series = await wait_until(scraped, timeout_seconds=90)
                assert {one["metric"]["job"] for one in series} == {"lingxi-api"}
                assert {one["value"][1] for one in series} == {"-1"}

                async def evaluated() -> Any:
                    """The rules, once all were evaluated after the first scrape: only what is true is on its way."""
                    groups = (await _asked(client, "rules"))["groups"]
                    rules = [rule for group in groups for rule in group["rules"]]
                    active = {rule["name"] for rule in rules if rule["state"] != "inactive"}
                    return rules if active == TRUE_HERE else None

                rules = await wait_until(evaluated, timeout_seconds=90)
                assert len(rules) == 15
                assert {rule["health"] for rule in rules} == {"ok"}

                queries = _queries()
                assert len(queries) > 20

                async def answered() -> Any:
                    """Takes out what answers with data (a rate needs two scrapes); one that is wrong fails at once."""
                    for panel, query in list(queries.items()):
                        answer = await client.get("query", params={"query": query})
                        assert answer.status_code == 200, (panel, answer.text)
                        if answer.json()["data"]["result"]:
                            del queries[panel]
                    return not queries

                await wait_until(answered, timeout_seconds=90, message=f"queries with data; left: {queries}")
