"""The spine: workspaces, tasks, items, attempts, the outbox, idempotency, audit, objects."""

from lingxi.db.migrations.step import run_sql

revision = "0001_spine"
down_revision = None


def upgrade() -> None:
    run_sql(revision)
