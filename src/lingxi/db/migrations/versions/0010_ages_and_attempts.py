"""Objects have an age by which they may be pruned; attempts of first publications have a history."""

from lingxi.db.migrations.step import run_sql

revision = "0010_ages_and_attempts"
down_revision = "0009_traces"


def upgrade() -> None:
    run_sql(revision)
