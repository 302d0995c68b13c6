"""What several processes must spell alike: queues and groups, Redis keys and channels, outbox event types, failpoints."""

from typing import Final

PAYLOAD_VERSION: Final = 1  # `v` of job data, outbox payloads and webhooks

# ── queues ───────────────────────────────────────────────────────────────────────────────────────────────
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "photo": ("photo:process", "photo:fingerprint"),
    "media": ("media:verify", "media:probe"),
    "video": ("video:poster", "video:transcode"),
    "delivery": ("export:archive", "webhook:deliver"),
    "demo": ("demo:drill",),
}
QUEUES: Final[tuple[str, ...]] = tuple(queue for queues in GROUPS.values() for queue in queues)


def physical_queue(queue: str) -> str:
    """BullMQ forbids ':' in queue names: `media:verify` is `media-verify` in Redis."""
    return queue.replace(":", "-")


# ── priorities: the wire's word → what PostgreSQL and BullMQ sort by (smaller goes first) ────────────────
PRIORITIES: Final[dict[str, int]] = {"live": 0, "normal": 1, "bulk": 2}
PRIORITY_NAMES: Final[dict[int, str]] = {number: name for name, number in PRIORITIES.items()}

# ── Redis keys (BullMQ's own begin with `bull:`) ─────────────────────────────────────────────────────────
REDIS_PREFIX: Final = "lingxi:"
HEARTBEAT_KEY: Final = "lingxi:worker:heartbeat:{queue}"
HEARTBEAT_TTL_SECONDS: Final = 30
DISPATCH_LOCK_KEY: Final = "lingxi:lock:outbox-dispatch"
DISPATCH_LOCK_TTL_MS: Final = 5_000
FINISHED_COUNTS_KEY: Final = (
    "lingxi:finished:{queue}:{minute}"  # hash {completed, failed}; minute = unix time // 60
)
TOTALS_KEY: Final = (
    "lingxi:totals"  # hash: counters and histograms of all processes, see observability/tallies.py
)
MARKER_KEY: Final = "lingxi:marker"  # gone or different: this Redis was wiped or restored

# ── pub/sub channels: hints only, polling is the floor ───────────────────────────────────────────────────
HINT_OUTBOX: Final = "lingxi:hint:outbox"  # payload empty
HINT_TASKS: Final = "lingxi:hint:tasks"  # comma-separated task ids
HINT_ALBUMS: Final = "lingxi:hint:albums"  # comma-separated album ids
HINT_ACCESS: Final = "lingxi:hint:access"  # a token or a share was revoked
PROGRESS_CHANNEL: Final = "lingxi:progress"  # JSON of an itemProgress frame

# ── outbox ───────────────────────────────────────────────────────────────────────────────────────────────
EVENT_ITEMS_QUEUED: Final = "items.queued"
EVENT_TASK_ENDED: Final = "task.ended"
EVENT_PHOTO_UPLOADED: Final = "photo.uploaded"
EVENTS_OF_ALBUMS: Final = ("photo.published", "photo.updated", "photo.removed")
WEBHOOK_EVENTS: Final = (*EVENTS_OF_ALBUMS, EVENT_TASK_ENDED)  # what an endpoint may subscribe to
EVENT_TYPES: Final = (EVENT_ITEMS_QUEUED, EVENT_TASK_ENDED, EVENT_PHOTO_UPLOADED, *EVENTS_OF_ALBUMS)
DEAD_LETTERED: Final = "dead_lettered"  # outbox_events.last_error of an event given up on
ITEMS_PER_EVENT: Final = 500
EVENTS_PER_ROUND: Final = 20
MAX_EVENT_ATTEMPTS: Final = 10
DISPATCH_TIMEOUT_SECONDS: Final = 5.0

# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────
JOB_NAME: Final = "item"
PHOTO_QUEUE: Final = "photo:process"
FINGERPRINT_QUEUE: Final = "photo:fingerprint"
PHOTO_JOB_NAME: Final = "photo"  # the first publication of a photo
PHOTO_ATTEMPTS: Final = 3
# It doubles: a storage that is away for a minute costs no photo its last attempt.
PHOTO_BACKOFF_SECONDS: Final = 25.0
FOREIGN_JOB: Final = "foreign_job"
CANARY_JOB_NAME: Final = "canary"  # asks a queue's workers whether they work
CANARY_ID_PREFIX: Final = "canary-"  # of its job's id; a number follows
WEBHOOK_QUEUE: Final = "webhook:deliver"
WEBHOOK_ATTEMPTS: Final = 10  # of a delivery; the waits between them are in `processors/webhook_deliver.py`

# ── failpoints: every boundary that a test can turn into kill, error or pause ────────────────────────────
FAILPOINTS: Final[tuple[str, ...]] = (
    "api.before_insert",
    "api.after_insert",
    "api.before_commit",
    "api.after_commit",
    "outbox.after_claim",
    "outbox.before_send",
    "outbox.after_send",
    "outbox.before_commit",
    "outbox.after_commit",
    "outbox.before_plan",
    "outbox.after_canary",
    "worker.before_canary",
    "worker.before_claim",
    "worker.after_claim",
    "worker.before_run",
    "worker.after_run",
    "worker.before_commit",
    "worker.after_commit",
    "worker.after_ack",
    "sweep.before_commit",
    "sweep.after_commit",
    "photo_sweep.before_commit",
    "photo_sweep.after_commit",
    "photo_sweep.after_add",
    "holds.after_apply",
    "tus.after_store",
    "tus.before_complete",
    "tus.after_complete",
    "stream.between_snapshot_and_subscribe",
    "storage.before_rename",
    "storage.after_put",
    "collector.before_move",
    "collector.before_commit",
    "outputs.after_store",
    "webhook.after_response",
    "photo.after_claim",
    "photo.after_fetch",
    "photo.after_encode",
    "photo.between_variants",
    "photo.after_store",
    "photo.before_commit",
    "photo.after_commit",
    "photo.before_done",
    "photo.after_done",
)
