"""A small transaction pooler: each transaction of a client may be answered by another session.

It speaks just enough of PostgreSQL's protocol for that, to one server on a socket of this machine
that trusts its users, and hands out what was given back last, as PgBouncer does.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import closing, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_SSL, _GSS = 80877103, 80877104
_OWN_PID = 424242
_SAID = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
_REFUSAL = b"E" + struct.pack("!i", 4 + len(_SAID)) + _SAID


@dataclass
class _Server:
    """A session on the server, and what it said when it began."""

    sock: socket.socket
    greeting: bytes = b""


@dataclass
class Pooler:
    """Stands before the server of `dsn`, and is reached by `pooled`; a context manager."""

    dsn: str
    # More sessions than these are not opened: who asks for one is turned away, or waits.
    most: int = 100
    waits: bool = False
    # Whether startup parameters of PostgreSQL's settings pass, as PgBouncer lets them only if told.
    lets_settings_pass: bool = True
    _sessions: int = 0
    _idle: list[_Server] = field(default_factory=list)
    _open: list[socket.socket] = field(default_factory=list)
    _turn: threading.Condition = field(default_factory=threading.Condition)
    _over: bool = False

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    @property
    def pooled(self) -> str:
        """The same database through it."""
        return make_conninfo(self.dsn, host="127.0.0.1", port=self._listener.getsockname()[1])

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._turn:
            self._over = True
            self._turn.notify_all()
        for sock in (self._listener, *self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with closing(client), suppress(OSError, EOFError):
            startup = _startup(client)
            if not self.lets_settings_pass and b"\0options\0" in startup:
                client.sendall(_REFUSAL)
                return
            first = self._take(startup)
            server: _Server | None = first
            try:
                # A process id of its own, in place of the session's.
                client.sendall(first.greeting)
                self._give_back(first)
                server = None
                while True:
                    kind, message = _message(client)
                    if kind == b"X":
                        return
                    server = server or self._take(startup)
                    server.sock.sendall(message)
                    # A query, or the end of a row of messages: now the session answers.
                    if kind in (b"Q", b"S") and self._is_over(client, server):
                        self._give_back(server)
                        server = None
            finally:
                if server is not None:
                    self._drop(server)

    def _drop(self, server: _Server) -> None:
        """End a session whose client has gone in the middle, as PgBouncer does."""
        server.sock.close()
        with self._turn:
            self._sessions -= 1
            self._turn.notify()

    def _give_back(self, server: _Server) -> None:
        with self._turn:
            self._idle.append(server)
            self._turn.notify()

    def _take(self, startup: bytes) -> _Server:
        with self._turn:
            while self.waits and not self._idle and self._sessions == self.most and not self._over:
                self._turn.wait()
            if self._idle:
                return self._idle.pop()
            if self._sessions == self.most:
                raise EOFError
            self._sessions += 1
            where = conninfo_to_dict(self.dsn)
            server = _Server(socket.socket(socket.AF_UNIX))
            self._open.append(server.sock)
            server.sock.connect(f"{where['host']}/.s.PGSQL.{where.get('port', 5432)}")
            server.sock.sendall(startup)
            kind = b""
            while kind != b"Z":
                kind, message = _message(server.sock)
                if kind == b"K":
                    message = b"K" + struct.pack("!iii", 12, _OWN_PID, 1)
                server.greeting += message
            return server

    def _is_over(self, client: socket.socket, server: _Server) -> bool:
        """Pass on one answer; return whether the session is in no transaction any more."""
        while True:
            kind, message = _message(server.sock)
            client.sendall(message)
            if kind == b"Z":
                return message[5:6] == b"I"


def _startup(client: socket.socket) -> bytes:
    while True:
        [length, code] = struct.unpack("!ii", _exactly(client, 8))
        if code not in (_SSL, _GSS):
            return struct.pack("!ii", length, code) + _exactly(client, length - 8)
        client.sendall(b"N")


def _message(sock: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(sock, 5)
    [length] = struct.unpack("!i", head[1:])
    return head[:1], head + _exactly(sock, length - 4)


def _exactly(sock: socket.socket, n: int) -> bytes:
    got = b""
    while len(got) < n:
        more = sock.recv(n - len(got))
        if not more:
            raise EOFError
        got += more
    return got
