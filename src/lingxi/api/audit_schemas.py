"""The shapes of the audit log."""

from pydantic import Field

from lingxi.api.schemas import Time, Uuid, Wire


class AuditEntry(Wire):
    """One change that was made, in the transaction that made it."""

    id: str
    at: str = Time
    workspace_id: str | None = Uuid
    actor: str | None = Field(
        json_schema_extra={"format": "uuid"},
        description="The token; null for the command line beside the database.",
    )
    actor_name: str | None
    actor_role: str | None
    verb: str = Field(description="What was done, e.g. `task.cancel`.")
    target: str = Field(description="To what: a kind and its id or name, e.g. `task:…`.")
    request_id: str | None


class AuditPage(Wire):
    entries: list[AuditEntry]
    next_cursor: str | None = Field(description="Ask for the next page with it; null on the last one.")
