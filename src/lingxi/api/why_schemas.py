"""Why something waits or failed, as it is on the wire."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from lingxi.api import schemas
from lingxi.services.why import Reason

Code = Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9_]{0,99}$")]


class RetryChoice(schemas.Wire):
    only: list[Code] | None = Field(
        default=None,
        min_length=1,
        max_length=50,
        description="Only items that failed with one of these codes (`GET …/why` counts them). Without it: all that failed.",
    )
    canary: bool = Field(
        default=False,
        description="First one item of each code, as a round of its own; the others of a code are the next round if its item "
        "succeeds.",
    )


class PlannedCause(schemas.Wire):
    code: str
    canary_index: int = Field(description="The item that runs first, from 0.")
    rest: int = Field(description="How many others failed with this code.")
    state: Literal["waiting", "followed", "stopped", "overtaken"] = Field(
        description="`waiting`: the canary has not ended. `followed`: it succeeded, and the rest is the next round. `stopped`: "
        "it did not, and the rest stays failed. `overtaken`: somebody began another round."
    )
    sentence: str = Field(description="For people.")


class WhyAttempt(schemas.Attempt):
    log_lines: list[str] = Field(
        description="The last lines that the attempt logged, if it did not succeed, e.g. `14:03:07 warning disk_slow seconds=3`."
    )


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
    attempts: list[WhyAttempt]
    causes: list[WhyCause] = Field(
        description="Of a task: its items by state and code, the most frequent first."
    )
    plan: list[PlannedCause] = Field(
        description="Of a task whose last retry ran one item of each code first: what becomes of the rest."
    )
