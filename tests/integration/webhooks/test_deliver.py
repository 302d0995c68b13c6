"""webhook:deliver to a receiver on loopback: signatures, every code it can give, waits, disabling, crashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from lingxi.processors import webhook_deliver
from lingxi.processors.contract import Processor
from lingxi.processors.outgoing.post import Limits, Poster
from lingxi.processors.webhook_deliver import MAX_WAIT_SECONDS, WAITS_SECONDS, _wait, retry_after_seconds
from lingxi.services.webhook_endpoints import rotate_secret
from lingxi.testing import POINTS, Bench
from tests.integration.webhooks.conftest import (
    LOOPBACK,
    Hooked,
    deliver_with,
    endpoint_row,
    in_bench,
    row_of,
)
from tests.integration.webhooks.receiver import Receiver, Reply

Hook = Callable[..., Hooked]
Deliver = Processor[Any]


def test_it_arrives_with_a_signature_that_the_library_verifies(
    bench: Bench, deliver: Deliver, hook: Hook, receiver: Receiver
) -> None:
    hooked = hook()
    receiver.reset(Reply(204, body=b""))
    ran = bench.run(deliver, hooked.input)
    assert (ran.state, ran.result["status"]) == ("succeeded", 204)
    (got,) = receiver.received
    assert got.path == "/hook" and got.headers["content-type"] == "application/json"
    assert got.id == str(hooked.event_id)
    sent = got.verified_by(hooked.secret)
    assert (sent["v"], sent["type"]) == (1, "task.ended")
    assert sent["data"] == {"taskId": "t", "type": "demo:drill", "status": "succeeded", "round": 1}
    assert datetime.fromisoformat(sent["timestamp"]).tzinfo is not None
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "QUFB" * 10).verify(got.body, dict(got.headers))
    row = row_of(bench, hooked)
    assert (row["response_status"], row["response_body"], row["attempts"]) == (204, "", 1)
    assert row["delivered_at"] is not None and row["error_code"] is None


def test_while_rotating_both_secrets_sign_and_afterwards_the_new_one_alone(
    bench: Bench, deliver: Deliver, hook: Hook, receiver: Receiver
) -> None:
    hooked = hook()

    async def rotate(connection: Any) -> Any:
        return await rotate_secret(connection, bench.workspace_id, hooked.endpoint.id, overlap_seconds=3600)

    _, fresh = in_bench(bench, rotate)
    bench.run(deliver, hooked.input)
    (got,) = receiver.received
    assert len(got.headers["webhook-signature"].split()) == 2
    assert got.verified_by(hooked.secret) == got.verified_by(fresh)

    bench.fetch("update webhook_endpoints set previous_until = clock_timestamp() - interval '1 second'")
    bench.run(deliver, hooked.input)
    late = receiver.received[1]
    assert late.id == got.id
    late.verified_by(fresh)
    with pytest.raises(WebhookVerificationError):
        late.verified_by(hooked.secret)


def test_what_is_refused_is_tried_again_under_the_same_id_and_the_last_answer_is_kept(
    bench: Bench, deliver: Deliver, hook: Hook, receiver: Receiver
) -> None:
    hooked = hook()
    receiver.reset(
        Reply(500),
        Reply(429, {"Retry-After": "7"}),
        Reply(302, {"Location": "/x"}),
        Reply(200, body=b"\0\xff" + b"x" * 9000),
    )
    ran = bench.run(deliver, hooked.input)
    assert ran.state == "succeeded" and ran.outcomes == ["retrying"] * 3 + ["succeeded"]
    assert {got.id for got in receiver.received} == {str(hooked.event_id)} and len(receiver.received) == 4
    assert {got.path for got in receiver.received} == {"/hook"}, "no redirect was followed"
    row = row_of(bench, hooked)
    assert row["attempts"] == 4 and len(row["response_body"]) == 2048
    assert row["response_body"].startswith("\ufffd\ufffdx")
    assert endpoint_row(bench, hooked)["failures"] == 0
    messages = [attempt.error.message for attempt in ran.item.attempts if attempt.error]
    assert messages[2] == "The endpoint answered 302. Redirects are not followed."


def test_it_gives_up_after_ten_attempts_and_says_what_was_answered(
    bench: Bench, deliver: Deliver, hook: Hook, receiver: Receiver
) -> None:
    hooked = hook()
    receiver.reset(Reply(503, body=b"closed"))
    ran = bench.run(deliver, hooked.input)
    assert (ran.code, ran.message) == ("endpoint_refused", "The endpoint answered 503.")
    assert len(receiver.received) == 10
    row = row_of(bench, hooked)
    assert (row["response_status"], row["response_body"], row["error_code"]) == (
        503,
        "closed",
        "endpoint_refused",
    )
    endpoint = endpoint_row(bench, hooked)
    assert endpoint["failures"] == 10 and endpoint["enabled"], "ten within a moment are no reason"


def test_410_disables_the_endpoint(bench: Bench, deliver: Deliver, hook: Hook, receiver: Receiver) -> None:
    hooked = hook()
    receiver.reset(Reply(410))
    ran = bench.run(deliver, hooked.input)
    assert ran.code == "endpoint_gone" and len(receiver.received) == 1
    assert endpoint_row(bench, hooked)["disabled_reason"] == "gone"
    assert [
        row["verb"]
        for row in bench.fetch(
            "select verb from audit_log where target = $1", f"webhook:{hooked.endpoint.id}"
        )
    ] == ["webhook.gone"]
    assert bench.run(deliver, hooked.input).code == "endpoint_disabled"
    assert len(receiver.received) == 1, "nothing is sent to it any more"


def test_one_that_has_failed_for_three_days_is_disabled_with_an_audit_row(
    bench: Bench, deliver: Deliver, hook: Hook, receiver: Receiver
) -> None:
    hooked = hook()
    receiver.reset(Reply(500))
    since = "failing_since = clock_timestamp() - interval '72 hours'"  # and the ninth failure is one too few
    bench.fetch(f"update webhook_endpoints set failures = 8, {since} where id = $1", hooked.endpoint.id)
    ran = bench.run(deliver, hooked.input)
    assert ran.code == "endpoint_disabled" and ran.outcomes == ["retrying", "failed"]
    assert ran.message.startswith("The endpoint answered 500.")
    assert endpoint_row(bench, hooked)["disabled_reason"] == "failing"
    verbs = bench.fetch(
        "select verb, actor from audit_log where target = $1", f"webhook:{hooked.endpoint.id}"
    )
    assert [tuple(row) for row in verbs] == [("webhook.failing", None)]


def test_nobody_listens(bench: Bench, deliver: Deliver, hook: Hook) -> None:
    with Receiver() as gone:
        url = gone.url
    hooked = hook(url)
    ran = bench.run(deliver, hooked.input)
    assert ran.code == "endpoint_unreachable" and len(ran.outcomes) == 10
    row = row_of(bench, hooked)
    assert (row["response_status"], row["error_code"]) == (None, "endpoint_unreachable")


def test_one_that_does_not_answer_costs_bounded_time(bench: Bench, hook: Hook, receiver: Receiver) -> None:
    import threading

    release = threading.Event()
    receiver.on_request = lambda: release.wait(30) and None
    quick = deliver_with(bench, Poster(LOOPBACK, Limits(connect=5, silence=0.1, total=5)))
    try:
        ran = bench.run(quick, hook().input)
    finally:
        release.set()
    assert ran.code == "endpoint_timeout"


def test_an_address_inside_is_refused_and_not_tried_again(
    bench: Bench, hook: Hook, receiver: Receiver
) -> None:
    strict = deliver_with(bench, Poster(type(LOOPBACK)([])))
    hooked = hook(receiver.url.replace("http:", "https:"))
    ran = bench.run(strict, hooked.input)
    assert (ran.code, ran.outcomes) == ("address_refused", ["failed"])
    assert receiver.received == []
    assert endpoint_row(bench, hooked)["failures"] == 1


def test_what_is_not_there_is_not_found(bench: Bench, deliver: Deliver, hook: Hook) -> None:
    hooked = hook()
    other = {**hooked.input, "eventId": str(uuid4())}
    assert bench.run(deliver, other).code == "delivery_not_found"
    bench.fetch("update webhook_events set workspace_id = (select id from workspaces limit 1)")
    bench.fetch("delete from webhook_endpoints")
    assert bench.run(deliver, hooked.input).code == "delivery_not_found"
    with pytest.raises(ValueError, match="endpointId"):
        bench.run(deliver, {**hooked.input, "endpointId": "7"})


def test_an_outage_before_the_outcome_is_written_sends_it_again(
    bench: Bench, deliver: Deliver, hook: Hook, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, cuts = webhook_deliver.record_outcome, [asyncpg.ConnectionDoesNotExistError("cut")]

    async def cut_once(*given: Any, **named: Any) -> bool:
        if cuts:
            raise cuts.pop()
        return await real(*given, **named)

    monkeypatch.setattr(webhook_deliver, "record_outcome", cut_once)
    hooked = hook()
    ran = bench.run(deliver, hooked.input)
    assert ran.outcomes == ["retrying", "succeeded"]
    assert [one.error.code for one in ran.item.attempts if one.error] == ["database_unavailable"]
    assert [got.id for got in receiver.received] == [str(hooked.event_id)] * 2


@pytest.mark.parametrize("point", [p for p in POINTS if p != "after_fetch"])
def test_wherever_it_is_killed_it_ends_once_under_one_id(
    bench: Bench, deliver: Deliver, hook: Hook, receiver: Receiver, point: str
) -> None:
    hooked = hook()
    ran = bench.crash(deliver, hooked.input, at=point)
    assert ran.state == "succeeded"
    assert {got.id for got in receiver.received} == {str(hooked.event_id)}
    row = row_of(bench, hooked)
    assert row["attempts"] == 1 and row["delivered_at"] is not None
    again = point == "before_commit"  # the answer had come, and was not written down
    assert len(receiver.received) == 1 + again


def test_waits_grow_to_a_day_and_are_never_less_than_was_asked_for() -> None:
    for attempt, wait in enumerate(WAITS_SECONDS, 1):
        assert wait * 0.89 <= _wait(attempt, 0) <= min(wait * 1.11, MAX_WAIT_SECONDS)
    assert _wait(1, 3000) == 3000 and _wait(9, 0) >= 0.89 * MAX_WAIT_SECONDS
    now = datetime(2026, 12, 1, 20, tzinfo=UTC)
    later = format_datetime(now + timedelta(seconds=90), usegmt=True)
    earlier = format_datetime(now - timedelta(seconds=90), usegmt=True)
    far = format_datetime(now + timedelta(days=9), usegmt=True)
    given = ["120", " 7 ", later, earlier, far, "9" * 40, "-5", "soon", "", None]
    assert [retry_after_seconds(text, now) for text in given] == [120, 7, 90, 0, 86400, 86400, 0, 0, 0, 0]
    odd = ["², ٣", f"Wed, {'9' * 20} Dec 2026 10:00:00 GMT", f"Wed, 02 Dec 2026 10:00:00 +{'9' * 20}"]
    odd += [f"Wed, 02 Dec {'9' * 20} 10:00:00 GMT", "Wed, 02 Dec 2026 99:99:99 GMT", "\x00" * 9_000]
    assert {retry_after_seconds(text, now) for text in odd} == {0}


def test_retry_after_decides_when_the_next_attempt_is(
    bench: Bench, deliver: Deliver, hook: Hook, receiver: Receiver
) -> None:
    """The wait that the worker writes: the bench itself does not wait."""
    import lingxi.testing.bench as module

    waits: list[float] = []
    decide = module.decide

    def noting(*args: Any, **named: Any) -> Any:
        decision = decide(*args, **named)
        waits.append(decision.delay_seconds)
        return decision

    receiver.reset(Reply(503, {"Retry-After": "4000"}), Reply(503), Reply())
    hooked = hook()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "decide", noting)
        assert bench.run(deliver, hooked.input).state == "succeeded"
    assert waits[0] == 4000 and 270 <= waits[1] <= 330
    assert json.loads(receiver.received[0].body) == json.loads(receiver.received[2].body)
