"""Which secret key a deployment signs with: the database remembers a fingerprint of it, which does not tell the key.

Processes with different keys would refuse each other's signatures, and sign with keys that nobody knows.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from lingxi.db.query import sql
from lingxi.db.session import Connection

_ROW: Final = "secret_key"


async def agree_on_key(connection: Connection, keys: Sequence[bytes]) -> bool:
    """True when the deployment's key is among `keys`; then the first of them is the deployment's from now on.

    So the first process decides, and who knows the key that holds may replace it: that is a rotation.
    """
    prints = _fingerprints(keys)
    held = await connection.fetchval(sql("deployment/remember"), _ROW, prints[0])
    if held in prints[1:]:
        await connection.execute(sql("deployment/set"), _ROW, prints[0])
    return held in prints


async def knows_key(connection: Connection, keys: Sequence[bytes]) -> bool:
    """Is the deployment's key among `keys`? True also while none is remembered."""
    held = await connection.fetchval(sql("deployment/get"), _ROW)
    return held is None or held in _fingerprints(keys)


def _fingerprints(keys: Sequence[bytes]) -> list[str]:
    return [hashlib.sha256(b"lingxi secret key\0" + key).hexdigest() for key in keys]
