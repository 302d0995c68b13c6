"""Commits what became of attempts, in batches, and only then lets their jobs be acknowledged.

A batch whose commit failed, or whose answer was lost, is sent again as it is: who finds its own ending there is told
`already`. A batch that PostgreSQL refuses for one item's data is split until only the guilty one is left, and that one fails.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence

from lingxi.broker.errors import BrokerError
from lingxi.broker.hints import Hints
from lingxi.broker.stats import FinishedCounts
from lingxi.db.session import is_bad_data, is_unavailable
from lingxi.domain.decide import Decision, Failed, decide
from lingxi.domain.errors import ITEM_CODES
from lingxi.observability import failpoints, tracing
from lingxi.observability.logging import get_logger
from lingxi.observability.tallies import Tallies
from lingxi.services.attempt_lines import keep_attempt_lines
from lingxi.services.claim_items import ItemKey
from lingxi.services.finish_items import Ending, Finished, finish_items
from lingxi.worker.ledger import Ledger, Running
from lingxi.worker.store import Store
from lingxi.worker.traced import end_attempt

_OURS = frozenset(("accepted", "already"))  # the verdicts on an ending that PostgreSQL has

_log = get_logger("worker.finisher")


class Finisher:
    """`committed(runnings)` is told of attempts that need nothing more but the acknowledgement of their jobs."""

    def __init__(
        self,
        ledger: Ledger,
        store: Store,
        hints: Hints,
        stats: FinishedCounts,
        tallies: Tallies,
        committed: Callable[[Sequence[Running]], None],
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._hints = hints
        self._stats = stats
        self._tallies = tallies
        self._committed = committed
        self.counts: Counter[str] = Counter()  # accepted, already, superseded, dropped, invalid
        self._untold: Counter[str] = Counter()  # final states that the counts in Redis do not have yet

    async def work(self, batch: list[Running]) -> None:
        """Commit a batch; raises when it must be tried again."""
        ours = [
            running for running in batch if running.claim.fence in self._ledger.attempts
        ]  # not done before
        if not ours:
            return
        await failpoints.reach("worker.before_commit")
        try:
            await self._finish(ours)
        except Exception as error:
            if is_unavailable(error):
                self._drop_expired(ours)
            raise

    def count(self, state: str) -> None:
        """Something that is no item ended: `succeeded` or `failed`, for the counts of the last hour."""
        self._untold[state] += 1

    async def tell(self) -> None:
        """Add what was committed to the counts of the last hour; best effort."""
        told, self._untold = self._untold, Counter()
        try:
            await self._stats.add(self._ledger.queue, told["succeeded"], told["failed"])
        except BrokerError:
            self._untold.update(told)

    async def _finish(self, batch: Sequence[Running]) -> None:
        began_ns = time.time_ns()
        endings = [Ending(one.claim.key, one.claim.fence, _decision(one)) for one in batch]
        try:
            async with self._store.connection() as connection:
                verdicts = await finish_items(connection, endings)
        except Exception as error:
            if not is_bad_data(error):
                raise
            await self._finish_apart(batch, error)
            return
        await failpoints.reach("worker.after_commit")
        self._account(batch, verdicts, began_ns)
        await self._keep_lines(batch)

    async def _keep_lines(self, batch: Sequence[Running]) -> None:
        """What attempts that did not succeed have logged, for whoever asks why; best effort, and after the commit."""
        lines = {
            one.claim.fence: list(one.lines)
            for one in batch
            if one.lines and _decision(one).outcome != "succeeded"
        }
        if not lines:
            return
        try:
            async with self._store.connection() as connection:
                await keep_attempt_lines(connection, lines)
        except Exception as error:
            _log.warning("lines_not_kept", count=len(lines), reason=type(error).__name__)

    async def _finish_apart(self, batch: Sequence[Running], error: Exception) -> None:
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._finish(batch[:middle])
            await self._finish(batch[middle:])
            return
        (guilty,) = batch
        if guilty.replaced:  # its error cannot be stored either: leave it to the sweep
            _log.error("ending_refused", item_id=str(guilty.context.item.id), exc_info=error)
            self._forget([guilty], "invalid")
            return
        _log.warning("result_refused", item_id=str(guilty.context.item.id), reason=type(error).__name__)
        attempt, most = guilty.claim.attempt, guilty.claim.max_attempts
        guilty.decision = decide(Failed.with_code("result_invalid"), attempt=attempt, max_attempts=most)
        guilty.replaced = True
        await self._finish(batch)

    def _account(
        self, batch: Sequence[Running], verdicts: dict[tuple[ItemKey, int], Finished], began_ns: int
    ) -> None:
        task_ids = set()
        judged: list[tuple[Running, str]] = []
        for running in batch:
            key, fence = running.claim.key, running.claim.fence
            answer = verdicts.get((key, fence))
            verdict = _verdict(running, answer)
            judged.append((running, verdict))
            self.counts[verdict] += 1
            if running.span is not None:
                end_attempt(running, verdict, commit_began_ns=began_ns)
            if answer is None or verdict == "superseded":
                _log.info(
                    "attempt_superseded", queue=self._ledger.queue, item_id=str(running.context.item.id)
                )
                continue
            task_ids.add(key.task_id)
            self._untold[answer.state] += 1
        self._tally(judged)
        self._hints.publish_tasks(task_ids)
        self._release(batch)

    def _tally(self, batch: Sequence[tuple[Running, str]]) -> None:
        """For the metrics: what became of the attempts, how long their jobs had waited, how long they ran."""
        queue, tallies = self._ledger.queue, self._tallies
        ours = [running for running, verdict in batch if verdict in _OURS]
        outcomes = Counter(verdict for _, verdict in batch if verdict not in _OURS)
        outcomes.update(_decision(running).outcome for running in ours)
        for outcome, count in outcomes.items():
            tallies.count("lingxi_item_attempts_total", queue, outcome, by=count)
        to_wall_clock = time.time() - time.monotonic()
        tallies.observe_all(
            "lingxi_item_wait_seconds",
            queue,
            seconds=[one.claimed_at + to_wall_clock - one.delivery.timestamp_ms / 1000 for one in ours],
        )
        tallies.observe_all(
            "lingxi_item_run_seconds", queue, seconds=[one.decided_at - one.claimed_at for one in ours]
        )
        # Successes are in the metrics: a line each would cost more than they do.
        for running in ours:
            decision = _decision(running)
            if decision.outcome == "succeeded":
                continue
            running.context.log.info(
                "attempt_finished", queue=queue, outcome=decision.outcome, code=decision.error_code
            )
            if (code := decision.error_code) is not None:
                tallies.count("lingxi_item_failures_total", queue, code if code in ITEM_CODES else "other")

    def _drop_expired(self, batch: Sequence[Running]) -> None:
        """PostgreSQL is away, and these attempts are past their deadline: no lease holds their items any more."""
        expired = [running for running in batch if running.expired]
        if expired:
            _log.warning("results_dropped", queue=self._ledger.queue, count=len(expired))
            self._forget(expired, "dropped")

    def _forget(self, batch: Sequence[Running], verdict: str) -> None:
        self.counts[verdict] += len(batch)
        self._tallies.count("lingxi_item_attempts_total", self._ledger.queue, verdict, by=len(batch))
        for running in batch:
            tracing.end(running.span, failed=verdict)
        self._release(batch)

    def _release(self, batch: Sequence[Running]) -> None:
        for running in batch:
            self._ledger.attempts.pop(running.claim.fence, None)
        self._committed(batch)


def _decision(running: Running) -> Decision:
    assert running.decision is not None
    return running.decision


def _verdict(running: Running, answer: Finished | None) -> str:
    """`already` means that this very ending was committed before; the state tells it from a sweep that came between."""
    if answer is None:
        return "superseded"
    if answer.verdict == "already" and answer.state not in _STATES_AFTER[_decision(running).outcome]:
        return "superseded"
    return answer.verdict


_STATES_AFTER = {
    "succeeded": {"succeeded"},
    "failed": {"failed"},
    "retrying": {"retrying", "failed", "cancelled"},  # a cancel may have come with it, or after it
    "released": {"queued", "cancelled"},
}
