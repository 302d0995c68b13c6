"""Runs the SQL file of one revision, many statements at once, in Alembic's transaction."""

from importlib import resources

from alembic import op


def run_sql(revision: str) -> None:
    """Run `migrations/<revision>.sql` on the driver's own connection: it takes a script, a prepared statement does not."""
    script = (resources.files("lingxi.db") / "migrations" / f"{revision}.sql").read_text("utf-8")
    adapted = op.get_bind().connection.dbapi_connection
    assert adapted is not None
    adapted.run_async(lambda driver: driver.execute(script))
