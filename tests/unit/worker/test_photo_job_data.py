"""What the data of a photo's job may be."""

from uuid import UUID

import pytest

from lingxi import names
from lingxi.broker.job import photo_job
from lingxi.worker.job import NewerPayload, PhotoKey, parse_job, parse_photo_job

PHOTO, ALBUM = UUID(int=7), UUID(int=8)


def test_what_is_sent_is_understood_and_is_no_item() -> None:
    job = photo_job(PHOTO, ALBUM)
    assert parse_photo_job(job.data) == PhotoKey(PHOTO, ALBUM)
    assert parse_job(job.data) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"v":1}',
        b'{"v":"1","photoId":"x"}',
        b'{"v":1,"photoId":7,"albumId":8}',
        b'{"v":1,"photoId":null,"albumId":null}',
        f'{{"v":1,"photoId":"{PHOTO}"}}'.encode(),
        f'{{"v":0,"photoId":"{PHOTO}","albumId":"{ALBUM}"}}'.encode(),
        f'{{"v":true,"photoId":"{PHOTO}x","albumId":"{ALBUM}"}}'.encode(),
    ],
)
def test_what_names_no_photo_is_none_of_ours(data: bytes) -> None:
    assert parse_photo_job(data) is None


def test_a_newer_version_is_told_apart() -> None:
    with pytest.raises(NewerPayload):
        parse_photo_job(b'{"v":2,"photo":"somehow"}')


def test_storage_may_be_away_for_a_minute() -> None:
    """The last of three attempts begins later than that."""
    waits = [names.PHOTO_BACKOFF_SECONDS * 2**n for n in range(names.PHOTO_ATTEMPTS - 1)]
    assert 60 < sum(waits) < 120
