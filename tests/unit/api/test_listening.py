"""The listening socket: what it accepts sends at once."""

import socket

from lingxi.api.server import listen


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    listening = listen("127.0.0.1", 0)
    with listening, socket.create_connection(listening.getsockname()[:2]):
        listening.setblocking(True)
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
