"""What is wrong with this Redis for us, in sentences an operator can act on."""

from __future__ import annotations

from dataclasses import dataclass

from redis.exceptions import ResponseError

from lingxi.broker.client import RedisClient, broker_errors

OLDEST_REDIS = (7, 0)
OLDEST_VALKEY = (8, 0)
NEEDED_POLICY = "noeviction"


@dataclass(frozen=True, slots=True)
class ServerReport:
    """`server` is `redis` or `valkey`; `eviction_policy` is None when the server does not tell. `problems` stop a
    start; `notes` are worth a line."""

    server: str
    version: str
    eviction_policy: str | None
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


async def server_report(client: RedisClient) -> ServerReport:
    """Look at the server. Raises BrokerUnavailable when it cannot be asked at all."""
    with broker_errors():
        info = await client.info()
    server = "valkey" if info.get("server_name") == "valkey" or "valkey_version" in info else "redis"
    version = str(info.get(f"{server}_version", "0"))
    policy = str(info["maxmemory_policy"]) if "maxmemory_policy" in info else await _configured_policy(client)
    problems, notes = [], []
    oldest = OLDEST_VALKEY if server == "valkey" else OLDEST_REDIS
    if _numbers(version) < oldest:
        problems.append(f"{server.capitalize()} {version} is too old: Redis ≥ 7.0 or Valkey ≥ 8.0 is needed.")
    if policy is None:
        notes.append(
            "This server does not tell its eviction policy (CONFIG GET is forbidden): "
            f"see to it that maxmemory-policy is {NEEDED_POLICY}."
        )
    elif policy != NEEDED_POLICY:
        problems.append(
            f"The eviction policy is {policy}: Redis would throw jobs and locks away when memory is short. "
            f"Set maxmemory-policy to {NEEDED_POLICY}."
        )
    if info.get("role") == "slave":
        problems.append("This server is a read-only replica: REDIS_URL must point to the primary.")
    if info.get("cluster_enabled") in (1, "1"):
        problems.append(
            "This server is a Redis Cluster: a single primary (with replicas, if you like) is needed."
        )
    return ServerReport(server, version, policy, tuple(problems), tuple(notes))


async def _configured_policy(client: RedisClient) -> str | None:
    with broker_errors():
        try:
            found = await client.config_get("maxmemory-policy")
        except ResponseError:  # hosted servers rename or forbid CONFIG (NOPERM is a ResponseError too)
            return None
    return str(found["maxmemory-policy"]) if "maxmemory-policy" in found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
