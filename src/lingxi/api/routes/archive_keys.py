"""The public keys by which receipts of archives are told from forged ones."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from lingxi.api import documented as doc
from lingxi.api.answers import json_answer
from lingxi.api.auth import AnyCaller
from lingxi.api.deps import deps_of
from lingxi.api.documented import documented
from lingxi.api.storage_schemas import ArchiveKeyList
from lingxi.processors.archive_receipt import ALGORITHM, SigningKey

router = APIRouter(prefix="/api/v1", tags=["Objects"])

_EXAMPLE: dict[str, Any] = {
    "keys": [
        {
            "id": "7f0a1c5e9b3d2468",
            "algorithm": ALGORITHM,
            "publicKey": "uJ3wq0Yt0n1mQ2cYkZ9s3o6tqf1o0H0qk5l2wJm8r7E=",
        }
    ]
}


@router.get(
    "/archive-keys",
    **documented(
        summary="List the public keys of archives' receipts",
        meaning="The first signs now; more than one while LINGXI_SECRET_KEY is being rotated.",
        answer=ArchiveKeyList,
        example=_EXAMPLE,
        errors=doc.AUTHENTICATED,
    ),
)
async def list_(request: Request, caller: AnyCaller) -> Response:
    keys = [SigningKey(secret).public_key for secret in deps_of(request).config.secret_keys]
    return json_answer(
        {"keys": [{"id": key.id, "algorithm": ALGORITHM, "publicKey": key.text} for key in keys]}
    )
