"""Lines are JSON, name their process and their request, and hold nothing of what others' messages quote."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Any

import asyncpg
import pytest
import structlog

from lingxi.observability.logging import configure, get_logger, say_of_process
from lingxi.observability.redaction import redacted

CUT_OUT = [
    ("postgresql://lingxi:pa55word@db:5432/lingxi refused", "pa55word"),
    ("GET https://s3.example/media/a?X-Amz-Signature=abc123&X=1 failed", "abc123"),
    ("asked /s/ABCDEFGHijklmnop_-123 twice", "ABCDEFGHijklmnop"),
    ("signed-objects/AAAABBBBCCCC.dddd is bad", "AAAABBBBCCCC"),
    ("token lx_" + "Z" * 43 + " unknown", "Z" * 43),
    ("secret whsec_Zm9vYmFyZm9vYmFy is bad", "Zm9vYmFy"),
    ("Authorization: Bearer abc.def.ghi", "abc.def"),
    ("{'password': 'hunter2 with spaces', 'user': 'x'}", "hunter2"),
    ("stream?token=AWk2abcdef&x=1", "AWk2abcdef"),
    ("duplicate key\nDETAIL:  Key (workspace_id, name)=(x, wedding of Lin.jpg) already exists.", "wedding"),
    ("Key (name)=(the bride) exists", "bride"),
    ("1 validation error [type=int, input_value='my secret', input_type=str]", "my secret"),
    ("object media:private/shoot/IMG_1.CR3 is gone", "private/shoot"),
    ("cannot read IMG_20260101_120000.HEIC", "IMG_2026"),
    ("[Errno 2] No such file or directory: '/data/My holiday'", "holiday"),
    ("cannot open file 'Anna und Peter.jpg'", "Anna"),
    ('KeyError: "Hochzeit Müller"', "Müller"),
    ("GPS 48.85837, 2.29448", "48.85837"),
    ("at 48°51'29.5\" N", "48°51"),
]
LEFT = [
    "connection refused by 10.0.0.3:5432",
    "column 'workspace_id' does not exist",
    "TimeoutError: no answer within 1.5 s",
    'File "/usr/lib/lingxi/worker/executor.py", line 97, in _run',
    "the queue media:verify isn't served, and it wasn't before",
    "out of memory: 12.345 MB of 67.890 MB",
]


@pytest.mark.parametrize(("text", "secret"), CUT_OUT)
def test_cut_out(text: str, secret: str) -> None:
    assert secret in text and secret not in redacted(text)


@pytest.mark.parametrize("text", LEFT)
def test_left(text: str) -> None:
    assert redacted(text) == text


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_every_thread_names_the_process_and_a_request_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", role="worker", pid=7)
    say_of_process(worker="host/7")
    log = get_logger("here")
    thread = threading.Thread(target=lambda: log.info("said"))
    thread.start()
    thread.join()
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        log.info("asked", task_id="t")
    log.debug("whispered")
    first, second = lines(capsys)
    assert (first["role"], first["pid"], first["worker"]) == ("worker", 7, "host/7")
    assert (second["request_id"], second["task_id"], second["event"]) == ("r1", "t", "asked")
    assert {"level", "timestamp", "component"} <= first.keys()
    configure("info")


def test_exceptions_keep_where_and_lose_what_they_quote(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    secret = "a very private value"  # a local variable, too

    def fail() -> None:
        error = asyncpg.UniqueViolationError("duplicate key value violates unique constraint")
        error.detail = f"Key (name)=({secret}) already exists."
        raise error

    try:
        fail()
    except asyncpg.PostgresError as error:
        get_logger("here").error("request_failed", exc_info=error)
    text = capsys.readouterr().err
    assert secret not in text
    (exception,) = json.loads(text)["exception"]
    assert exception["exc_type"] == "UniqueViolationError"
    assert exception["exc_value"].startswith("duplicate key value violates unique constraint")
    assert exception["frames"][-1]["filename"].endswith("test_logging.py")


async def test_lines_of_libraries_are_ours_in_shape(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    kept, root.handlers = root.handlers, []
    try:
        configure("info")
        logging.getLogger("somelib").warning("cannot reach %s", "redis://:pass@host/0")
        logging.getLogger("somelib").info("chatter")
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "lost", "exception": ValueError("'the bride.jpg'")})
    finally:
        root.handlers = kept
    first, second = lines(capsys)
    assert (first["component"], first["event"], first["level"]) == ("somelib", "library_spoke", "warning")
    assert first["message"] == "cannot reach redis://…@host/0"
    assert second["component"] == "asyncio" and second["exception"][0]["exc_type"] == "ValueError"
    assert "bride" not in json.dumps(second, ensure_ascii=False)
