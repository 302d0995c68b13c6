"""What the HTTP layer is given: made once by `bootstrap`, handed to `create_app`, reached through the request."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from starlette.requests import Request

from lingxi.api.album_memory import AlbumMemory
from lingxi.api.limits import Limits
from lingxi.api.quotas import Quotas
from lingxi.broker.client import RedisClient
from lingxi.broker.hints import Hints
from lingxi.db.session import Pool
from lingxi.names import QUEUES
from lingxi.processors.outgoing.addresses import AddressRule
from lingxi.processors.registry import Registry
from lingxi.services.quotas import Limits as WorkspaceLimits
from lingxi.services.retention import Retention
from lingxi.storage.port import Storage
from lingxi.stream.hub import Hub
from lingxi.stream.tokens import StreamTokens


@dataclass(frozen=True, slots=True)
class ApiConfig:
    """The settings of the HTTP layer.

    `allowed_hosts` are the names that requests may give as Host ("*": any); the address that a client really connected to is
    always one. `secret_keys`: the first signs, all are accepted. `serve_monitoring` is False when metrics and queue health
    have a port of their own.
    """

    secret_keys: Sequence[bytes]
    allowed_hosts: Sequence[str] = ("localhost", "127.0.0.1", "::1")
    limits: Limits = field(default_factory=Limits)
    session_seconds: int = 12 * 3600
    share_requests_per_minute: int = 6_000  # of one address, with share links
    share_exchanges_per_minute: int = 120
    stream_token_seconds: int = 300
    serve_monitoring: bool = True
    queues: Sequence[str] = QUEUES
    disks: Mapping[str, Path] = field(default_factory=dict)  # that this process writes to, for its metrics
    workspace_limits: WorkspaceLimits = field(
        default_factory=WorkspaceLimits
    )  # of workspaces that have none of their own
    webhook_rule: AddressRule = field(default_factory=AddressRule)  # where webhooks may go
    retention: Retention = field(default_factory=Retention)


@dataclass(frozen=True, slots=True)
class ApiDeps:
    """The parts that routes use. `redis` is the API's own client with short time-outs; `clock` gives Unix time in seconds."""

    config: ApiConfig
    pool: Pool
    redis: RedisClient
    hints: Hints
    registry: Registry
    storage: Storage
    hub: Hub
    stream_tokens: StreamTokens
    albums: AlbumMemory
    clock: Callable[[], float] = time.time
    quotas: Quotas = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "quotas", Quotas(self.pool, self.config.workspace_limits))


def deps_of(request: Request) -> ApiDeps:
    """The dependencies of the application that serves this request."""
    deps: ApiDeps = request.app.state.deps
    return deps
