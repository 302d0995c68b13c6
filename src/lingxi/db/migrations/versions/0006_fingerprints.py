"""Fingerprints of photos."""

from lingxi.db.migrations.step import run_sql

revision = "0006_fingerprints"
down_revision = "0005_webhooks"


def upgrade() -> None:
    run_sql(revision)
