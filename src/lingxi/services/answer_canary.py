"""A worker's answer to a canary."""

from lingxi.db.query import sql
from lingxi.db.session import Connection


async def answer_canary(connection: Connection, queue: str, worker: str) -> None:
    """`worker` took a canary of `queue`. Again is the same."""
    await connection.execute(sql("canaries/answer"), queue, worker)
