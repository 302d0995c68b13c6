"""Bugs that somebody could write into the statements: each a text that is replaced in one function of the database."""

from __future__ import annotations

from typing import Any, NamedTuple

import asyncpg


class Bug(NamedTuple):
    function: str
    old: str
    new: str


BUGS = {
    "no fence": Bug("finish_items", "i.state = 'running' and i.attempt_id = g.fence", "i.state = 'running'"),
    "a final item is finished again": Bug(
        "finish_items", "i.state = 'running' and i.attempt_id", "i.attempt_id"
    ),
    "counted twice": Bug(
        "finish_items",
        "succeeded_items = succeeded_items + p.s",
        "succeeded_items = succeeded_items + 2 * p.s",
    ),
    "a failure counted as a success": Bug(
        "finish_items",
        "succeeded_items = succeeded_items + p.s, failed_items = failed_items + p.f",
        "succeeded_items = succeeded_items + p.s + p.f, failed_items = failed_items",
    ),
    "retried although cancelled": Bug(
        "finish_items", "when t.cancel_requested_at is not null then 'failed'", "when false then 'failed'"
    ),
    "given back although cancelled": Bug(
        "finish_items",
        "case when t.cancel_requested_at is not null then 'cancelled' else 'queued' end",
        "'queued'",
    ),
    "a lost attempt is never the last": Bug(
        "finish_items", "g.outcome = 'lost' and i.attempt >= t.max_attempts", "false"
    ),
    "one attempt too many": Bug("finish_items", "i.attempt >= t.max_attempts", "i.attempt > t.max_attempts"),
    "giving back is charged": Bug(
        "finish_items", "then i.attempt - 1 else i.attempt", "then i.attempt else i.attempt"
    ),
    "no end": Bug(
        "finish_items", "from rolled r where r.finished_at is not null)", "from rolled r where false)"
    ),
    "an end a batch": Bug("finish_items", "from rolled r where r.finished_at is not null)", "from rolled r)"),
    "the end has no number": Bug("finish_items", "= 0 then 1 else 0 end,", "= 0 then 0 else 0 end,"),
    "one number for a whole batch": Bug(
        "finish_items",
        "task_seq + row_number() over (partition by f.task_id order by f.position)",
        "task_seq + 1",
    ),
    "no history": Bug(
        "finish_items", "from done d where d.state <> 'succeeded')", "from done d where false)"
    ),
    "waits without an event": Bug(
        "finish_items", "where d.state in ('queued', 'retrying')\n", "where d.state = 'queued'\n"
    ),
    "repeats are superseded": Bug("finish_items", "then 'already'", "then 'superseded'"),
    "a running item is claimed": Bug(
        "claim_items",
        "where i.state = 'queued' or (i.state",
        "where i.state in ('queued', 'running') or (i.state",
    ),
    "a cancelled item is claimed": Bug(
        "claim_items",
        "where i.state = 'queued' or (i.state",
        "where i.state in ('queued', 'cancelled') or (i.state",
    ),
    "retrying items are never claimed": Bug("claim_items", "i.state = 'retrying' and", "false and"),
    "the fence stays": Bug(
        "claim_items",
        "attempt_id = nextval('attempt_ids')",
        "attempt_id = coalesce(i.attempt_id, nextval('attempt_ids'))",
    ),
    "the claim does not count": Bug(
        "claim_items", "attempt = i.attempt + 1", "attempt = greatest(i.attempt, 1)"
    ),
    "suspects are claimed all the same": Bug(
        "claim_items", "p_suspects is null or not f.suspect", "true or not f.suspect"
    ),
    "the sweep does not look again": Bug(
        "finish_items", "i.lease_expires_at < clock_timestamp()) as owned", "true) as owned"
    ),
    "a dead process keeps what it has a lease for": Bug(
        "finish_items", "(not p_only_expired or", "(p_only_expired or"
    ),
    "a superseded attempt renews its item's lease": Bug(
        "renew_leases",
        "where i.attempt_id = a.fence and i.state = 'running' and i.deadline_at > clock_timestamp()\n       for",
        "where i.state = 'running'\n       for",
    ),
    "a superseded attempt hears that it owns its item": Bug(
        "renew_leases",
        "where i.attempt_id = a.fence and i.state = 'running' and i.deadline_at > clock_timestamp()\n$",
        "where i.state = 'running'\n$",
    ),
    "running items are cancelled": Bug(
        "cancel_task", "i.state in ('queued', 'retrying'))", "i.state in ('queued', 'retrying', 'running'))"
    ),
    "retrying items survive a cancel": Bug(
        "cancel_task", "i.state in ('queued', 'retrying'))", "i.state = 'queued')"
    ),
    "a cancel is numbered twice": Bug(
        "cancel_task", "if v.cancel_requested_at is not null then return 'already'; end if;", ""
    ),
    "a cancel does not end the round": Bug(
        "cancel_task", "from rolled r where r.finished_at is not null", "from rolled r where false"
    ),
    "cancelled items are retried": Bug(
        "retry_failed", "and i.state = 'failed')", "and i.state in ('failed', 'cancelled'))"
    ),
    "the cancel outlives its round": Bug("retry_failed", "cancel_requested_at = null, ", ""),
    "attempts go on counting": Bug("retry_failed", "attempt = 0, ", ""),
    "the round stays": Bug(
        "retry_failed", "state = 'queued', round = v.round + 1", "state = 'queued', round = v.round"
    ),
    "a new round without events": Bug(
        "retry_failed", "from again a, rolled r group by", "from again a, rolled r where false group by"
    ),
}


NEED_TWO_ITEMS = {"one number for a whole batch", "cancelled items are retried"}


async def plant(connection: asyncpg.Connection[Any], bug: Bug) -> str:
    """Put the bug into its function; answers the function without it. The text has to be there: a list that has aged is seen."""
    source: str = await connection.fetchval(
        "select pg_get_functiondef(oid) from pg_proc where proname = $1", bug.function
    )
    assert bug.old in source, f"{bug.function} does not hold {bug.old!r} any more"
    await connection.execute(source.replace(bug.old, bug.new))
    return source
