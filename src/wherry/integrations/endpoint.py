"""A small HTTP door for numbers: `/metrics` for Prometheus, `/healthz` for whoever keeps us alive.

It has a thread of its own, so that it answers also while handlers block the event loop, which is
when somebody wants to know. It asks nobody who they are: let it listen where only your own
machines are.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import (
    CollectorRegistry,
    make_wsgi_app,  # pyright: ignore[reportUnknownVariableType]
)

from wherry.errors import ConfigError

_PLAIN = [("Content-Type", "text/plain; charset=utf-8")]
# Whoever connects and says nothing is let go after this.
_PATIENCE_SECONDS = 5.0


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    # Whoever has the port while another one starts anew is told so.
    allow_reuse_address = True
    request_queue_size = 16

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that went away is no business of the log's."""


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of requests."""


@contextmanager
def served(
    registry: CollectorRegistry,
    *,
    host: str,
    port: int,
    trouble: Callable[[], str | None] = lambda: None,
) -> Generator[int]:
    """Serve inside the block, at the port that this gives.

    *trouble* says why whoever watches should start the process anew, if they should. Raises
    ConfigError if nobody can listen there.
    """
    metrics: Any = make_wsgi_app(registry)  # pyright: ignore[reportUnknownVariableType]

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        match environ.get("PATH_INFO"):
            case "/metrics":
                answer: Iterable[bytes] = metrics(environ, start_response)
                return answer
            case "/healthz":
                wrong = trouble()
                start_response("503 Service Unavailable" if wrong else "200 OK", _PLAIN)
                return [f"{wrong or 'ok'}\n".encode()]
            case _:
                start_response("404 Not Found", _PLAIN)
                return [b"here are /metrics and /healthz\n"]

    kind = _ServerV6 if ":" in host else _Server
    try:
        server = make_server(host, port, app, server_class=kind, handler_class=_Handler)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"metrics cannot be served at {host}:{port} ({error}): name another address, or stop"
            " whoever has this one"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="wherry-metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
