"""Canaries through the queues, and rounds of a few failed items before the rest."""

from lingxi.db.migrations.step import run_sql

revision = "0008_canary"
down_revision = "0007_operations"


def upgrade() -> None:
    run_sql(revision)
