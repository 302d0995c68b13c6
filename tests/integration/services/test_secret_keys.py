"""One secret key a deployment: the first process decides, who knows it may replace it, and a stranger is told so."""

from __future__ import annotations

import pytest

from lingxi.bootstrap.api import agree_on_secret_key
from lingxi.bootstrap.common import StartRefused
from lingxi.db.session import Pool
from lingxi.services.secret_keys import knows_key

OLD, NEW, OTHER = b"the first key", b"the second key", b"a key of some other data folder"


async def test_the_first_decides_and_a_stranger_does_not_start(pool: Pool) -> None:
    async with pool.acquire() as connection:
        assert await knows_key(connection, [OTHER]), "nobody has decided yet"
        await agree_on_secret_key(pool, [OLD])
        assert await knows_key(connection, [OLD])
        assert not await knows_key(connection, [OTHER])
    with pytest.raises(StartRefused, match="LINGXI_SECRET_KEY differs"):
        await agree_on_secret_key(pool, [OTHER])
    stored = await pool.fetchval("select value from deployment where key = 'secret_key'")
    assert OLD.decode() not in stored


async def test_who_knows_the_key_may_replace_it(pool: Pool) -> None:
    await agree_on_secret_key(pool, [OLD])
    await agree_on_secret_key(pool, [NEW, OLD])
    await agree_on_secret_key(pool, [NEW])
    async with pool.acquire() as connection:
        assert not await knows_key(connection, [OLD])
    with pytest.raises(StartRefused):
        await agree_on_secret_key(pool, [OLD])
