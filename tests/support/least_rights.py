"""The product in the tests works with the least rights: the role and the Redis user that `infra/` gives to deployments.

Tests look at the database and change it as its owner; what is Lingxi itself (processes, the API's server, workers, dispatchers)
gets addresses from `as_app`, which name the same database and the same Redis. Only servers and databases that the tests have made
have these users; every other address is left as it is.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import redis.asyncio

_INFRA = Path(__file__).resolve().parents[2] / "infra"
PASSWORD = "the-password-of-the-tests-application"
TEST_DATABASES = "lingxi_test_"

ROLES, RIGHTS = _INFRA / "postgresql/roles.sql", _INFRA / "postgresql/rights.sql"
USERS = _INFRA / "redis/users.acl"
_redis_passwords: set[str] = set()


async def grant_rights(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Make the roles where they are missing, and give the application its rights in this database; as its owner."""
    roles = ROLES.read_text("utf-8")
    (make_roles,) = re.findall(r"^do \$\$.*?^end \$\$;$", roles, re.MULTILINE | re.DOTALL)
    await connection.execute(make_roles)
    await connection.execute(f"alter role lingxi_app password '{PASSWORD}'")
    await connection.execute(RIGHTS.read_text("utf-8"))


@cache
def redis_user() -> str:
    """The application's line of `infra/redis/users.acl`, without its first word, with the tests' password."""
    lines = USERS.read_text("utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith("user lingxi ")]
    return line.removeprefix("user ").replace("#PASSWORD_SHA256", f">{PASSWORD}")


def has_redis_user(password: str) -> None:
    """The Redis whose default user has this password knows the application, too."""
    _redis_passwords.add(password)


def as_app(url: str) -> str:
    """The address with the application's user, where the server that it leads to has one."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    if parts.scheme == "postgresql" and parts.path.startswith(f"/{TEST_DATABASES}"):
        return parts._replace(netloc=f"lingxi_app:{PASSWORD}@{place}").geturl()
    if parts.scheme == "redis" and parts.password in _redis_passwords:
        return parts._replace(netloc=f"lingxi:{PASSWORD}@{place}").geturl()
    return url


async def refusals(client: redis.asyncio.Redis) -> list[dict[str, Any]]:
    """What this Redis has refused the application for want of rights; `client` is its administrator's. Forgotten with that."""
    refused = [
        entry
        for entry in await client.acl_log()
        if entry["username"] == "lingxi" and entry["reason"] != "auth"
    ]
    if refused:
        await client.acl_log_reset()
    return [{key: entry[key] for key in ("reason", "object", "context")} for entry in refused]
