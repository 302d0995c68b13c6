"""The bytes of each call of a BullMQ script for one queue: whatever never changes is joined once, here.

Key and argument orders are those of bullmq 3.4.4 (its `scripts.py`, and the heads of the Lua files). The tests beside
run every template against the real scripts, and Node's BullMQ against what they leave behind.
"""

from __future__ import annotations

from collections.abc import Callable

import msgpack

from lingxi.broker.job import ITEM_OPTIONS, JobOptions
from lingxi.broker.resp import bulk, command
from lingxi.broker.scripts import load_script

BULL_PREFIX = "bull"  # BullMQ's default; dashboards and workers in other languages look there
FAILED_JOBS_KEPT = 1000

_NEXT_KEYS = "wait active prioritized events stalled limiter delayed paused meta pc"
SCRIPT_NAMES = (
    "addStandardJob",
    "addPrioritizedJob",
    "moveToActive",
    "moveToFinished",
    "moveJobFromActiveToWait",
    "moveToDelayed",
    "extendLocks",
    "moveStalledJobsToWait",
    "pause",
    "getCounts",
)


class Templates:
    """Calls of BullMQ's scripts for the physical queue `name`, with one lock token and lock time."""

    def __init__(self, name: str, token: str, lock_ms: int) -> None:
        self.prefix = f"{BULL_PREFIX}:{name}:".encode()
        self.marker = self._key("marker")
        self._lock_ms = lock_ms
        self._token = token
        self._take = self._open("moveToActive", f"{_NEXT_KEYS} marker", 3) + bulk(self.prefix)
        self._take_tail = bulk(msgpack.packb({"token": token, "lockDuration": lock_ms, "limiter": None}))
        self._finish_head = {
            target: self._open("moveToFinished", f"{_NEXT_KEYS} {target}", 8, absent_keys=3)
            for target in ("completed", "failed")
        }
        self._give_back = self._open(
            "moveJobFromActiveToWait", "active wait stalled paused meta limiter prioritized marker events", 3
        )
        self._retry_head = self._open("moveToDelayed", "marker active prioritized delayed", 9, absent_keys=7)
        self._retry_keys = bulk(*map(self._key, ("events", "meta", "stalled", "wait", "limiter", "pc")))
        self._extend = self._open("extendLocks", "stalled", 4) + bulk(self.prefix)
        self._stalled = self._open(
            "moveStalledJobsToWait", "stalled wait active stalled-check meta paused marker events repeat", 4
        )
        self.pause = self._pause("wait paused", b"paused")
        self.resume = self._pause("paused wait", b"resumed")
        states = (b"wait", b"paused", b"prioritized", b"active", b"delayed", b"completed", b"failed")
        script = load_script("getCounts")
        self.counts = script.opening([self.prefix], len(states)) + bulk(*states)
        self.lengths = b"".join(
            command(count, self._key(state))
            for count, state in ((b"LLEN", "wait"), (b"ZCARD", "prioritized"), (b"LLEN", "paused"))
        )
        # BullMQ's score of a job: its priority × 2³², and a counter.
        self.line = self.lengths + command(b"ZRANGE", self._key("prioritized"), b"0", b"0", b"WITHSCORES")
        self.ring = command(b"ZADD", self.marker, b"0", b"0")

    # ── one command each ─────────────────────────────────────────────────────────────────────────────────
    def adder(
        self, priority: int, timestamp_ms: int, kind: JobOptions = ITEM_OPTIONS
    ) -> Callable[[bytes, bytes], bytes]:
        """(job id, data) → one add. Priority 0 goes to the wait list, others to the prioritized set behind it."""
        options: dict[str, object] = {
            "attempts": kind.attempts, "delay": 0, "removeOnComplete": True, "removeOnFail": True
        }  # fmt: skip
        if kind.backoff_ms:
            options["backoff"] = {"type": "exponential", "delay": kind.backoff_ms}
        if kind.first:
            options["lifo"] = True
        if priority:
            options["priority"] = priority
            keys = "marker meta id prioritized delayed completed active events pc"
            head = self._open("addPrioritizedJob", keys, 4)
        else:
            keys = "wait paused meta id completed delayed active events marker"
            head = self._open("addStandardJob", keys, 4)
        tail = bulk(msgpack.packb(options), b"%d" % timestamp_ms)
        # The packed argument is the array [prefix, id, name, timestamp, and five nils that flows and schedulers use].
        before = b"\x99" + msgpack.packb(self.prefix.decode()) + b"\xd9"
        after = msgpack.packb(kind.name) + msgpack.packb(timestamp_ms) + b"\xc0" * 5
        fixed = len(before) + 1 + len(after)

        def add(job_id: bytes, data: bytes) -> bytes:
            return b"%b$%d\r\n%b%c%b%b\r\n$%d\r\n%b\r\n%b" % (
                head, fixed + len(job_id), before, len(job_id), job_id, after, len(data), data, tail
            )  # fmt: skip

        return add

    def take(self, now_ms: int) -> bytes:
        """The next job becomes active and ours."""
        return self._take + bulk(b"%d" % now_ms) + self._take_tail

    def completer(self, now_ms: int, *, fetch_next: bool) -> Callable[[bytes], bytes]:
        """job id → it is done and gone; the reply may hold the next job."""
        return self._finisher("completed", now_ms, b"returnvalue", b"null", kept=0, fetch_next=fetch_next)

    def failer(self, now_ms: int, reason: bytes) -> Callable[[bytes], bytes]:
        """job id → it failed for good, and is kept among the last FAILED_JOBS_KEPT so that somebody sees it."""
        return self._finisher(
            "failed", now_ms, b"failedReason", reason, kept=FAILED_JOBS_KEPT, fetch_next=False
        )

    def give_back(self, job_id: bytes) -> bytes:
        return self._give_back + bulk(job_id, self._token.encode(), self.prefix + job_id)

    def retry_later(
        self, job_id: bytes, now_ms: int, delay_ms: int, reason: bytes, *, charged: bool
    ) -> bytes:
        """The job is delayed; `charged`: one attempt more was made, and failed because of `reason`."""
        fields = msgpack.packb(["failedReason", reason], use_bin_type=False) if charged else b""
        arguments = (self.prefix, b"%d" % now_ms, job_id, self._token.encode(), b"%d" % delay_ms)
        return b"".join((
            self._retry_head, bulk(self.prefix + job_id), self._retry_keys,
            bulk(*arguments, b"0" if charged else b"1", fields, b"0", b""),
        ))  # fmt: skip

    def extend_locks(self, job_ids: list[bytes]) -> bytes:
        tokens = msgpack.packb([self._token] * len(job_ids))
        return self._extend + bulk(tokens, msgpack.packb(job_ids, use_bin_type=False), b"%d" % self._lock_ms)

    def recover_stalled(self, now_ms: int, *, most_stalls: int, interval_ms: int) -> bytes:
        return self._stalled + bulk(b"%d" % most_stalls, self.prefix, b"%d" % now_ms, b"%d" % interval_ms)

    def wait(self, seconds: float) -> bytes:
        """Block until somebody rings, at most `seconds`."""
        return command(b"BZPOPMIN", self.marker, b"%.3f" % seconds)

    # ── parts ────────────────────────────────────────────────────────────────────────────────────────────
    def _key(self, name: str) -> bytes:
        return self.prefix + name.encode()

    def _open(self, script: str, keys: str, argument_count: int, *, absent_keys: int = 0) -> bytes:
        """EVALSHA with its keys, the last `absent_keys` of which follow with each job."""
        return load_script(script).opening(
            [self._key(key) for key in keys.split()], argument_count, absent_keys
        )

    def _pause(self, keys: str, verb: bytes) -> bytes:
        return self._open("pause", f"{keys} meta prioritized events delayed marker", 1) + bulk(verb)

    def _finisher(
        self, target: str, now_ms: int, field: bytes, value: bytes, *, kept: int, fetch_next: bool
    ) -> Callable[[bytes], bytes]:
        options = {
            "token": self._token, "keepJobs": {"count": kept}, "limiter": None, "lockDuration": self._lock_ms,
            "attempts": 1, "attemptsMade": 0, "maxMetricsSize": "",
            "fpof": False, "cpof": False, "idof": False, "rdof": False,
        }  # fmt: skip
        head, prefix = self._finish_head[target], self.prefix
        middle = bulk(self._key(f"metrics:{target}"), self.marker)
        tail = bulk(b"%d" % now_ms, field, value, target.encode(), b"1" if fetch_next else b"")
        tail += bulk(prefix, msgpack.packb(options))

        def finish(job_id: bytes) -> bytes:
            size = len(job_id)
            return b"%b$%d\r\n%b%b\r\n%b$%d\r\n%b\r\n%b" % (
                head, len(prefix) + size, prefix, job_id, middle, size, job_id, tail
            )  # fmt: skip

        return finish
