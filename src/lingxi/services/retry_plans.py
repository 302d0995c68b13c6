"""Rounds of canaries: one failed item of each cause runs first, and the rest of a cause follows when its canary succeeded.

The plan is rows beside the task, so it needs nobody who waits for it. Whoever sees first that the canaries' round has ended
decides: the dispatcher, as it tells that end, or a sweep.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from lingxi.db.query import sql
from lingxi.db.session import Connection
from lingxi.names import ITEMS_PER_EVENT

PlanState = Literal["waiting", "followed", "stopped", "overtaken"]
TASKS_AT_A_TIME = 100


@dataclass(frozen=True, slots=True)
class PlannedCause:
    """What is planned for the items that failed with `code`. `canary_index` is from 0; `rest` counts the others."""

    code: str
    round: int
    canary_index: int
    rest: int
    state: PlanState

    @property
    def sentence(self) -> str:
        """For people."""
        rest = f"the other {self.rest}" if self.rest else "no other"
        match self.state:
            case "waiting":
                return f"{self.code}: item {self.canary_index} runs first; {rest} with this code follow when it succeeded."
            case "followed":
                return f"{self.code}: item {self.canary_index} succeeded, and {rest} followed."
            case "stopped":
                return f"{self.code}: item {self.canary_index} did not succeed; {rest} were left as they are."
            case "overtaken":
                return f"{self.code}: somebody began another round; there is nothing left to plan."


async def advance_retry_plans(connection: Connection, task_ids: Sequence[UUID] | None = None) -> set[UUID]:
    """Decide the plans of these tasks, or of any, whose canaries have ended; the tasks of which something was decided."""
    given = None if task_ids is None else list(task_ids)
    rows = await connection.fetch(sql("retry_plans/advance"), given, TASKS_AT_A_TIME, ITEMS_PER_EVENT)
    return {row["task_id"] for row in rows}


async def plan_of_task(connection: Connection, task_id: UUID) -> list[PlannedCause]:
    """The task's last plan, the largest cause first; empty when there never was one."""
    rows = await connection.fetch(sql("retry_plans/of_task"), task_id)
    return [
        PlannedCause(row["code"], row["round"], row["canary_position"] - 1, row["rest_items"], row["state"])
        for row in rows
    ]
