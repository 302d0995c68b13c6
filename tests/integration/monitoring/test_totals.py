"""What workers and the dispatcher count reaches the metrics of an API process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lingxi.broker.client import api_client
from lingxi.broker.totals import Totals
from lingxi.observability.tallies import Tallies
from tests.integration.api.harness import Api, open_api
from tests.support.photos import Photos
from tests.support.servers import OwnServer
from tests.support.waiting import wait_until
from tests.support.work import Work, drills


async def _scrape(api: Api) -> dict[str, float]:
    """Samples by name and labels, as they are written."""
    async with api.client() as nobody:
        text = (await nobody.get("metrics")).text
    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(sample.labels[name] for name in sorted(sample.labels))
            samples[f"{sample.name}{{{labels}}}"] = sample.value
    return samples


async def test_attempts_of_items_and_events_of_the_outbox(work: Work, tmp_path: Path) -> None:
    task_id = await work.submit(
        *drills(3),
        {"fail": "permanent"},
        {"fail": "permanent", "failCode": "of_my_own"},
        {"fail": "transient", "failCode": "crashed", "failTimes": 1},
        max_attempts=2,
    )
    async with work.worker():
        await work.ended(task_id)
    async with open_api(work.database_url, work.redis_url, tmp_path) as api:

        async def told() -> Any:
            samples = await _scrape(api)
            return samples if samples.get("lingxi_outbox_events_total{published}", 0) >= 3 else None

        samples = await wait_until(told, timeout_seconds=60)  # the dispatcher tells every two seconds
    attempts = {
        outcome: samples.get(f"lingxi_item_attempts_total{{{outcome},demo:drill}}") for outcome in OUTCOMES
    }
    assert attempts == {"succeeded": 4, "failed": 2, "retrying": 1}
    failures = {code: samples.get(f"lingxi_item_failures_total{{{code},demo:drill}}") for code in CODES}
    assert failures == {"drill_failed": 1, "other": 1, "crashed": 1}
    for name in ("wait", "run"):
        assert samples[f"lingxi_item_{name}_seconds_count{{demo:drill}}"] == 7
        assert samples[f"lingxi_item_{name}_seconds_bucket{{+Inf,demo:drill}}"] == 7
    assert samples["lingxi_outbox_jobs_total{}"] == 7
    assert (
        samples["lingxi_outbox_lag_seconds_count{}"] == 2
    )  # the task's, the retry's; its end needs no sending
    assert (
        samples["lingxi_database_pool_connections{idle}"] + samples["lingxi_database_pool_connections{used}"]
        >= 1
    )
    assert samples["lingxi_collector_up{totals}"] == 1


OUTCOMES = ("succeeded", "failed", "retrying")
CODES = ("drill_failed", "other", "crashed")


async def test_photos_are_timed_from_their_upload(photos: Photos, redis_url: str) -> None:
    photo_id = await photos.new_photo()
    await photos.work.pool.execute(
        "update photo_jobs set created_at = created_at - interval '40 seconds' where photo_id = $1", photo_id
    )
    async with photos.worker():

        async def published() -> Any:
            row = await photos.work.pool.fetchrow("select * from photo_jobs where photo_id = $1", photo_id)
            return row["state"] == "done"

        await wait_until(published)
    client = api_client(redis_url)
    fields = await Totals(client).read()
    await client.aclose()
    assert fields["lingxi_photo_attempts_total|published"] == 1
    assert 40_000_000 <= fields["lingxi_photo_publish_seconds|sum"] < 100_000_000


async def test_what_redis_did_not_take_is_told_later_and_once(own_valkey: OwnServer) -> None:
    tallies, client = Tallies(), api_client(own_valkey.url)
    totals = Totals(client)
    tallies.count("lingxi_outbox_jobs_total", by=2)
    own_valkey.stop()
    await totals.tell(tallies)
    tallies.count("lingxi_outbox_jobs_total")
    own_valkey.start()

    async def told() -> Any:
        await totals.tell(tallies)
        return not tallies.take()

    await wait_until(told, timeout_seconds=60)
    assert (await totals.read()) == {"lingxi_outbox_jobs_total": 3}
    await client.aclose()


@pytest.mark.parametrize("field", ["lingxi_of_a_newer_version|a", "lingxi_item_attempts_total|a", ""])
async def test_a_field_that_this_version_does_not_know_is_left_out(
    field: str, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    client = api_client(redis_url)
    await client.hset("lingxi:totals", field, "1")
    await client.hset("lingxi:totals", "lingxi_outbox_jobs_total", "2")
    await client.aclose()
    async with open_api(database_url, redis_url, tmp_path) as api:
        samples = await _scrape(api)
    assert samples["lingxi_outbox_jobs_total{}"] == 2
    assert not any("newer" in name or name.startswith("lingxi_item_attempts") for name in samples)
