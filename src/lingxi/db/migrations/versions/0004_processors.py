"""Processors of users, fairness, workers in other languages."""

from lingxi.db.migrations.step import run_sql

revision = "0004_processors"
down_revision = "0003_live_albums"


def upgrade() -> None:
    run_sql(revision)
