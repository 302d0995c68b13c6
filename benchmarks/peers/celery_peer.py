"""Celery: Valkey as broker, results in PostgreSQL through SQLAlchemy and psycopg, prefork with two processes.

Tuned: no events, a prefetch that keeps both processes busy, remote control, gossip and mingle off. Messages are
acknowledged early (its default), so a killed worker loses them: a weaker promise than the others', left as it is.
"""

import os
import sys

from celery import Celery
from protocol import PAYLOAD, database_url, dispatch, redis_url, report, setting, wait_for_go

app = Celery(
    "bench",
    broker=redis_url(),
    backend="db+" + database_url().replace("postgresql://", "postgresql+psycopg://", 1),
)
app.conf.update(
    task_ignore_result=False,
    worker_prefetch_multiplier=setting("prefetch", 64),
    worker_send_task_events=False,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(**_input: object) -> None:
    """Nothing: what is measured is the way there and back."""


def prepare() -> None:
    app.backend.ResultSession().close()


def worker() -> None:
    from celery.signals import worker_ready

    @worker_ready.connect(weak=False)
    def say_ready(**_event: object) -> None:
        os.write(1, b"ready\n")  # Celery has taken sys.stdout for its log

    processes = setting("concurrency", 2)
    options = ["--pool=prefork", f"--concurrency={processes}", "--loglevel=WARNING", "--without-gossip"]
    app.worker_main(["worker", *options, "--without-mingle", "--without-heartbeat"])


def submit(count: int, batch: int) -> None:
    with app.producer_or_acquire() as producer:
        producer.connection.ensure_connection()
        started_at = wait_for_go()
        for _ in range(count):
            noop.apply_async(kwargs=PAYLOAD, producer=producer)
    report(started_at)


if __name__ == "__main__":
    os.environ.setdefault("C_FORCE_ROOT", "1")
    sys.argv[0] = "celery"
    dispatch(prepare, worker, submit)
