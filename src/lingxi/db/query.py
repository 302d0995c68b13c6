"""One statement, one file: `sql("items/claim")` is the text of `queries/items/claim.sql`."""

from functools import cache
from importlib import resources


@cache
def sql(name: str) -> str:
    """The statement in `db/queries/<name>.sql`; LookupError when there is none (an OSError would look like an outage)."""
    try:
        return (resources.files("lingxi.db") / "queries" / f"{name}.sql").read_text("utf-8")
    except FileNotFoundError:
        raise LookupError(f"there is no statement {name!r}") from None
