"""Photos and live albums."""

from lingxi.db.migrations.step import run_sql

revision = "0002_photos"
down_revision = "0001_spine"


def upgrade() -> None:
    run_sql(revision)
