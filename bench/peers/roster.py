"""Who is measured: where each keeps its tasks, and how many of them a run takes.

The numbers of tasks are such that a run of each takes some seconds: a drain of 20,000 would keep
the slowest busy for half a minute, and the fastest for less than its own start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString


@dataclass(frozen=True)
class Peer:
    """One queue. *tuned* and *by_default*: tasks of a drain. *boots*: seconds until it waits.

    *unfinished* and *finished* are statements where it keeps tasks in PostgreSQL (None: it does not
    keep what has finished), and lists or hashes whose sizes count where it is Redis.
    """

    name: str
    tuned: int
    by_default: int
    unfinished: LiteralString
    finished: LiteralString | None = None
    on_redis: bool = False
    on_node: bool = False
    boots: float = 2.5
    has_bulk: bool = True


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "wherry",
            tuned=200_000,
            by_default=100_000,
            unfinished="select count(*) from wherry.live",
            finished="select count(*) from wherry.finished where state = 'succeeded'",
        ),
        Peer(
            "pgqueuer",
            tuned=80_000,
            by_default=20_000,
            unfinished="select count(*) from pgqueuer",
            finished="select count(*) from pgqueuer_log where status = 'successful'",
        ),
        Peer(
            "graphile",
            tuned=120_000,
            by_default=3_000,
            unfinished="select count(*) from graphile_worker._private_jobs",
            on_node=True,
        ),
        Peer(
            "pgboss",
            tuned=90_000,
            by_default=10,
            unfinished="select count(*) from pgboss.job where state <> 'completed'",
            finished="select count(*) from pgboss.job where state = 'completed'",
            on_node=True,
        ),
        Peer(
            "oban",
            tuned=25_000,
            by_default=6_000,
            unfinished="select count(*) from oban_jobs where state <> 'completed'",
            finished="select count(*) from oban_jobs where state = 'completed'",
        ),
        Peer(
            "chancy",
            tuned=12_000,
            by_default=1_000,
            unfinished="select count(*) from chancy_jobs where state <> 'succeeded'",
            finished="select count(*) from chancy_jobs where state = 'succeeded'",
        ),
        Peer(
            "procrastinate",
            tuned=2_500,
            by_default=1_500,
            unfinished="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
            finished="select count(*) from procrastinate_jobs where status = 'succeeded'",
        ),
        Peer(
            "celery",
            tuned=4_000,
            by_default=4_000,
            unfinished="celery unacked",
            on_redis=True,
            boots=4.0,
            has_bulk=False,
        ),
        Peer(
            "dramatiq",
            tuned=12_000,
            by_default=8_000,
            unfinished="dramatiq:peers.msgs",
            on_redis=True,
            has_bulk=False,
        ),
    )
}
