"""Traces that go on in other processes."""

from lingxi.db.migrations.step import run_sql

revision = "0009_traces"
down_revision = "0008_canary"


def upgrade() -> None:
    run_sql(revision)
