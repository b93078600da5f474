"""A way to a gRPC server on which an answer gets lost: once, after the server has given it.

What goes over it is told by a mark in it. An answer is known by its DATA frame: whatever HTTP/2
says beside that (acknowledgements, pings) is no answer yet.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

_FRAME_HEAD = 9
_DATA = 0


class Cutting:
    """Cuts the connection at the answer to the first request that holds *mark*.

    With `in_answer` at the first answer that holds it.
    """

    def __init__(self, port: int, mark: bytes, *, in_answer: bool = False) -> None:
        self._port = port
        self._mark = mark
        self._in_answer = in_answer
        self._armed = True
        self.cuts = 0
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"grpc://127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def close(self) -> None:
        """End every connection and thread."""
        for each in [self._listener, *self._sockets]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()
        for each in [self._listener, *self._sockets]:
            each.close()

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                try:
                    server = socket.create_connection(("127.0.0.1", self._port), timeout=5)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                self._sockets.append(server)
                doomed = threading.Event()
                self._start(self._ask, client, server, doomed)
                self._start(self._answer, client, server, doomed)

    def _ask(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        seen = b""
        with suppress(OSError):
            while data := client.recv(65536):
                seen = (seen + data)[-100_000:]
                if self._armed and not self._in_answer and self._mark in seen:
                    self._armed = False
                    doomed.set()
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answer(
        self, client: socket.socket, server: socket.socket, doomed: threading.Event
    ) -> None:
        held = b""
        with suppress(OSError):
            while data := server.recv(65536):
                if self._armed and self._in_answer and self._mark in data:
                    self._armed = False
                    self.cuts += 1
                    break
                if doomed.is_set():
                    held += data
                    if _holds_answer(held):
                        self.cuts += 1
                        break
                    continue
                client.sendall(data)
        for each in (client, server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _holds_answer(data: bytes) -> bool:
    """Whether a DATA frame begins in *data*, which begins with a frame."""
    while len(data) >= _FRAME_HEAD:
        if data[3] == _DATA:
            return True
        data = data[_FRAME_HEAD + int.from_bytes(data[:3], "big") :]
    return False
