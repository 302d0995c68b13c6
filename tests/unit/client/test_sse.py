"""The event-stream parser: the rules of the standard, however the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingxi.client.errors import StreamBroken
from lingxi.client.sse import EventParser, ServerSentEvent

STREAM = (
    '\ufeffretry: 1500\r\n: hello\n\nid: 1\nevent: snapshot\ndata: {"a":\r\ndata:  "灵犀"}\r\n\r\n'
    "event: progress\rdata: {}\r\rid: 2\nevent: item\ndata: x\n\nid: bad\0id\nretry: 12x\ndata\n\n"
    "event: lost\nid: 9\n\nunknown: y\ndata: cut"
).encode()
EXPECTED = [
    ServerSentEvent("snapshot", '{"a":\n "灵犀"}', "1", "1"),
    ServerSentEvent("progress", "{}", None, "1"),
    ServerSentEvent("item", "x", "2", "2"),
    ServerSentEvent("message", "", None, "2"),
]


def parse(*chunks: bytes) -> tuple[list[ServerSentEvent], EventParser]:
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)], parser


def test_a_whole_stream() -> None:
    events, parser = parse(STREAM)
    assert events == EXPECTED
    # An event without data is not dispatched, but its id counts; digits only make a retry.
    assert parser.last_id == "9"
    assert parser.retry_ms == 1500


def test_byte_by_byte() -> None:
    events, _ = parse(*(STREAM[at : at + 1] for at in range(len(STREAM))))
    assert events == EXPECTED


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_cut_anywhere(cuts: list[int]) -> None:
    ends = sorted([*cuts, len(STREAM)])
    chunks = [STREAM[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert parse(*chunks)[0] == EXPECTED


def test_an_endless_event_is_refused() -> None:
    parser = EventParser(max_event_bytes=1000)
    with pytest.raises(StreamBroken):
        for _ in range(100):
            parser.feed(b"data: " + b"x" * 50 + b"\n")


def test_an_endless_line_is_refused() -> None:
    parser = EventParser(max_event_bytes=1000)
    with pytest.raises(StreamBroken):
        for _ in range(100):
            parser.feed(b"x" * 50)
