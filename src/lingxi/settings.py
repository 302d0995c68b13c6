"""Every setting of Lingxi, read from the process environment once, at start. The only reader of the environment.

No process reads a `.env` file by itself; `.env.example` is made from this class (`python -m lingxi.settings`).
"""

import os
import re
import sys
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from lingxi.names import GROUPS, QUEUES

MEBIBYTE = 1024 * 1024


class SettingsError(Exception):
    """A setting is wrong; the message names it and says how to mend it, a line each."""


def queues_named(
    text: str, deployed: tuple[str, ...] = QUEUES, groups: Mapping[str, tuple[str, ...]] = GROUPS
) -> tuple[str, ...]:
    """The logical queues that a comma-separated list of groups and names stands for; ValueError names the unknown ones."""
    chosen: list[str] = []
    for word in filter(None, (word.strip() for word in text.split(","))):
        if word in groups:
            chosen += [queue for queue in groups[word] if queue in deployed]
        elif word in deployed:
            chosen.append(word)
        else:
            known = ", ".join([*groups, *deployed])
            raise ValueError(f"{word!r} is no queue or group of this deployment; known are: {known}")
    return tuple(dict.fromkeys(chosen)) or deployed


def networks_named(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Comma-separated networks or addresses; ValueError names what is none."""
    return tuple(ip_network(word) for word in filter(None, (word.strip() for word in text.split(","))))


class Settings(BaseSettings):
    """Frozen after the start. Field descriptions become `.env.example` and `docs/settings.md`."""

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", env_ignore_empty=True, env_prefix="", validate_default=True
    )

    database_url: str = Field(
        "",
        description="PostgreSQL ≥ 15, `postgresql://…`; by way of PgBouncer in transaction mode with `?pgbouncer=true` at its end. Empty: the embedded server in LINGXI_DATA_DIR (`lingxi up`).",
    )
    database_direct_url: str = Field(
        "",
        description="PostgreSQL's own address, for migrations, where DATABASE_URL leads to PgBouncer. Empty: DATABASE_URL.",
    )
    redis_url: str = Field(
        "", description="Redis ≥ 7.0 or Valkey ≥ 8, `redis://` or `rediss://`. Empty: the embedded server."
    )
    storage_url: str = Field(
        "",
        description="Where objects go: `file:///folder`, or `s3://bucket[/prefix]` of any S3 server. Empty: the folder `objects` in LINGXI_DATA_DIR.",
    )
    aws_endpoint_url: str = Field(
        "",
        description="Address of the S3 server, `https://host[:port]`; buckets are in the path. Empty: Amazon's in AWS_REGION.",
    )
    aws_region: str = Field("us-east-1", description="Region of the bucket.")
    aws_access_key_id: str = Field("", description="Access key of the S3 server; needed with `s3://`.")
    aws_secret_access_key: str = Field("", description="Its secret key; needed with `s3://`.")
    aws_session_token: str = Field("", description="Session token of temporary keys.")
    s3_public_url: str = Field(
        "",
        description="Address of the S3 server in signed addresses, where clients reach it by another one than AWS_ENDPOINT_URL.",
    )
    s3_timeout_seconds: float = Field(
        30.0, ge=0.1, le=600, description="Longest wait for the S3 server, and longest silence in a transfer."
    )
    queue: str = Field(
        "",
        description="Which queues a worker process serves: groups or logical names, comma-separated. Empty: all.",
    )
    lingxi_queues: str = Field(
        "",
        description="Which queues this deployment has at all. Empty: all nine, and those of users' processors.",
    )
    lingxi_processors: str = Field(
        "",
        description="Modules with processors of your own, `package.module` or `package.module:NAME`, comma-separated; besides those that installed packages offer as entry points `lingxi.processors`.",
    )
    lingxi_data_dir: Path = Field(
        Path(".lingxi"),
        description="Folder of the embedded servers, local objects, the token that `up` writes.",
    )
    lingxi_secret_key: str = Field(
        "",
        description="Signs stream tokens, links, cursors and archives' receipts; ≥ 32 characters, the same on every API and worker process. Two, comma-separated, while rotating: the first signs. Empty: made once and kept in LINGXI_DATA_DIR.",
    )
    lingxi_host: str = Field("127.0.0.1", description="Address that the API listens on.")
    lingxi_port: int = Field(3000, ge=0, le=65535, description="Port of the API; 0 takes a free one.")
    lingxi_allowed_hosts: str = Field(
        "",
        description="Host names that requests may carry besides the address listened on and loopback, comma-separated; `*` allows any.",
    )
    lingxi_trusted_proxies: str = Field(
        "127.0.0.1, ::1",
        description="Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed, comma-separated; keep all others from reaching the API's port.",
    )
    metrics_bind: str = Field(
        "",
        description="`address:port` that serves /metrics and /health instead of the API's own port. Empty: the API's port.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="From which level on log lines are written."
    )
    otel_exporter_otlp_endpoint: str = Field(
        "",
        description="Where traces go by OTLP over HTTP, e.g. `http://127.0.0.1:4318`; needs the extra `lingxi[tracing]` (docs/traces.md). Empty: nothing is traced.",
    )
    otel_traces_sampler_arg: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Of the traces that begin here, the part that is recorded; one that came with a request goes on as it says.",
    )
    outbox_dispatch_interval_ms: int = Field(
        1_000,
        ge=10,
        le=60_000,
        description="Milliseconds between two rounds of the dispatcher when no hint wakes it.",
    )
    queue_waiting_limit: int = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="Jobs that may wait in Redis for one queue; the rest waits in the outbox.",
    )
    grace_seconds: float = Field(
        25.0, ge=0, le=3_600, description="How long a stopping process lets running work finish."
    )
    lease_seconds: float = Field(
        30.0, ge=0.2, le=3_600, description="How long an attempt is owned without renewal."
    )
    lease_renew_seconds: float = Field(
        10.0,
        ge=0.05,
        le=1_200,
        description="Seconds between two renewals; at most a third of the lease is right.",
    )
    heartbeat_seconds: float = Field(
        10.0,
        ge=0.05,
        le=10,
        description="Seconds between two heartbeats of a queue's consumer (they live 30 s).",
    )
    sweep_interval_seconds: float = Field(
        30.0, ge=0.1, le=3_600, description="Seconds between two sweeps for lost work."
    )
    canary_interval_seconds: float = Field(
        60.0,
        ge=0,
        le=3_600,
        description="Seconds between two canaries through each queue that has workers; 0 sends none. The alert looks for one that is not answered for three minutes.",
    )
    collect_interval_seconds: float = Field(
        600.0,
        ge=0.1,
        le=43_200,
        description="Seconds between two rounds that remove deleted photos' files and other trash from storage.",
    )
    orphan_scan_seconds: float = Field(
        21_600.0, ge=0.1, le=604_800, description="Seconds between two looks for objects that no row names."
    )
    orphan_after_seconds: float = Field(
        604_800.0,
        ge=0.1,
        description="Age from which an object that no row names is moved into the trash folder.",
    )
    orphan_trash_seconds: float = Field(
        604_800.0, ge=0.1, description="How long an orphan lies in the trash folder before it is removed."
    )
    lingxi_concurrency: str = Field(
        "",
        description="Items at once per queue and process, e.g. `media:verify=4,photo:process=2`. Empty: each processor's own number.",
    )
    photo_prefix: str = Field(
        "photo-live", description="First part of the storage keys of photos' pictures: `[a-z0-9-]+`."
    )
    photo_environment: str = Field("dev", description="Second part of these keys, e.g. `dev` or `prod`.")
    database_pool_size: int = Field(
        10, ge=2, le=200, description="Connections to PostgreSQL that an API process may hold."
    )
    max_body_bytes: int = Field(16 * MEBIBYTE, ge=1_024, description="Largest JSON body of a request.")
    max_object_bytes: int = Field(2_048 * MEBIBYTE, ge=1, description="Largest object that may be uploaded.")
    max_photo_bytes: int = Field(
        512 * MEBIBYTE,
        ge=1_024,
        le=512 * MEBIBYTE,
        description="Largest original of a photo that may be uploaded.",
    )
    max_photos_per_upload: int = Field(
        1_000, ge=1, le=10_000, description="Files that one form of photos may hold."
    )
    max_upload_bytes: int = Field(
        16_384 * MEBIBYTE, ge=1_024, description="Largest form of photos, all its files together."
    )
    body_timeout_seconds: float = Field(
        30.0,
        ge=0.1,
        le=3_600,
        description="Longest silence while a body arrives; a JSON body must be complete within twice that.",
    )
    stream_poll_ms: int = Field(
        800,
        ge=20,
        le=60_000,
        description="Milliseconds between two polls for the changes of watched tasks when no hint wakes it.",
    )
    stream_heartbeat_seconds: float = Field(
        15.0, ge=0.1, le=300, description="Silence on a stream after which a comment line is sent."
    )
    streams_per_grant: int = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="Open event streams of one token or share link that an API process serves; more are answered 429.",
    )
    streams_per_address: int = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="The same from one address (behind a proxy, all that it passes on without X-Forwarded-For).",
    )
    stream_access_check_seconds: float = Field(
        30.0, ge=0.1, le=600, description="Seconds between two checks that open streams may still be read."
    )
    share_requests_per_minute: int = Field(
        6_000,
        ge=1,
        le=10_000_000,
        description="Requests with share links that one address may make a minute, to each API process; guests behind one router share them.",
    )
    share_exchanges_per_minute: int = Field(
        120, ge=1, le=1_000_000, description="Share links that one address may open (or try) a minute."
    )
    retention_tasks_days: float = Field(
        30.0,
        ge=0,
        le=100_000,
        description="Days that a task is kept after its end, with its items and attempts. 0: for ever.",
    )
    retention_events_days: float = Field(
        7.0,
        ge=0,
        le=100_000,
        description="Days that an outbox event is kept after its publication. 0: for ever.",
    )
    retention_webhooks_days: float = Field(
        30.0,
        ge=0,
        le=100_000,
        description="Days that what webhooks were told is kept, with its deliveries. 0: for ever.",
    )
    retention_audit_days: float = Field(
        400.0, ge=0, le=100_000, description="Days that a row of the audit log is kept. 0: for ever."
    )
    retention_objects_days: float = Field(
        0.0,
        ge=0,
        le=100_000,
        description="Days that an object is kept after it was last put, unless an open item names it. 0: for ever.",
    )
    workspace_requests_per_minute: int = Field(
        0,
        ge=0,
        le=10_000_000,
        description="Requests that a workspace may make a minute, to each API process, unless it has a quota of its own. 0: no limit.",
    )
    workspace_open_items: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="Items of a workspace that may not have ended, unless it has a quota of its own. 0: no limit.",
    )
    workspace_stored_bytes: int = Field(
        0,
        ge=0,
        le=2**60,
        description="Bytes of objects and uploaded photos that a workspace may store, unless it has a quota of its own. 0: no limit.",
    )
    webhook_allowed_networks: str = Field(
        "",
        description="Networks beside the public internet to which webhooks may go, also by plain http: `10.1.0.0/16, fd00::/8`. Empty: none.",
    )
    lingxi_testing: bool = Field(False, description="Set only by tests: allows failpoints.")
    lingxi_failpoints: str = Field(
        "", description="Only with LINGXI_TESTING: failpoints to arm, e.g. `worker.after_commit=kill`."
    )
    lingxi_failpoints_dir: Path | None = Field(
        None,
        description="Only with LINGXI_TESTING: folder of the files that tell that a failpoint was reached.",
    )

    @field_validator("database_url", "database_direct_url")
    @classmethod
    def _postgres(cls, value: str) -> str:
        if value and not value.startswith(("postgresql://", "postgres://")):
            raise ValueError("must begin with postgresql://")
        return value

    @field_validator("redis_url")
    @classmethod
    def _redis(cls, value: str) -> str:
        if value and not value.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must begin with redis:// or rediss://")
        return value

    @field_validator("storage_url")
    @classmethod
    def _storage(cls, value: str) -> str:
        if value and not value.startswith(("file:///", "s3://")):
            raise ValueError("must begin with file:/// or s3://")
        return value

    @field_validator("aws_endpoint_url", "s3_public_url")
    @classmethod
    def _endpoint(cls, value: str) -> str:
        if value and not re.fullmatch(r"https?://[^/?#@\s]+/?", value):
            raise ValueError("must be http://host[:port] or https://host[:port], without a path")
        return value.rstrip("/")

    @field_validator("webhook_allowed_networks", "lingxi_trusted_proxies")
    @classmethod
    def _networks(cls, value: str) -> str:
        networks_named(value)
        return value

    @field_validator("photo_prefix", "photo_environment")
    @classmethod
    def _part_of_keys(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", value):
            raise ValueError("lower-case letters, digits and '-' only, at most 63")
        return value

    @field_validator("lingxi_secret_key")
    @classmethod
    def _secrets(cls, value: str) -> str:
        keys = [key.strip() for key in value.split(",")] if value else []
        if len(keys) > 2 or any(len(key) < 32 for key in keys):
            raise ValueError("one key, or two while rotating, of at least 32 characters each")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "Settings":
        if self.lingxi_failpoints and not self.lingxi_testing:
            raise ValueError("LINGXI_FAILPOINTS works only with LINGXI_TESTING=1, which is for tests")
        if self.storage_url.startswith("s3://") and not (
            self.aws_access_key_id and self.aws_secret_access_key
        ):
            raise ValueError("STORAGE_URL is s3://, which needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        if self.lease_renew_seconds > self.lease_seconds / 2:
            raise ValueError("LEASE_RENEW_SECONDS must be at most half of LEASE_SECONDS")
        if self.queue or self.lingxi_queues or self.lingxi_concurrency:  # else no processor is looked for yet
            self._check_queues()
        return self

    def _check_queues(self) -> None:
        queues_named(self.queue, self.deployed_queues, self.groups)
        for queue in self.concurrency:
            if queue not in self.deployed_queues:
                raise ValueError(
                    f"LINGXI_CONCURRENCY names {queue!r}; known are: {', '.join(self.deployed_queues)}"
                )

    @property
    def migration_url(self) -> str:
        """Where the schema is looked at and changed."""
        return self.database_direct_url or self.database_url

    @property
    def processor_modules(self) -> tuple[str, ...]:
        """LINGXI_PROCESSORS as a tuple."""
        return tuple(filter(None, (module.strip() for module in self.lingxi_processors.split(","))))

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """All queue groups with their queues. Users' processors are imported for it; SettingsError when one is wrong."""
        from lingxi.processors.finding import ProcessorsError, find_processors, groups_with

        try:
            return groups_with(find_processors(self.processor_modules))
        except ProcessorsError as error:
            raise SettingsError(str(error)) from error

    @property
    def deployed_queues(self) -> tuple[str, ...]:
        """The logical queues of this deployment."""
        groups = self.groups
        every = tuple(dict.fromkeys([*QUEUES, *(queue for queues in groups.values() for queue in queues)]))
        return queues_named(self.lingxi_queues, every, groups)

    @property
    def served_queues(self) -> tuple[str, ...]:
        """The logical queues that a worker process of ours serves: not those of processors that run elsewhere."""
        from lingxi.processors.finding import find_processors

        named = queues_named(self.queue, self.deployed_queues, self.groups)
        found = find_processors(self.processor_modules)
        elsewhere = {one.processor.name for one in found if one.processor.run is None}
        return tuple(queue for queue in named if queue not in elsewhere)

    @property
    def concurrency(self) -> dict[str, int]:
        """LINGXI_CONCURRENCY as numbers by logical queue."""
        numbers: dict[str, int] = {}
        for part in filter(None, (part.strip() for part in self.lingxi_concurrency.split(","))):
            queue, _, number = part.partition("=")
            if not number.isdigit() or not 1 <= int(number) <= 10_000:
                raise ValueError(
                    f"LINGXI_CONCURRENCY: {part!r} is not QUEUE=NUMBER with a number from 1 to 10000"
                )
            numbers[queue.strip()] = int(number)
        return numbers

    @property
    def secret_keys(self) -> tuple[bytes, ...]:
        """The keys that verify, the signing one first; empty when none was set."""
        return tuple(key.strip().encode() for key in self.lingxi_secret_key.split(",") if key.strip())

    @property
    def webhook_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """WEBHOOK_ALLOWED_NETWORKS as networks."""
        return networks_named(self.webhook_allowed_networks)

    @property
    def trusted_proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """LINGXI_TRUSTED_PROXIES as networks."""
        return networks_named(self.lingxi_trusted_proxies)

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        """LINGXI_ALLOWED_HOSTS as a tuple."""
        return tuple(filter(None, (host.strip() for host in self.lingxi_allowed_hosts.split(","))))

    @property
    def data_dir(self) -> Path:
        """LINGXI_DATA_DIR, absolute."""
        return self.lingxi_data_dir.expanduser().absolute()


def load_settings(**overrides: Any) -> Settings:
    """Settings from the environment; SettingsError says which is wrong and why. `overrides` win (command line options)."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        lines = []
        for one in error.errors():
            name = str(one["loc"][0]).upper() if one["loc"] else ""
            message = one["msg"].removeprefix("Value error, ")
            lines.append(f"{name}: {message}" if name else message)
        raise SettingsError("\n".join(lines)) from None


def child_environment(**settings: str) -> dict[str, str]:
    """The environment for a child process that is Lingxi too: this process's, with some settings given by us."""
    return {**os.environ, **{name.upper(): value for name, value in settings.items()}}


def processor_environment() -> dict[str, str]:
    """What children that run users' sync processors see: this process's environment without Lingxi's settings, and without
    OpenTelemetry's, one of which may hold a token."""
    ours = {name.upper() for name in Settings.model_fields}
    return {
        name: value
        for name, value in os.environ.items()
        if name.upper() not in ours and not name.upper().startswith("OTEL_")
    }


def env_example() -> str:
    """The text of `.env.example`: every setting with its description and default, commented out."""
    lines = [
        "# Every setting of Lingxi with its default. Made by `python -m lingxi.settings`; no process reads this file by itself."
    ]
    for name, field in Settings.model_fields.items():
        default = field.default
        shown = "" if default is None else str(default).lower() if isinstance(default, bool) else str(default)
        lines += ["", f"# {field.description}", f"# {name.upper()}={shown}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(env_example())
