"""The watchers count frames right, however the bytes are cut."""

import asyncio
from collections.abc import Iterator

import pytest

from benchmarks.watchers import Book, Watcher

STREAM = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b'2a\r\nid: 11\nevent: snapshot\ndata: {"id":"x"}\n\n\r\n'
    b'50\r\nid: 12\nevent: item\ndata: {"ref":"id: 99"}\n\nid: 13\nevent: item\ndata: {}\n\n\r\n'
    b"20\r\nevent: progress\ndata: {}\n\n\r\n"
    b"20\r\nid: 14\nevent: item\ndata: {}\n\n\r\n"
)


def pieces(size: int) -> Iterator[bytes]:
    for start in range(0, len(STREAM), size):
        yield STREAM[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 64, len(STREAM)])
async def test_each_item_frame_is_noted_once(size: int) -> None:
    book = Book()
    watcher = Watcher(book, path=3, number=5, request=b"")
    for piece in pieces(size):
        watcher.data_received(piece)
    async with asyncio.timeout(1):
        await watcher.snapshot
    assert [(path, watcher, number) for path, watcher, number, _ in book.frames] == [
        (3, 5, 12),
        (3, 5, 13),
        (3, 5, 14),
    ]


async def test_a_stream_that_ends_by_itself_is_counted() -> None:
    book = Book()
    watcher = Watcher(book, path=0, number=0, request=b"")
    watcher.data_received(STREAM)
    watcher.connection_lost(None)
    assert book.lost == 1
