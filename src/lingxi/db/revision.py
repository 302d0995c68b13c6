"""The newest revision that this version of Lingxi knows, read without Alembic: processes that never migrate need not load it."""

from functools import cache
from importlib import resources


@cache
def head_revision() -> str:
    """The newest migration's name, as `alembic_version` holds it: a step's file is named like its revision, and they sort."""
    steps = (resources.files("lingxi.db") / "migrations").iterdir()
    return max(step.name.removesuffix(".sql") for step in steps if step.name.endswith(".sql"))


def is_current(revision: str | None) -> bool:
    """Can this version work on a database at `revision`? On its own and on any later one: steps only ever add, so that during an
    upgrade, and after going back, an older version works beside or after a newer one."""
    return revision is not None and revision >= head_revision()
