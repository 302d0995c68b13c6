"""An album on a bench, and photos that look alike."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest

from lingxi.imaging.children import DecoderConfig, Decoders
from lingxi.processors.contract import Processor
from lingxi.processors.photo_fingerprint import PhotoFingerprint
from lingxi.testing import Bench, open_bench
from lingxi.testing.ran import Ran
from tests.support.servers import Servers


@dataclass
class Album:
    """An album of the bench's workspace; photos in it are rows and originals, as uploads leave them."""

    bench: Bench
    processor: Processor[Any]
    id: UUID = field(default_factory=uuid4)
    workspace_id: UUID | None = None
    uploads: int = 0

    def open(self) -> Album:
        self.bench.fetch(
            "insert into albums (id, workspace_id, name) values ($1, $2, 'a')",
            self.id,
            self.workspace_id or self.bench.workspace_id,
        )
        return self

    def add(self, data: bytes, *, generation: int = 1) -> UUID:
        """A ready photo of these bytes."""
        photo_id, self.uploads = uuid4(), self.uploads + 1
        name = f"{photo_id}.jpg"
        self.bench.put(name, data)
        (row,) = self.bench.fetch("select storage_key from objects where name = $1", name)
        key = row["storage_key"]
        self.bench.fetch("delete from objects where name = $1", name)
        self.bench.fetch(
            """insert into photos (id, workspace_id, album_id, upload_number, file_name, storage_key, size_bytes, sha256,
                 content_type, processing_state, visibility, published_at, requested_generation, published_generation,
                 width, height, last_seq)
               values ($1, $2, $3, $4, $5, $6, $7, $8, 'image/jpeg', 'ready', 'published', now(), $9, $9, 1, 1, 1)""",
            photo_id,
            self.workspace_id or self.bench.workspace_id,
            self.id,
            self.uploads,
            name,
            key,
            len(data),
            hashlib.sha256(data).digest(),
            generation,
        )
        return photo_id

    def run(self, photo_id: UUID) -> Ran:
        return self.bench.run(self.processor, {"photoId": str(photo_id)})

    def result(self, photo_id: UUID) -> dict[str, Any]:
        """Of an item that has to succeed."""
        ran = self.run(photo_id)
        assert ran.state == "succeeded", (ran.code, ran.message)
        result: dict[str, Any] = json.loads(json.dumps(ran.result))
        return result

    def rows(self, photo_id: UUID) -> int:
        return len(self.bench.fetch("select from photo_fingerprints where photo_id = $1", photo_id))


@pytest.fixture(scope="module")
def bench(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with open_bench(tmp_path_factory.mktemp("bench"), database_url=servers.database_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def processor() -> Iterator[Processor[Any]]:
    decoders = Decoders(DecoderConfig(children=1))
    yield PhotoFingerprint(decoders).processor()
    asyncio.run(decoders.close())


@pytest.fixture
def album(bench: Bench, processor: Processor[Any]) -> Album:
    return Album(bench, processor).open()
