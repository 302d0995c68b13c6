"""Who asks, and may they: bearer tokens, session cookies, roles.

`Annotated[Caller, Depends(viewer)]` in a route's signature answers 401 (40101) and 403 (40301) before anything else is looked
at. An operator belongs to no workspace and is refused (403) on every route of a workspace, whatever the id.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit
from uuid import UUID

import orjson
from fastapi import Depends
from starlette.requests import Request

from lingxi.api.changes import idempotency_key
from lingxi.api.deps import ApiDeps, deps_of
from lingxi.api.share_cookies import is_share_viewer
from lingxi.api.signing import Signer
from lingxi.db.session import Connection, transaction
from lingxi.domain.errors import Forbidden, NotFound, Unauthenticated
from lingxi.services.record_audit import record_audit
from lingxi.services.remember_answer import KeyScope, find_answer
from lingxi.services.sign_in_links import use_sign_in_link
from lingxi.services.tokens import find_token, still_valid

SESSION_COOKIE = "lingxi_session"
NO_TOKEN = Unauthenticated("A token is needed: Authorization: Bearer lx_….")
BAD_TOKEN = Unauthenticated("The token is not valid: unknown, expired or revoked.")
_MAX_TOKEN_CHARACTERS = 200
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_RANK = {"viewer": 1, "editor": 2, "admin": 3}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a token's id and role, and its workspace."""

    token_id: UUID
    role: str
    workspace_id: UUID


@dataclass(frozen=True, slots=True)
class Anyone:
    """A caller of any role; `workspace_id` is None for an operator. `by_session`: known by the cookie."""

    token_id: UUID
    role: str
    workspace_id: UUID | None
    by_session: bool


async def authenticated(request: Request) -> Anyone:
    """The caller by `Authorization: Bearer …`, else by the session cookie; Unauthenticated (40101).

    NotFound for whoever is known by nothing but a share link.
    """
    deps = deps_of(request)
    given = request.headers.getlist("authorization")
    cookie = request.cookies.get(SESSION_COOKIE)
    if given:
        caller = await _by_bearer(deps, given)
    elif cookie:
        caller = await _by_session(deps, cookie)
    else:
        caller = None
    if caller is None and not (given or cookie) and is_share_viewer(deps, request):
        raise NotFound  # to the holder of a share link nothing but its album is there
    if caller is None and (given or cookie):
        raise BAD_TOKEN
    if caller is None:
        raise NO_TOKEN
    if caller.by_session and request.method not in _SAFE_METHODS and not is_same_origin(request):
        raise Forbidden("A changing request with a session needs an Origin header that names this server.")
    return caller


def member_of_role(caller: Anyone, role: str) -> Caller:
    """The caller as a member of a workspace with at least this role; Forbidden (40301)."""
    if caller.workspace_id is None:
        whose = "A worker's" if caller.role == "worker" else "An operator's"
        raise Forbidden(f"{whose} token belongs to no workspace and cannot be used here.")
    if _RANK[caller.role] < _RANK[role]:
        raise Forbidden(f"This needs a token with the role {role} or higher.")
    return Caller(caller.token_id, caller.role, caller.workspace_id)


def _requiring(role: str) -> Callable[[Request, Anyone], Awaitable[Caller]]:
    async def dependency(request: Request, caller: Annotated[Anyone, Depends(authenticated)]) -> Caller:
        member = member_of_role(caller, role)
        await admit(request, member)
        return member

    return dependency


async def admit(request: Request, caller: Caller) -> None:
    """OverQuota (42901) when the workspace asks too often; but a replay of an Idempotency-Key is answered all the same."""
    deps = deps_of(request)
    if (over := await deps.quotas.admit_request(caller.workspace_id)) is None:
        return
    if (key := idempotency_key(request)) is not None:
        scope = KeyScope(caller.workspace_id, request.method, request.scope["path"], key)
        async with deps.pool.acquire(timeout=5) as connection:
            if await find_answer(connection, scope) is not None:
                return
    with deps.quotas.counting():
        raise over


async def operator(caller: Annotated[Anyone, Depends(authenticated)]) -> Anyone:
    """Only an operator's token."""
    if caller.role != "operator":
        raise Forbidden("This needs an operator's token.")
    return caller


async def steward(request: Request, caller: Annotated[Anyone, Depends(authenticated)]) -> Anyone:
    """An admin of a workspace; or an operator, for all: then `workspace_id` is None."""
    if caller.role != "operator":
        await admit(request, member_of_role(caller, "admin"))
    return caller


async def worker(caller: Annotated[Anyone, Depends(authenticated)]) -> Anyone:
    """Only a worker's token."""
    if caller.role != "worker":
        raise Forbidden("This needs a worker's token.")
    return caller


viewer = _requiring("viewer")
editor = _requiring("editor")
admin = _requiring("admin")

Viewer = Annotated[Caller, Depends(viewer)]
Editor = Annotated[Caller, Depends(editor)]
Admin = Annotated[Caller, Depends(admin)]
Operator = Annotated[Anyone, Depends(operator)]
Steward = Annotated[Anyone, Depends(steward)]
Worker = Annotated[Anyone, Depends(worker)]
AnyCaller = Annotated[Anyone, Depends(authenticated)]


# ── by bearer token ──────────────────────────────────────────────────────────────────────────────────────
def bearer_secret(given: list[str]) -> str | None:
    """The secret in the Authorization headers of a request; None unless there is one, and it may be a token."""
    scheme, _, secret = given[0].partition(" ")
    if len(given) > 1 or scheme.lower() != "bearer" or not 0 < len(secret) <= _MAX_TOKEN_CHARACTERS:
        return None
    return secret.strip()


async def find_bearer(deps: ApiDeps, secret: str) -> Anyone | None:
    """Who holds this token; None when it is unknown, expired or revoked."""
    async with deps.pool.acquire(timeout=5) as connection:
        token = await find_token(connection, secret)
    return None if token is None else Anyone(token.id, token.role, token.workspace_id, by_session=False)


async def _by_bearer(deps: ApiDeps, given: list[str]) -> Anyone | None:
    secret = bearer_secret(given)
    return None if secret is None else await find_bearer(deps, secret)


# ── by session ───────────────────────────────────────────────────────────────────────────────────────────
def seal_session(signer: Signer, caller: Anyone, expires_at: float) -> str:
    """The cookie's value: a token's id, workspace and role, never its secret; good until `expires_at` (Unix seconds)."""
    workspace = None if caller.workspace_id is None else str(caller.workspace_id)
    return signer.seal("session", orjson.dumps([str(caller.token_id), workspace, caller.role, expires_at]))


async def start_session(deps: ApiDeps, secret: str) -> tuple[str, int] | None:
    """A session for the holder of a bearer token, audited: the cookie's value and its age in seconds.

    None for a bad token, and for one that belongs to no workspace: the pages show only what is a workspace's.
    """
    caller = await _by_bearer(deps, [f"Bearer {secret}"])
    if caller is None or caller.workspace_id is None:
        return None
    async with transaction(deps.pool) as connection:
        return await _open_session(deps, connection, caller)


async def start_session_by_link(deps: ApiDeps, secret: str) -> tuple[str, int] | None:
    """The same for whoever has a sign-in link, which is used up by it. None for a bad or used one."""
    async with transaction(deps.pool) as connection:
        token = await use_sign_in_link(connection, secret)
        if token is None:
            return None
        caller = Anyone(token.id, token.role, token.workspace_id, by_session=False)
        return await _open_session(deps, connection, caller)


async def _open_session(deps: ApiDeps, connection: Connection, caller: Anyone) -> tuple[str, int]:
    seconds = deps.config.session_seconds
    await record_audit(
        connection,
        workspace_id=caller.workspace_id,
        actor=caller.token_id,
        verb="session.open",
        target=f"token:{caller.token_id}",
        request_id=None,
    )
    return seal_session(Signer(deps.config.secret_keys), caller, int(deps.clock()) + seconds), seconds


async def session_of(deps: ApiDeps, request: Request) -> Anyone | None:
    """Who the session cookie of a request says; None without one, or when it or its token holds no more."""
    cookie = request.cookies.get(SESSION_COOKIE)
    return await _by_session(deps, cookie) if cookie else None


def open_session_cookie(deps: ApiDeps, cookie: str) -> Anyone | None:
    """Who a genuine session cookie names; whether the token behind it still holds is asked elsewhere."""
    payload = Signer(deps.config.secret_keys).open("session", cookie)
    if payload is None:
        return None
    token_id, workspace, role, expires_at = orjson.loads(payload)
    if expires_at <= deps.clock():
        return None
    return Anyone(UUID(token_id), role, None if workspace is None else UUID(workspace), by_session=True)


async def _by_session(deps: ApiDeps, cookie: str) -> Anyone | None:
    caller = open_session_cookie(deps, cookie)
    if caller is None:
        return None
    async with deps.pool.acquire(timeout=5) as connection:
        valid = await still_valid(connection, [caller.token_id])
    return caller if valid else None


def is_same_origin(request: Request) -> bool:
    """Does Origin name the host that this request went to? A proxy may have ended TLS, so the scheme is not compared."""
    given = request.headers.getlist("origin")
    if len(given) != 1:
        return False
    try:
        origin = urlsplit(given[0])
    except ValueError:
        return False
    return origin.netloc.lower() == request.headers.get("host", "").lower() != ""
