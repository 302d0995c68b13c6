"""Live albums: uploads that resume, objects registered by key, trash."""

from lingxi.db.migrations.step import run_sql

revision = "0003_live_albums"
down_revision = "0002_photos"


def upgrade() -> None:
    run_sql(revision)
