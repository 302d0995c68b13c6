"""Every route that is served, and who may use it. A route that is not in this table fails the tests."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from starlette.routing import BaseRoute, Route

Who = Literal["open", "link", "any", "viewer", "editor", "admin", "steward", "operator", "worker"]
"""open: nobody is asked · link: the address is the permission · any: any token · steward: an admin, or an operator
for all · else: this role or higher."""

API = "/api/v1"
DOCUMENT = json.loads((Path(__file__).parents[2] / "openapi" / "openapi.json").read_text())
RANK = {"viewer": 1, "editor": 2, "admin": 3}

_ROLES: dict[Who, str] = {
    "open": """
        OPTIONS /albums/{albumId}/uploads
        OPTIONS /albums/{albumId}/uploads/{uploadId}
        GET /health/live
        GET /health/ready
        GET /health/queues
        GET /metrics
    """,
    "link": """
        GET /signed-objects/{token}
    """,
    "any": """
        GET /archive-keys
        POST /session
        DELETE /session
        GET /openapi.json
    """,
    "viewer": """
        GET /media-tasks
        GET /media-tasks/{taskId}
        GET /media-tasks/{taskId}/items
        GET /media-tasks/{taskId}/events
        GET /media-tasks/{taskId}/why
        GET /media-tasks/{taskId}/items/{itemId}/why
        GET /photos/{photoId}/why
        POST /media-tasks/{taskId}/stream-token
        POST /object-links
        GET /objects/{name}
        HEAD /objects/{name}
        GET /albums
        GET /albums/{albumId}
        GET /albums/{albumId}/stats
        GET /albums/{albumId}/photos
        GET /albums/{albumId}/photos/{photoId}
        GET /albums/{albumId}/photos/{photoId}/timeline
        GET /albums/{albumId}/photos/{photoId}/variants/{fileName}
        HEAD /albums/{albumId}/photos/{photoId}/variants/{fileName}
        GET /albums/{albumId}/photos/{photoId}/previews/{fileName}
        GET /albums/{albumId}/duplicates
        GET /albums/{albumId}/shares
        GET /albums/{albumId}/events
        POST /albums/{albumId}/stream-token
        POST /session/links
        GET /workspace
        GET /limits
    """,
    "editor": """
        POST /media-tasks
        POST /media-tasks/{taskId}/cancel
        POST /media-tasks/{taskId}/priority
        POST /media-tasks/{taskId}/retry-failed
        POST /objects
        PUT /objects/{name}
        POST /object-uploads
        POST /object-uploads/{uploadId}/confirm
        POST /albums
        PATCH /albums/{albumId}
        DELETE /albums/{albumId}
        POST /albums/{albumId}/reprocess
        POST /albums/{albumId}/fingerprint
        POST /albums/{albumId}/photos
        POST /albums/{albumId}/uploads
        HEAD /albums/{albumId}/uploads/{uploadId}
        PATCH /albums/{albumId}/uploads/{uploadId}
        POST /albums/{albumId}/uploads/{uploadId}
        DELETE /albums/{albumId}/uploads/{uploadId}
        GET /albums/{albumId}/photos/{photoId}/original
        HEAD /albums/{albumId}/photos/{photoId}/original
        POST /albums/{albumId}/photos/{photoId}/hide
        POST /albums/{albumId}/photos/{photoId}/show
        POST /albums/{albumId}/photos/{photoId}/recall
        DELETE /albums/{albumId}/photos/{photoId}
        POST /albums/{albumId}/shares
        DELETE /albums/{albumId}/shares/{shareId}
    """,
    "admin": """
        GET /tokens
        GET /audit
        POST /tokens
        DELETE /tokens/{tokenId}
        POST /tokens/{tokenId}/rotate
        GET /webhooks
        POST /webhooks
        GET /webhooks/{webhookId}
        PATCH /webhooks/{webhookId}
        DELETE /webhooks/{webhookId}
        POST /webhooks/{webhookId}/enable
        POST /webhooks/{webhookId}/disable
        POST /webhooks/{webhookId}/rotate
        GET /webhooks/{webhookId}/deliveries
        POST /webhooks/{webhookId}/replay
    """,
    "steward": """
        GET /dead-letters
        GET /dead-letters/{deadLetterId}
        POST /dead-letters/{deadLetterId}/redrive
        POST /dead-letters/{deadLetterId}/discard
    """,
    "operator": """
        GET /workspaces
        POST /workspaces
        GET /workspaces/{workspaceId}
        PATCH /workspaces/{workspaceId}
        POST /workspaces/{workspaceId}/disable
        POST /workspaces/{workspaceId}/enable
        GET /workspaces/caps
        GET /workspaces/{workspaceId}/quota
        PUT /workspaces/{workspaceId}/quota
        GET /retention
        POST /retention/prune
        GET /queues
        POST /queues/{queue}/pause
        POST /queues/{queue}/drain
        POST /queues/{queue}/resume
        GET /workers
        POST /workers/{boot}/quiet
        POST /workers/{boot}/stop
        POST /workers/{boot}/resume
        PUT /workspaces/{workspaceId}/cap
    """,
    "worker": """
        POST /worker/claims
        PUT /worker/attempts/{attemptId}/lease
        POST /worker/attempts/{attemptId}/finish
    """,
}

# With the cookie of a share link of that album, and no token.
SHARED = {
    f"{API}/albums/{{albumId}}",
    f"{API}/albums/{{albumId}}/photos",
    f"{API}/albums/{{albumId}}/photos/{{photoId}}",
    f"{API}/albums/{{albumId}}/photos/{{photoId}}/original",
    f"{API}/albums/{{albumId}}/photos/{{photoId}}/variants/{{fileName}}",
    f"{API}/albums/{{albumId}}/events",
}

PAGES = {
    "GET /",
    "GET /login",
    "POST /login",
    "POST /logout",
    "GET /tasks/{taskId}",
    "GET /static/{version}/{name}",
    "GET /albums",
    "GET /albums/{albumId}",
    "GET /s/{secret}",
    "GET /a/{albumId}",
}
"""The pages; they are no part of the interface, and are tried in `test_pages.py`."""


@dataclass(frozen=True, slots=True)
class Case:
    """A method and a path template, and the least role that it needs."""

    method: str
    path: str
    who: Who

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def names(self) -> list[str]:
        """The parts of the path that vary."""
        return re.findall(r"{(\w+)}", self.path)

    @property
    def shared(self) -> bool:
        return self.path in SHARED and self.method in ("GET", "HEAD")

    @property
    def operation(self) -> dict[str, Any]:
        """What the document says of it; nothing of tus, which has a document of its own."""
        found: dict[str, Any] = DOCUMENT["paths"].get(self.path, {}).get(self.method.lower(), {})
        return found

    @property
    def takes_key(self) -> bool:
        named = (one.get("name") for one in self.operation.get("parameters", ()))
        return "Idempotency-Key" in named or (self.is_tus and self.method == "POST" and len(self.names) == 1)

    @property
    def is_tus(self) -> bool:
        return self.path.startswith(f"{API}/albums/{{albumId}}/uploads")

    def address(self, **ids: str) -> str:
        return self.path.format(**ids)

    def request(self) -> dict[str, Any]:
        """A request that nothing is wrong with but what its path names: the document's own example as its body."""
        if self.is_tus:
            offset = {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
            headers = {"Tus-Resumable": "1.0.0", "Upload-Length": "4", **offset}
            if self.method == "POST" and len(self.names) == 1:
                del headers["Content-Type"]
            if self.method == "POST" and len(self.names) == 2:
                headers["X-HTTP-Method-Override"] = "PATCH"
            return {"headers": headers, **({"content": b"\xff\xd8\xff\xe0"} if self.method != "HEAD" else {})}
        content = self.operation.get("requestBody", {}).get("content", {})
        if "application/json" in content:
            return {"json": content["application/json"]["example"]}
        if "multipart/form-data" in content:
            return {"files": [("files", ("a.jpg", b"\xff\xd8\xff\xe0 a photo", "image/jpeg"))]}
        return {"content": b"bytes"} if content else {}


CASES = [
    Case(*line.replace(" /", f" {API}/", 1).split(" "), who)
    for who, lines in _ROLES.items()
    for line in map(str.strip, lines.strip().splitlines())
]


def served(routes: list[BaseRoute]) -> set[str]:
    """`GET /api/v1/…` of every route; HEAD only where it is declared for itself."""
    found: set[str] = set()
    for route in routes:
        assert isinstance(route, Route), f"what is {route}?"
        methods = set(route.methods or ())
        if type(route) is Route:  # a page: Starlette adds HEAD to its GET
            methods -= {"HEAD"}
        found |= {f"{method} {route.path_format}" for method in methods}
    return found
