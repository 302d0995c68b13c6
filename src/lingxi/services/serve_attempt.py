"""What a worker in another language does to items over HTTP: the same statements as ours, behind the same fence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.domain.decide import Decision, Happening, decide
from lingxi.domain.ids import item_id, parse_uuid, split_item_id
from lingxi.services.claim_items import Claim, ItemKey, claim_items, existing_items
from lingxi.services.finish_items import Ending, finish_items
from lingxi.services.renew_leases import renew_leases

WhyNot = Literal["unknown", "done", "later"]
_STATES_AFTER = {
    "succeeded": {"succeeded"},
    "failed": {"failed"},
    "retrying": {"retrying", "failed", "cancelled"},  # a cancel may have come with it, or after it
    "released": {"queued", "cancelled"},
}


class AttemptKey(NamedTuple):
    """An attempt as it is named on the wire, `<item id>.<fence>`."""

    item: ItemKey
    fence: int

    @classmethod
    def parse(cls, text: str) -> "AttemptKey | None":
        """None for what names none."""
        item_text, _, fence = text.partition(".")
        item = parse_item(item_text)
        if item is None or not fence.isascii() or not fence.isdigit() or len(fence) > 18:
            return None
        return cls(item, int(fence))

    def __str__(self) -> str:
        return f"{item_id(self.item.task_id, self.item.position)}.{self.fence}"


def parse_item(text: str) -> ItemKey | None:
    """The item of an id; None when it can be none."""
    value = parse_uuid(text)
    if value is None:
        return None
    task_id, position = split_item_id(value)
    return ItemKey(task_id, position) if position > 0 else None


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was claimed, and why the rest was not. unknown: no item of this type · done: it needs no work (final, or runs
    elsewhere, or its time has not come) · later: it waits, and may be asked for again in a second."""

    claims: list[Claim]
    not_claimed: dict[ItemKey, WhyNot]


async def claim_for(
    connection: Connection,
    queue: str,
    keys: Sequence[ItemKey],
    *,
    worker: str,
    lease_seconds: float,
    time_limit_seconds: float,
) -> Claimed:
    """Claim what waits. One suspect at a time, as our own workers do."""
    claims = await claim_items(
        connection,
        queue,
        keys,
        worker=worker,
        lease_seconds=lease_seconds,
        time_limit_seconds=time_limit_seconds,
        suspects=1,
    )
    missing = [key for key in keys if key not in {claim.key for claim in claims}]
    existing = await existing_items(connection, queue, missing) if missing else {}
    why: dict[ItemKey, WhyNot] = {}
    for key in missing:
        waits = existing.get(key)
        why[key] = "unknown" if waits is None else "done" if waits == "no" else "later"
    return Claimed(claims, why)


async def renew_for(connection: Connection, attempt: AttemptKey, *, lease_seconds: float) -> bool:
    """Keep the lease, up to the attempt's deadline; False when the attempt owns its item no more."""
    owned = await renew_leases(connection, [(attempt.item, attempt.fence)], lease_seconds=lease_seconds)
    return (attempt.item, attempt.fence) in owned


class Origin(NamedTuple):
    """Where an attempt belongs."""

    number: int
    max_attempts: int
    type: str
    workspace_id: UUID


async def queue_of(connection: Connection, attempt: AttemptKey) -> str | None:
    """The queue of the item that an attempt is of, whoever owns it; None when there is none."""
    queue: str | None = await connection.fetchval(sql("tasks/type"), attempt.item.task_id)
    return queue


async def origin_of(connection: Connection, attempt: AttemptKey) -> Origin | None:
    """None when the item's last attempt is another one."""
    row = await connection.fetchrow(sql("items/attempt"), *attempt.item, attempt.fence)
    if row is None:
        return None
    return Origin(row["attempt"], row["max_attempts"], row["type"], row["workspace_id"])


class Ended(NamedTuple):
    """`already`: this very ending was committed before. `state`: of the item now."""

    verdict: Literal["accepted", "already"]
    state: str
    decision: Decision


async def finish_for(
    connection: Connection,
    attempt: AttemptKey,
    origin: Origin,
    happening: Happening,
    *,
    backoff_seconds: float,
) -> Ended | None:
    """End the attempt; None when it was superseded, and nothing was written."""
    decision: Decision = decide(
        happening,
        attempt=origin.number,
        max_attempts=origin.max_attempts,
        backoff_base_seconds=backoff_seconds,
    )
    answers = await finish_items(connection, [Ending(attempt.item, attempt.fence, decision)])
    answer = answers.get((attempt.item, attempt.fence))
    if answer is None or answer.verdict == "superseded":
        return None
    if answer.verdict == "already" and (
        answer.state not in _STATES_AFTER[decision.outcome]
        or await connection.fetchval(sql("items/was_lost"), attempt.fence)
    ):
        return None
    return Ended(answer.verdict, answer.state, decision)
