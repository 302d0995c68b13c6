"""From a bucket into a bucket; storage that is away, or that goes away half-way, leaves nothing and is tried again."""

from __future__ import annotations

import hashlib
import io
import random
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from lingxi.processors.archive_check import check_archive
from lingxi.processors.archive_receipt import SigningKey
from lingxi.processors.archive_stream import ArchiveStream
from lingxi.services.archive_files import ArchiveFile
from lingxi.storage import Storage, StorageUnavailable, open_storage
from tests.integration.archive.conftest import KEY, SECRET
from tests.support.photos import TroubledStorage
from tests.support.s3 import S3Server

CONTENTS = [
    random.Random(number).randbytes(size) for number, size in enumerate((3, 0, 5 << 20, (16 << 20) + 9))
]


@pytest.fixture
async def bucket(s3_server: S3Server) -> AsyncIterator[Storage]:
    opened = open_storage("s3://media/archives", s3_server.access)
    yield opened
    await opened.close()


async def _files(storage: Storage) -> list[ArchiveFile]:
    files = []
    for number, data in enumerate(CONTENTS):

        async def chunks(data: bytes = data) -> AsyncIterator[bytes]:
            yield data

        stored = await storage.put(chunks(), max_bytes=1 << 30)
        name = f"{number}.bin"
        files.append(ArchiveFile(name, name, stored.key, stored.size_bytes, stored.sha256, 1_777_638_600))
    return files


def _stream(storage: Storage, files: list[ArchiveFile], **changes: Any) -> ArchiveStream:
    given: dict[str, Any] = {
        "head": {"archive": "a.zip", "item": "x", "issuedAt": "2026-05-01T12:30:00Z"},
        "issued_at": 1_777_638_600,
        "skip_missing": False,
        "say": lambda done, count: None,
    }
    return ArchiveStream(storage, files, SigningKey(SECRET), **{**given, **changes})


async def test_from_a_bucket_into_a_bucket(bucket: Storage) -> None:
    files = await _files(bucket)
    made = []
    for _ in range(2):  # the same bytes, however the chunks came
        stored = await bucket.put(_stream(bucket, files).chunks(), max_bytes=1 << 30)
        reader = await bucket.open(stored.key)
        made.append(b"".join([chunk async for chunk in reader]))
        await reader.close()
        assert hashlib.sha256(made[-1]).digest() == stored.sha256
    assert made[0] == made[1]
    checked = check_archive(io.BytesIO(made[0]), KEY)
    assert (checked.problems, checked.files) == ([], len(CONTENTS))


async def test_a_bucket_that_goes_away_half_way(bucket: Storage) -> None:
    files = await _files(bucket)
    before = {one.key async for one in bucket.list_keys()}
    troubled = TroubledStorage(bucket)

    def cut_off(done: int, count: int) -> None:
        troubled.away = True

    stream = _stream(cast(Storage, troubled), [*files, *files], say=cut_off)
    with pytest.raises(StorageUnavailable):
        await bucket.put(stream.chunks(), max_bytes=1 << 30)
    assert {one.key async for one in bucket.list_keys()} == before
