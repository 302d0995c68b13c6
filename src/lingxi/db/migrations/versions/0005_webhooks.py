"""Webhook endpoints and deliveries."""

from lingxi.db.migrations.step import run_sql

revision = "0005_webhooks"
down_revision = "0004_processors"


def upgrade() -> None:
    run_sql(revision)
