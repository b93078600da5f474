"""How our own connections are made: dead peers are noticed, and plans are pinned.

Everything is a startup parameter, so it holds from the first statement and needs no state per
transaction. A pooler may refuse such parameters, and then we go without: to set them later would
set them for whoever shares its sessions, too.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from wherry.config import PoolSettings
from wherry.dsn import read_dsn

# A plan made while the tables were empty must not survive a bulk load: walking an index is always
# right for our statements. None of them is worth a process more, which the planner would start even
# for a page of ten tasks. The other three keep a role's own settings from failing a command
# half-way.
_OPTIONS = {
    "default_transaction_isolation": "read\\ committed",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_mergejoin": "off",
    "enable_nestloop": "off",
    "max_parallel_workers_per_gather": "0",
    "statement_timeout": "60s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
}

# The last of ours in a text: what comes after it is the DSN's own.
_LAST = "-c jit=off"
# PgBouncer's words, in any of its versions, unless it was told what to ignore.
_REFUSED = "unsupported startup parameter"

# For loops that send the same few statements all day. They are worth more soon than late: a server
# that cannot answer them in time is left. And a plan of one's own for each call, which PostgreSQL
# finds cheaper, takes longer to make than a lease takes to run.
BRIEF = {"statement_timeout": "15s", "plan_cache_mode": "force_generic_plan"}
BRIEF_SECONDS = 20.0
# A lost lease is leased again, so its commit need not wait for the disk. Outcomes always do.
NO_WAIT = {"synchronous_commit": "off"}


def connection_text(
    dsn: str, *, name: str, settings: PoolSettings, options: dict[str, str] | None = None
) -> str:
    """Return *dsn* with what our connections need; what the DSN itself says wins.

    Raises ConfigError for a DSN that is none.
    """
    given = read_dsn(dsn)
    wanted: dict[str, Any] = {
        "application_name": name[:63],
        "connect_timeout": max(2, round(settings.connect_timeout.total_seconds())),
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": _milliseconds(settings.network_timeout),
    }
    if "," in str(given.get("host", "")):
        # Of several hosts only the one that accepts writes will do.
        wanted["target_session_attrs"] = "read-write"
    text = " ".join(f"-c {key}={value}" for key, value in {**_OPTIONS, **(options or {})}.items())
    wanted["options"] = f"{text} {_LAST} {given.pop('options', '')}".strip()
    return make_conninfo(**{**wanted, **given})


def without_settings(text: str, *, refused: psycopg.Error) -> str | None:
    """Return *text* without our own settings if *refused* was because of them, else None."""
    if _REFUSED not in str(refused):
        return None
    given: dict[str, Any] = conninfo_to_dict(text)
    _, last, own = str(given.get("options", "")).partition(_LAST)
    if not last:
        return None
    given["options"] = own.strip() or None
    return make_conninfo(**given)


def _milliseconds(duration: timedelta) -> int:
    return round(duration / timedelta(milliseconds=1))
