"""Preparations of the server before the first visit."""

import socket

from app.frame.server import send_at_once


def test_accepted_connections_send_at_once() -> None:
    """Opened as Streamlit opens its socket: asyncio sets TCP_NODELAY only where the protocol is named."""
    with socket.socket(socket.AF_INET) as listening, socket.socket() as client:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        send_at_once()
        client.connect(listening.getsockname())
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
