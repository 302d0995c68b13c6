"""What the tests of uploads stand on: an album, a client, and looks into the database and the storage."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx

from tests.integration.api.harness import Api, World

BOUNDARY = b"xXxBoundaryxXx"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY.decode()}"}


def jpeg(content: bytes | int, size_bytes: int = 0) -> bytes:
    """Bytes that are sniffed as a JPEG, other ones for other `content`; decoding is no matter of these tests."""
    seed = hashlib.sha256(str(content).encode()).digest()
    body = b"\xff\xd8\xff\xe0" + seed
    return body + (seed * (size_bytes // len(seed) + 1))[: max(0, size_bytes - len(body))]


def part(header: bytes, content: bytes) -> bytes:
    """One part of a form; `header` is its Content-Disposition as it is sent."""
    return b"--%s\r\nContent-Disposition: %s\r\n\r\n%s\r\n" % (BOUNDARY, header, content)


def file_part(name: bytes, content: bytes) -> bytes:
    return part(b'form-data; name="files"; filename="%s"' % name, content)


def form(parts: Iterable[bytes]) -> bytes:
    return b"".join(parts) + b"--%s--\r\n" % BOUNDARY


@dataclass
class Stage:
    """`client` is our editor's; `folder` is where the objects lie."""

    api: Api
    world: World
    pool: asyncpg.Pool[asyncpg.Record]
    album_id: UUID
    client: httpx.AsyncClient
    folder: Path

    @property
    def path(self) -> str:
        return f"albums/{self.album_id}/photos"

    async def post(self, *files: tuple[str, bytes], headers: dict[str, str] | None = None) -> httpx.Response:
        """Upload in one form, as httpx writes it."""
        return await self.client.post(
            self.path, files=[("files", file) for file in files], headers=headers or {}
        )

    async def post_raw(self, body: bytes, **headers: str) -> httpx.Response:
        return await self.client.post(self.path, content=body, headers={**FORM, **headers})

    async def photos(self) -> list[asyncpg.Record]:
        return await self.pool.fetch(
            "select * from photos where album_id = $1 order by upload_number", self.album_id
        )

    async def count(self, table: str) -> int:
        count: int = await self.pool.fetchval(f'select count(*) from "{table}"')
        return count

    def stored(self) -> list[str]:
        """The keys of all stored bytes, unfinished ones included."""
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())


def outcomes(response: httpx.Response) -> list[tuple[str, str]]:
    """(status, error code or empty) of each file, in order."""
    body: dict[str, list[dict[str, Any]]] = response.json()
    return [(file["status"], file.get("error", {}).get("code", "")) for file in body["files"]]
