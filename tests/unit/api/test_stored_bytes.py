"""Which part of stored bytes a Range header asks for."""

import pytest

from lingxi.api.stored_bytes import Unsatisfiable, _known_already, asked_range

SIZE = 1000
WHOLE = (0, SIZE)


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=0-999", WHOLE),
        ("bytes=0-5000", WHOLE),
        ("bytes=10-19", (10, 10)),
        ("bytes=990-", (990, 10)),
        ("bytes=999-", (999, 1)),
        ("bytes=-1", (999, 1)),
        ("bytes=-2000", WHOLE),
        ("Bytes= 10-19", (10, 10)),
        # no single range of bytes: the whole, as RFC 9110 allows
        (None, WHOLE),
        ("", WHOLE),
        ("bytes=", WHOLE),
        ("bytes=-", WHOLE),
        ("bytes=20-10", WHOLE),
        ("bytes=0-1,5-6", WHOLE),
        ("bytes=a-b", WHOLE),
        ("bytes=1-2x", WHOLE),
        ("bytes=" + "9" * 19 + "-", WHOLE),
        ("items=0-1", WHOLE),
    ],
)
def test_a_range(header: str | None, part: tuple[int, int]) -> None:
    assert asked_range(header, SIZE) == part


@pytest.mark.parametrize(
    "header", ["bytes=1000-", "bytes=5000-6000", "bytes=-0", "bytes=999999999999999999-"]
)
def test_a_range_behind_the_end(header: str) -> None:
    with pytest.raises(Unsatisfiable) as refused:
        asked_range(header, SIZE)
    assert (refused.value.status, refused.value.headers) == (416, {"Content-Range": "bytes */1000"})


def test_nothing_has_no_part() -> None:
    assert asked_range(None, 0) == (0, 0)
    with pytest.raises(Unsatisfiable):
        asked_range("bytes=0-", 0)


@pytest.mark.parametrize(
    ("header", "known"),
    [
        (None, False), ('"a"', True), ('W/"a"', True), ('"b", "a"', True), ('"b" ,W/"a"', True), ("*", True),
        ('"b"', False), ("a", False), ("", False),
    ],
)  # fmt: skip
def test_if_none_match(header: str | None, known: bool) -> None:
    assert _known_already(header, '"a"') is known
