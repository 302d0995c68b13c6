"""Steering by hand, quotas and retention."""

from lingxi.db.migrations.step import run_sql

revision = "0007_operations"
down_revision = "0006_fingerprints"


def upgrade() -> None:
    run_sql(revision)
