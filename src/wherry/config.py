"""Settings and their defaults; what users can set is a constant, so that it is stated once.

Whatever the database decides (lease ends, retention) is only asked for here, never measured here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

DSN_VARIABLE = "WHERRY_DSN"
# Where a client of a server finds its token.
TOKEN_VARIABLE = "WHERRY_TOKEN"
DEFAULT_SCHEMA = "wherry"
DEFAULT_QUEUE = "default"
DEFAULT_MAX_ATTEMPTS = 20
DEFAULT_POOL_SIZE = 10
DEFAULT_POOL_TIMEOUT = timedelta(seconds=10)
DEFAULT_CONCURRENCY = 20
DEFAULT_LEASE_FOR = timedelta(seconds=30)
# Of a search for tasks; who looks at a page of a dashboard waits less.
DEFAULT_SEARCH_TIMEOUT = timedelta(seconds=30)
DEFAULT_SHUTDOWN_TIMEOUT = timedelta(seconds=30)
DEFAULT_GRPC_ADDRESS = "127.0.0.1:50051"
DEFAULT_HTTP_ADDRESS = "127.0.0.1:8080"
MAX_SNOOZES = 1000
MAX_RELEASES = 100
# How long a client asks a server to wait at a time: proxies on the way end longer calls.
LONGEST_POLL_SECONDS = 30.0
PAYLOAD_LIMIT_BYTES = 1024 * 1024
# Far more than anybody writes: it is for code that makes a schedule of each row of a table.
SCHEDULES_LIMIT = 10_000
# Of the payloads that a server leases in one statement, and gives out in one answer, and one more.
LEASE_LIMIT_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """How an App's own connections are made and bounded."""

    size: int = DEFAULT_POOL_SIZE
    acquire_timeout: timedelta = DEFAULT_POOL_TIMEOUT
    connect_timeout: timedelta = timedelta(seconds=5)
    # A peer that vanished without a reset is noticed by the kernel after this.
    network_timeout: timedelta = timedelta(seconds=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker leases, runs and reports."""

    concurrency: int = DEFAULT_CONCURRENCY
    lease_for: timedelta = DEFAULT_LEASE_FOR
    shutdown_timeout: timedelta = DEFAULT_SHUTDOWN_TIMEOUT
    poll_every: timedelta = timedelta(seconds=1)
    # While the listener is proven alive the poll is only a backstop.
    poll_every_when_listening: timedelta = timedelta(seconds=5)
    # What maintenance there is to do. Less than the 5 s in which a lost lease is to be taken back,
    # and in which an enqueue tells nobody but by a look that its task will be due.
    look_every: timedelta = timedelta(seconds=4)
    # What would start later than this is left for another worker.
    prefetch_ahead: timedelta = timedelta(milliseconds=100)
    batch_size: int = 1000
    listen: bool = True
    # Start on a database that would lose tasks, and only warn (doctor/guard.py).
    allow_unsafe_database: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where a server listens, what it takes at a time, and how long it waits."""

    # As in server/addresses.py; None leaves the door out.
    grpc_address: str | None = DEFAULT_GRPC_ADDRESS
    http_address: str | None = DEFAULT_HTTP_ADDRESS
    # Take a free port where the one that was named is taken.
    or_any_port: bool = False
    # None: exactly if one of the addresses can be reached from other machines.
    auth: bool | None = None
    # The names, beside localhost, under which browsers may call a server that asks for no tokens.
    http_hosts: tuple[str, ...] = ()
    # Whether people find a dashboard at the HTTP door.
    dashboard: bool = True
    # What of payloads, results and headers it does not show (server/dashboard/hiding.py).
    redact: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    # Of one request, in either protocol.
    request_limit_bytes: int = 16 * 1024 * 1024
    # Items of an enqueue, a report, a list of ids, or a lease.
    batch_limit: int = 1000
    heartbeat_limit: int = 10_000
    longest_wait: timedelta = timedelta(seconds=60)
    polls_per_token: int = 1000
    # For a search for tasks, unless its caller says how long; for counting them, too.
    search_timeout: timedelta = timedelta(seconds=3)
    # For the headers, and again for the body, of one HTTP request.
    request_timeout: timedelta = timedelta(seconds=10)
    # For calls under way after SIGTERM; long polls are answered at once.
    shutdown_grace: timedelta = timedelta(seconds=2)
    look_every: timedelta = timedelta(seconds=4)
    listen: bool = True
    allow_unsafe_database: bool = False
