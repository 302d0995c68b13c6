"""Why something waits or failed, as it is on the wire."""

from typing import Literal

from pydantic import Field

from lingxi.api import schemas
from lingxi.services.why import Reason


class WhyCause(schemas.Wire):
    state: schemas.ItemStateName
    code: str | None
    message: str | None
    can_retry: bool | None
    items: int
    first_index: int = Field(description="The first of them, from 0.")


class WhyAnswer(schemas.Wire):
    id: str = schemas.Uuid
    kind: Literal["task", "item", "photo"]
    state: str = Field(
        description="Of an item its state, of a task its status, of a photo its processing state."
    )
    queue: str
    reason: Reason = Field(
        description="Of a task: of the first item that waits, else `running`, else how it ended (`failed` when any item did)."
    )
    sentence: str = Field(description="For people.")
    can_retry: bool | None = Field(description="Can running what failed again help? null: nothing failed.")
    error: schemas.ItemProblem | None = Field(description="Of what failed, or of its last attempt.")
    ahead: int | None = Field(description="About how many came before in this queue, of any workspace.")
    ahead_own: int | None = Field(description="Of these, those of this workspace.")
    attempts: list[schemas.Attempt]
    causes: list[WhyCause] = Field(
        description="Of a task: its items by state and code, the most frequent first."
    )
