"""A socket that listens, and knows whom it has let in.

With TLS a connection belongs to asyncio alone until its handshake is over, for up to a minute, and
nothing of it tells that it is there. So that a door can end those too, it keeps what was accepted.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any
from weakref import WeakSet


class ListeningSocket(socket.socket):
    """A TCP socket for asyncio to accept from."""

    def __init__(self, family: int, type: int, proto: int) -> None:
        super().__init__(family, type, proto)
        self._accepted: WeakSet[socket.socket] = WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection, and keep it in mind for as long as anybody has it."""
        connection, address = super().accept()
        self._accepted.add(connection)
        return connection, address

    def hang_up(self) -> None:
        """End what was accepted and is open.

        The other side sees the end at once; asyncio does in its next turn, and closes its own.
        """
        for connection in list(self._accepted):
            # It may have hung up itself, or be closed.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
