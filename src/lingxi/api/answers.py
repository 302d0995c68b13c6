"""JSON answers, written by orjson; never cached, since they are about one caller's data."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.responses import Response

from lingxi.domain.wire import time_to_wire
from lingxi.services.get_object import StoredObject
from lingxi.services.tokens import Token
from lingxi.services.workspaces import Workspace


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as application/json."""
    return Response(
        orjson.dumps(value), status, {"Cache-Control": "no-store", **(headers or {})}, "application/json"
    )


def object_to_wire(stored: StoredObject) -> dict[str, Any]:
    """The `StoredObject` of the document."""
    return {
        "name": stored.name,
        "size": stored.size_bytes,
        "sha256": stored.sha256.hex(),
        "contentType": stored.content_type,
        "createdAt": time_to_wire(stored.created_at),
    }


def workspace_to_wire(workspace: Workspace) -> dict[str, Any]:
    """The `Workspace` of the document."""
    return {
        "id": str(workspace.id),
        "name": workspace.name,
        "createdAt": time_to_wire(workspace.created_at),
        "disabledAt": time_to_wire(workspace.disabled_at),
    }


def token_to_wire(token: Token) -> dict[str, Any]:
    """The `Token` of the document, without its secret."""
    return {
        "id": str(token.id),
        "role": token.role,
        "name": token.name,
        "createdAt": time_to_wire(token.created_at),
        "expiresAt": time_to_wire(token.expires_at),
        "revokedAt": time_to_wire(token.revoked_at),
    }


def unix_to_wire(seconds: float) -> str | None:
    """Unix time as on the wire."""
    return time_to_wire(datetime.fromtimestamp(seconds, UTC))
