"""${message}"""

from lingxi.db.migrations.step import run_sql

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    run_sql(revision)
