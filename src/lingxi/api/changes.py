"""Changing requests: one transaction for the work, its audit row and, with an Idempotency-Key, its remembered answer.

With a key the key's row is inserted first. Whoever comes second with the same key waits for the first one's end: in this
process on a future, so that fifty waiters do not take fifty connections; across processes on the row in PostgreSQL. A refused
request rolls everything back, its key included.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from lingxi.db.session import Connection, Pool, transaction
from lingxi.domain.errors import KeyReused, LingxiError, MalformedKey
from lingxi.domain.ids import parse_uuid
from lingxi.observability import failpoints
from lingxi.services.record_audit import record_audit
from lingxi.services.remember_answer import KeyScope, StoredAnswer, find_answer, reserve_key, store_answer
from lingxi.services.remember_trace import remember_trace

_KEY = re.compile(rb"[\x21-\x7e]{1,255}")
_ACQUIRE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Done:
    """What a piece of work answers: status, JSON bytes, headers, and what it was done to (`task:<id>`) for the audit."""

    status: int
    body: bytes
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """One changing request. `digest`: SHA-256 of the canonical body. `skip_audit`: write no audit row."""

    workspace_id: UUID | None
    actor: UUID
    verb: str
    request_id: str
    skip_audit: bool = False


def idempotency_key(request: Request) -> str | None:
    """The key that was given; MalformedKey (40002) unless it is 1 to 255 visible ASCII characters, given once."""
    given = [value.strip(b" \t") for name, value in request.scope["headers"] if name == b"idempotency-key"]
    if not given:
        return None
    if len(given) > 1:
        raise MalformedKey("Idempotency-Key must be given once.")
    if not _KEY.fullmatch(given[0]):
        raise MalformedKey("Idempotency-Key must be 1 to 255 visible ASCII characters.")
    return str(given[0].decode("ascii"))


class Changes:
    """Runs changes in transactions, each key's work once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._running: dict[KeyScope, asyncio.Future[StoredAnswer | None]] = {}

    async def run(self, change: Change, work: Callable[[Connection], Awaitable[Done]]) -> Response:
        """Do the work in one transaction with its audit row."""
        async with transaction(self._pool, acquire_timeout_seconds=_ACQUIRE_SECONDS) as connection:
            done = await self._work(connection, change, work)
            await failpoints.reach("api.before_commit")
        await failpoints.reach("api.after_commit")
        return _response(done.status, done.body, done.headers)

    async def run_once(
        self,
        change: Change,
        scope: KeyScope | None,
        digest: bytes,
        work: Callable[[Connection], Awaitable[Done]],
        *,
        refusal: LingxiError | None = None,
    ) -> Response:
        """As `run`; with a key, once for all requests that carry it.

        `refusal` is what is wrong with the request: it is raised unless the key remembers an answer, since a key that
        was used is looked at before the body. Raises KeyReused (40902) when the key's body was another one.
        """
        if scope is None:
            if refusal is not None:
                raise refusal
            return await self.run(change, work)
        while (leader := self._running.get(scope)) is not None:
            if (answer := await asyncio.shield(leader)) is not None:
                return _replay(answer, digest)
        if refusal is not None:
            return await self._replay_or_refuse(scope, digest, refusal)
        return await self._lead(change, scope, digest, work)

    async def _replay_or_refuse(self, scope: KeyScope, digest: bytes, refusal: LingxiError) -> Response:
        async with self._pool.acquire(timeout=_ACQUIRE_SECONDS) as connection:
            answer = await find_answer(connection, scope)
        if answer is None:
            raise refusal
        return _replay(answer, digest)

    async def _lead(
        self, change: Change, scope: KeyScope, digest: bytes, work: Callable[[Connection], Awaitable[Done]]
    ) -> Response:
        future: asyncio.Future[StoredAnswer | None] = asyncio.get_running_loop().create_future()
        self._running[scope] = future
        answer: StoredAnswer | None = None
        try:
            async with transaction(self._pool, acquire_timeout_seconds=_ACQUIRE_SECONDS) as connection:
                found = (
                    None
                    if await reserve_key(connection, scope, digest)
                    else await find_answer(connection, scope)
                )
                if found is None:
                    done = await self._work(connection, change, work)
                    headers = dict(done.headers)
                    await store_answer(connection, scope, status=done.status, headers=headers, body=done.body)
                    await failpoints.reach("api.before_commit")
            await failpoints.reach("api.after_commit")
            answer = found or StoredAnswer(digest, done.status, headers, done.body)
        finally:
            del self._running[scope]
            future.set_result(answer)
        return _replay(found, digest) if found else _response(done.status, done.body, headers)

    async def _work(
        self, connection: Connection, change: Change, work: Callable[[Connection], Awaitable[Done]]
    ) -> Done:
        await failpoints.reach("api.before_insert")
        done = await work(connection)
        await failpoints.reach("api.after_insert")
        if change.verb == "task.retry_failed" and (task_id := parse_uuid(done.target.removeprefix("task:"))):
            await remember_trace(connection, task_id)  # the new round belongs to this request
        if not change.skip_audit:
            await record_audit(
                connection,
                workspace_id=change.workspace_id,
                actor=change.actor,
                verb=change.verb,
                target=done.target,
                request_id=change.request_id,
            )
        return done


def _replay(answer: StoredAnswer, digest: bytes) -> Response:
    if answer.body_sha256 != digest:
        raise KeyReused("This Idempotency-Key was used with a different body.")
    return _response(answer.status, answer.body, {**answer.headers, "Idempotent-Replayed": "true"})


def _response(status: int, body: bytes, headers: Mapping[str, str]) -> Response:
    return Response(body, status, {**headers, "Cache-Control": "no-store"}, "application/json")
