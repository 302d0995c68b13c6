"""When a photo was taken: only a time with an offset is a moment."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingxi.imaging.capture import captured_at
from tests.support.pictures import exif

TAKEN, OFFSET, FRACTION = 36867, 36881, 37521
NOON = "2026:05:01 12:30:45"
IN_PARIS = datetime(2026, 5, 1, 12, 30, 45, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({TAKEN: NOON, OFFSET: "+02:00"}, IN_PARIS),
        ({TAKEN: NOON, OFFSET: "+02:00", FRACTION: "25"}, IN_PARIS.replace(microsecond=250_000)),
        ({TAKEN: NOON, OFFSET: "-03:30"}, datetime(2026, 5, 1, 16, 0, 45, tzinfo=UTC)),
        ({TAKEN: NOON, OFFSET: "Z"}, datetime(2026, 5, 1, 12, 30, 45, tzinfo=UTC)),
        ({TAKEN: "2026-05-01 12:30:45", OFFSET: "+02:00"}, IN_PARIS),
        ({TAKEN: NOON}, None),
        ({OFFSET: "+02:00"}, None),
        ({TAKEN: NOON, OFFSET: "   :  "}, None),
        ({TAKEN: NOON, OFFSET: "+99:00"}, None),
        ({TAKEN: "0000:00:00 00:00:00", OFFSET: "+00:00"}, None),
        ({TAKEN: "2026:02:30 12:00:00", OFFSET: "+00:00"}, None),
        ({TAKEN: "    :  :     :  :  ", OFFSET: "+00:00"}, None),
        ({}, None),
    ],
)
def test_the_moment(details: dict[int, str], expected: datetime | None) -> None:
    found = captured_at(exif(ifd0={271: "A camera"}, details=details))
    assert found == expected
    assert found is None or expected is None or found.utcoffset() is not None


def test_the_prefix_of_the_segment_is_no_matter() -> None:
    assert captured_at(exif(details={TAKEN: NOON, OFFSET: "+02:00"})[6:]) == IN_PARIS


WHOLE = exif(ifd0={271: "A camera"}, details={TAKEN: NOON, OFFSET: "+02:00"})


@given(st.integers(0, len(WHOLE)))
def test_cut_exif_is_never_an_error(length: int) -> None:
    assert captured_at(WHOLE[:length]) in (None, IN_PARIS)


@given(st.integers(6, len(WHOLE) - 1), st.integers(0, 255))
def test_damaged_exif_is_never_an_error(at: int, value: int) -> None:
    captured_at(WHOLE[:at] + bytes([value]) + WHOLE[at + 1 :])


@given(st.binary(max_size=200))
def test_garbage_is_never_an_error(data: bytes) -> None:
    assert captured_at(data) is None
