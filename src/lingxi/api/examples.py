"""Examples for the OpenAPI document: one batch of two pictures, as it goes through."""

from typing import Any

TASK_ID = "01938f2e-4c00-7a31-9b5e-6f2d8c1a0000"
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_CREATED = "2026-12-01T20:00:00.000000Z"
_FINISHED = "2026-12-01T20:00:03.250000Z"

NEW_TASK: dict[str, Any] = {
    "type": "media:verify",
    "items": [
        {"ref": "IMG_0001.jpg", "input": {"object": "shoot/IMG_0001.jpg", "expectedSha256": SHA256}},
        {"ref": "IMG_0002.jpg", "input": {"object": "shoot/IMG_0002.jpg"}},
    ],
    "metadata": {"album": "shoot"},
    "priority": "normal",
}


def task(
    status: str,
    cursor: int,
    *,
    round_number: int = 1,
    started: bool = True,
    finished: bool = True,
    **counts: int,
) -> dict[str, Any]:
    """A task of two items."""
    states = ("queued", "running", "retrying", "succeeded", "failed", "cancelled")
    return {
        "id": TASK_ID,
        "type": "media:verify",
        "status": status,
        "round": round_number,
        "priority": "normal",
        "cancelRequested": status in ("cancelling", "cancelled"),
        "counts": {"total": 2, **{state: counts.get(state, 0) for state in states}},
        "metadata": {"album": "shoot"},
        "createdAt": _CREATED,
        "startedAt": "2026-12-01T20:00:00.020000Z" if started else None,
        "finishedAt": _FINISHED if finished else None,
        "cursor": cursor,
    }


SUBMITTED = task("queued", 1, started=False, finished=False, queued=2)
ENDED = task("partially_failed", 6, succeeded=1, failed=1)
CANCELLED = task("cancelled", 5, started=False, cancelled=2)
RETRIED = task("running", 8, round_number=2, finished=False, queued=1, succeeded=1)

_ERROR = {
    "code": "object_not_found",
    "message": "There is no object with this name in the workspace.",
    "retryable": False,
}
ITEM: dict[str, Any] = {
    "id": TASK_ID[:-4] + "0002",
    "index": 1,
    "ref": "IMG_0002.jpg",
    "state": "failed",
    "attempt": 1,
    "input": {"object": "shoot/IMG_0002.jpg"},
    "result": None,
    "error": _ERROR,
    "queuedAt": _CREATED,
    "startedAt": "2026-12-01T20:00:00.020000Z",
    "finishedAt": _FINISHED,
    "attempts": [
        {
            "number": 1,
            "round": 1,
            "worker": "worker-1",
            "startedAt": "2026-12-01T20:00:00.020000Z",
            "finishedAt": _FINISHED,
            "outcome": "failed",
            "error": _ERROR,
        }
    ],
}
STREAM = 'retry: 1500\n\nid: 6\nevent: end\ndata: {"id":"' + TASK_ID + '","status":"partially_failed"}\n\n'

OBJECT = {
    "name": "shoot/IMG_0001.jpg",
    "size": 2481152,
    "sha256": SHA256,
    "contentType": "image/jpeg",
    "createdAt": _CREATED,
}
WORKSPACE = {
    "id": "6f1f2a4e-3b57-4d0a-8a0c-0d6f3f1c9a11",
    "name": "studio",
    "createdAt": _CREATED,
    "disabledAt": None,
}
TOKEN = {
    "id": "0d1f6c3e-52a1-4a77-9c1e-7b0f5f3c2d10",
    "role": "editor",
    "name": "ingest",
    "createdAt": _CREATED,
    "expiresAt": None,
    "revokedAt": None,
}
CREATED_TOKEN = {**TOKEN, "token": "lx_" + "A" * 43}
CREATED_WORKSPACE = {**WORKSPACE, "adminToken": {**CREATED_TOKEN, "role": "admin", "name": "first"}}
SESSION = {"role": "viewer", "workspaceId": WORKSPACE["id"], "expiresAt": "2026-12-02T08:00:00.000000Z"}
SIGN_IN_LINK = {
    "url": "/login#Yv2n0pGd9kq1cJ4mS8tW3xZ6bR5fH7aL0eQ2uT1iOwM",
    "expiresAt": "2026-12-01T20:10:00.000000Z",
}
QUEUES = {
    "status": "ok",
    "queues": [
        {
            "queue": "media:verify",
            "status": "ok",
            "counts": {"waiting": 12, "active": 4, "completed": 480, "failed": 3, "delayed": 1},
            "oldestWaitingSeconds": 1.25,
            "heartbeat": {"state": "fresh", "ageSeconds": 3.1},
            "hold": None,
        }
    ],
    "outbox": {"pending": 0, "deadLetters": 0},
}
NEW_CLAIMS = {"type": "media:verify", "worker": "node-1", "items": [ITEM["id"]], "leaseSeconds": 30.0}
CLAIMS = {
    "claimed": [
        {
            "attemptId": f"{ITEM['id']}.4711",
            "itemId": ITEM["id"],
            "taskId": TASK_ID,
            "workspaceId": WORKSPACE["id"],
            "index": 1,
            "ref": "IMG_0002.jpg",
            "attempt": 1,
            "round": 1,
            "input": {"object": "shoot/IMG_0002.jpg"},
            "idempotencyKey": ITEM["id"],
            "leaseSeconds": 30.0,
            "deadlineAt": "2026-12-01T20:02:00.000000Z",
        }
    ],
    "notClaimed": [],
}
