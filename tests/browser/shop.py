"""What the shop does whose database the dashboard shows: its queues and types, and its workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Work:
    """A queue and type: how much comes in a minute, how long it runs, and how often it fails."""

    queue: str
    type: str
    per_minute: float
    run_seconds: float
    failing: float = 0.01
    wait_seconds: float = 0.02
    ready: int = 0
    delayed: int = 0
    leased: int = 0
    parked: int = 0
    dead: int = 0
    oldest_due: timedelta = timedelta(seconds=4)
    error: str = ""


WORK = (
    Work("mail", "send_receipt", 95, 0.18, 0.004, ready=14, leased=6, dead=3),
    Work("mail", "send_newsletter", 40, 0.42, 0.02, delayed=1200, parked=312),
    Work(
        *("payments", "capture_payment", 30, 1.3, 0.09),
        wait_seconds=1.4,
        ready=1840,
        leased=12,
        dead=214,
        oldest_due=timedelta(minutes=74),
        error="PaymentGatewayError: the gateway answered 503 to POST /v2/capture",
    ),
    Work("payments", "refund_payment", 2, 0.9, 0.02, ready=31, leased=1, dead=4),
    Work("images", "make_thumbnail", 130, 0.65, 0.01, ready=60, leased=9),
    Work(
        *("search-index", "index_product", 70, 0.12, 0.004),
        ready=412,
        oldest_due=timedelta(minutes=9),
    ),
    Work(
        "exports",
        "export_orders",
        0.6,
        47.0,
        0.03,
        ready=2,
        leased=2,
        dead=7,
        error="MemoryError: the export of 2,214,880 rows does not fit",
    ),
    Work(
        "webhooks",
        "deliver_webhook",
        55,
        0.35,
        0.06,
        delayed=96,
        leased=4,
        dead=31,
        error="TimeoutError: no answer from hooks.example.net after 10 s",
    ),
    Work("reports", "weekly_report", 0.1, 160.0, 0.0, parked=18),
    Work("default", "prune_sessions", 1, 0.05, 0.0),
)


@dataclass(frozen=True, slots=True)
class Hand:
    """A worker: what it serves, how long it has been up, and whether it is still there."""

    name: str
    host: str
    queues: list[str] | None
    types: list[str] = field(default_factory=lambda: [work.type for work in WORK[:-2]])
    up: timedelta = timedelta(hours=3, minutes=12)
    is_alive: bool = True
    directive: str = "none"
    slots: int = 20
    memory_mib: int = 118
    asked_by: tuple[str, str] | None = None


HANDS = (
    Hand("mail-1", "app-1.internal", ["mail", "webhooks"]),
    Hand("mail-2", "app-2.internal", ["mail", "webhooks"]),
    Hand("payments-1", "app-1.internal", ["payments"], up=timedelta(minutes=41)),
    Hand(
        "payments-2",
        "app-2.internal",
        ["payments"],
        up=timedelta(minutes=40),
        is_alive=False,
    ),
    Hand("images-1", "gpu-1.internal", ["images"], slots=10, memory_mib=846),
    Hand(
        "bulk-1",
        "app-3.internal",
        ["exports", "search-index", "default"],
        directive="drain",
        asked_by=("token:ada", "moving to the new machine"),
    ),
)


@dataclass(frozen=True, slots=True)
class Comes:
    """A schedule of the shop: when it comes, of what, and what became of its times."""

    name: str
    cron: str
    type: str
    queue: str
    every_seconds: float
    tz: str = "UTC"
    fired: int = 0
    missed: int = 0
    overlapped: int = 0
    paused: bool = False
    declared: bool = True


SCHEDULES = (
    Comes(
        *("nightly-report", "30 4 * * *", "export_orders", "exports", 86_400),
        tz="Europe/Berlin",
        fired=89,
        missed=2,
    ),
    Comes("index-changes", "*/5 * * * *", "index_product", "search-index", 300, fired=25_903),
    Comes(
        *("capture-open-payments", "0 * * * *", "capture_payment", "payments", 3600),
        fired=2101,
        overlapped=58,
    ),
    Comes(
        "newsletter",
        "0 9 * * 2",
        "send_newsletter",
        "mail",
        604_800,
        tz="America/New_York",
        fired=12,
    ),
    Comes(
        "sync-catalogue",
        "15 */6 * * *",
        "index_product",
        "search-index",
        21_600,
        fired=355,
        paused=True,
    ),
    Comes("old-cleanup", "0 3 * * 0", "make_thumbnail", "images", 604_800, fired=8, declared=False),
)
