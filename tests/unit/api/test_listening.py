"""The listening socket: what it accepts sends at once."""

import socket

import pytest

from lingxi.api.server import listen


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_answer_does_not_wait_for_an_acknowledgement(host: str) -> None:
    try:
        listening = listen(host, 0)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with listening, socket.create_connection(listening.getsockname()[:2]):
        listening.setblocking(True)
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
