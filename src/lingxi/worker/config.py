"""What a worker process must know. Made by `bootstrap` from the settings; tests make their own with shorter times."""

import os
import secrets
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lingxi.names import PHOTO_BACKOFF_SECONDS


def new_boot() -> str:
    """Eight hex digits that tell this start of a process from every other, also of the same pid."""
    return secrets.token_hex(4)


def worker_name(boot: str, pid: int | None = None) -> str:
    """`host:pid:boot`: who owns attempts and locks. A restarted process is somebody else."""
    return f"{socket.gethostname()}:{os.getpid() if pid is None else pid}:{boot}"


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """One worker process."""

    name: str  # from worker_name()
    database_url: str
    redis_url: str
    queues: tuple[str, ...]  # logical names
    concurrency: Mapping[str, int] = field(
        default_factory=dict
    )  # by queue, where not the processor's own number
    lease_seconds: float = 30.0
    lease_renew_seconds: float = 10.0
    heartbeat_seconds: float = 10.0
    grace_seconds: float = 25.0  # for running items after a stop was asked
    cancel_seconds: float = 3.0  # for a processor to end once it is cancelled; then it is abandoned
    stuck_seconds: float = 10.0  # for an event loop to come back after that; then the process is ended
    photo_time_limit_seconds: float = 300.0  # of one attempt to publish a photo
    photo_backoff_seconds: float = PHOTO_BACKOFF_SECONDS
    scratch_root: Path = Path(tempfile.gettempdir()) / "lingxi-scratch"  # of all worker processes here
    child_environment: Mapping[str, str] = field(default_factory=dict)  # of children that run sync processors
    flush_seconds: float = 5.0  # for results and acknowledgements of a stopping worker to get through

    @property
    def scratch_owner(self) -> str:
        """The name of this process's folder in `scratch_root`: its boot."""
        return self.name.rpartition(":")[2]

    @property
    def lock_seconds(self) -> float:
        """BullMQ's lock of a job. Only a hint beside the lease, so it may outlast it."""
        return 2 * self.lease_seconds

    @property
    def stalled_check_seconds(self) -> float:
        """Between two looks for jobs whose lock ran out; BullMQ acts at the second look."""
        return self.lease_seconds / 2

    @property
    def longest_stop_seconds(self) -> float:
        """After this, a stop in order has failed."""
        return self.grace_seconds + self.cancel_seconds + self.flush_seconds + 2.0
