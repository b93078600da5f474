"""A way to PostgreSQL that is cut at the worst moment: after the commit, before the answer.

Cutting any earlier proves little: the server would see it, and roll back. So the answer is awaited,
up to its ReadyForQuery outside of a transaction, and then kept from the client.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_IDLE = b"Z\x00\x00\x00\x05I"


class Cutting:
    """Listens in *folder*; cuts each connection that sends what holds *mark*, once per such text.

    A text is told by the 9 bytes that follow the mark. *meanwhile* is done before the client hears
    of the cut.
    """

    def __init__(
        self,
        dsn: str,
        folder: Path,
        *,
        mark: bytes,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        given = conninfo_to_dict(dsn)
        port = str(given.get("port") or 5432)
        self._server = f"{given['host']}/.s.PGSQL.{port}"
        self.dsn = make_conninfo(dsn, host=str(folder))
        self.cuts = 0
        self._mark = mark
        self._meanwhile = meanwhile
        self._seen: set[bytes] = set()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / f".s.PGSQL.{port}"))
        self._listener.listen(20)
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
                server = socket.socket(socket.AF_UNIX)
                self._sockets += [client, server]
                server.connect(self._server)
                doomed = threading.Event()
                self._start(self._forward, client, server, doomed)
                self._start(self._answer, client, server, doomed)

    def _forward(
        self, client: socket.socket, server: socket.socket, doomed: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                _, found, rest = data.partition(self._mark)
                if found and rest[:9] not in self._seen:
                    self._seen.add(rest[:9])
                    doomed.set()
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answer(
        self, client: socket.socket, server: socket.socket, doomed: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if doomed.is_set():
                    if data.endswith(_IDLE):
                        self.cuts += 1
                        self._meanwhile()
                        break
                    continue
                client.sendall(data)
        for each in (client, server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
