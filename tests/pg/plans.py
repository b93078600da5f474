"""What a statement's plan does in a large database, and what it must not do.

The database holds some 10,000 rows of each kind: ready tasks of several priorities in ten queues,
delayed and parked ones, leased ones, finished ones over forty days, keys and attempts. A plan is
looked at as it ran, and what it wrote is taken back. What kind of plan it is matters:

- statistics as they were when the tables were empty (prepared then, and kept), or analyzed ones;
- a generic plan, as our own sessions ask for, or one made for the parameters; and for what also
  runs on a caller's connection, one made there, where none of our options is set.

A plan must walk the indexes that the statement's header names and no other (one made for some
parameters may do with fewer), must not read any large table from end to end, and must look at no
more rows and pages than its own batch asks for, of which neither grows with what else is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from psycopg import sql

from tests.pg.support import Session
from wherry.commands.base import Command, Statement
from wherry.transport.render import render, source

Statistics: TypeAlias = Literal["stale", "analyzed"]
Planned: TypeAlias = Literal["generic", "custom", "caller's"]
STATISTICS: tuple[Statistics, ...] = ("stale", "analyzed")
PLANNED: tuple[Planned, ...] = ("generic", "custom", "caller's")

MANY = 10_000
# The tables of which none may be read from end to end, and the first letters of their indexes.
LARGE = ("live", "finished", "payload", "lease", "key", "attempt")
# The index that each partition has a copy of, whatever the copy is called.
_OF_A_DAY = re.compile(r"finished_(?:default|\d{8})_(\w+)")
_INDEX_OF_DEAD = {"finished_id_idx": "finished_dead"}

# Every third one stands apart.
PAYLOAD = "case when ({}) % 3 <> 0 then '{{}}'::json end"

# Ids that are drawn by a case are none of these, however often it is looked at.
LOAD = f"""
select setval('wherry.task_id', 10000000);
insert into wherry.live (id, position, created_at, run_after, max_attempts, priority, state, queue,
                         type, key, payload)
select n, n, now(), now(), 20, n % 3 * 50 - 50, 'ready', 'q' || n % 10, 't', 'live-' || n,
       {PAYLOAD.format("n")}
  from generate_series(1, {MANY}) as n;
insert into wherry.live (id, position, created_at, run_after, max_attempts, state, queue, type,
                         payload)
select 200000 + n, n, now(), now() + interval '1 hour' + n * interval '1 second', 20, 'delayed',
       'q1', 't', {PAYLOAD.format("200000 + n")}
  from generate_series(1, {MANY}) as n;
insert into wherry.live (id, position, created_at, run_after, discard_at, max_attempts, state,
                         queue, type, payload)
select 400000 + n, n, now(), now(), now() + n * interval '1 hour', 20, 'parked', 'q1',
       'strange' || n % 100, {PAYLOAD.format("400000 + n")}
  from generate_series(1, {MANY}) as n;
insert into wherry.lease (lease_id, expires_at, queue, worker, task_ids)
select md5('l' || l)::uuid, now() + interval '1 hour' + l * interval '1 second', 'q1', 'w',
       (select array_agg(600000 + l * 10 + i) from generate_series(0, 9) as i)
  from generate_series(0, {MANY} / 10 - 1) as l;
insert into wherry.live (id, position, created_at, run_after, leased_at, lease_id, token, attempts,
                         max_attempts, state, queue, type, payload)
select id, id, now(), now(), now(), lease_id, 1, 1, 20, 'leased', 'q1', 't', {PAYLOAD.format("id")}
  from wherry.lease, unnest(task_ids) as n (id);
insert into wherry.finished (id, token, created_at, run_after, finished_at, keep_until, attempts,
                             max_attempts, priority, state, queue, type, key, payload)
select 800000 + n, 1, now(), now(), now(), now() + (n % 40) * interval '1 day', 1, 20, 0,
       case when n % 1000 = 0 then 'dead' else 'succeeded' end, 'q1', 't', 'done-' || n,
       {PAYLOAD.format("800000 + n")}
  from generate_series(1, {MANY}) as n;
insert into wherry.attempt (task_id, queue, token, attempt, ended_at, outcome)
select 800000 + n, 'q1', 1, 1, now(), 'failed' from generate_series(1, {MANY}) as n;
insert into wherry.payload (task_id, queue, nth, piece)
select id, queue, nth, case when nth = 0 then '{{'::bytea else '}}' end
  from (select id, queue from wherry.live union all select id, queue from wherry.finished) as task
 cross join generate_series(0, 1) as n (nth)
 where id % 3 = 0;
insert into wherry.key (queue, key, task_id, stamp, payload_hash)
select queue, key, id, id, ''::bytea from wherry.live where key is not null
 union all
select queue, key, id, id, ''::bytea from wherry.finished;
"""

# A queue as it is after one call of `enqueue_many`.
OF_ONE_TYPE = f"""
insert into wherry.live (id, position, created_at, run_after, max_attempts, state, queue, type,
                         payload)
select n, n, now(), now(), 20, 'ready', 'default', 't', '{{}}' from generate_series(1, {MANY}) as n
"""


@dataclass(frozen=True)
class Case:
    """A command (or a later statement of one), and what it may look at at most."""

    name: str
    ask: Callable[[], Command[Any] | Statement]
    # Pages of its whole run; and rows that one step of the plan looks at, in all its rounds.
    pages: int
    rows: int = 600
    # Before PostgreSQL 17 an array of ids is gone through from the root of the index for each id.
    pages_before_17: int | None = None
    # What makes work for it, in the same transaction.
    first: str = ""
    by_callers: bool = False
    # The plans inside a function are not told; what it reads is.
    is_function: bool = False

    @property
    def planned(self) -> Sequence[Planned]:
        """The plans of it that matter."""
        return PLANNED if self.by_callers else PLANNED[:2]

    @property
    def statement(self) -> Statement:
        """What is sent."""
        asked = self.ask()
        first = asked if isinstance(asked, Statement) else next(asked.answer())
        assert isinstance(first, Statement)
        return first


@dataclass(frozen=True)
class Plan:
    """How a case ran."""

    case: Case
    planned: Planned
    root: Mapping[str, Any]
    server_version: int

    @property
    def pages(self) -> int:
        """How many pages it has read or found in memory."""
        return pages_of(self.root)

    def indexes(self) -> set[str]:
        """Return the indexes of large tables that it walks, or by which it finds conflicts."""
        found = {node["Index Name"] for node in self.nodes() if "Index Name" in node}
        for node in self.nodes():
            found.update(node.get("Conflict Arbiter Indexes", ()))
        wholes = {_OF_A_DAY.sub(r"finished_\1", name) for name in found if name.startswith(LARGE)}
        return {_INDEX_OF_DEAD.get(name, name) for name in wholes}

    def complaints(self) -> list[str]:
        """Say what it must not do; nothing if it is good."""
        return [*self._scans(), *self._other_indexes(), *self._too_much()]

    def nodes(self) -> Iterator[Mapping[str, Any]]:
        """Return all steps of the plan."""
        return _nodes(self.root)

    def _scans(self) -> Iterator[str]:
        for node in self.nodes():
            if "Seq Scan" not in node["Node Type"] or not node["Relation Name"].startswith(LARGE):
                continue
            # An empty table may be read so where the plan is used once.
            if self.planned != "caller's" or pages_of(node) > 0:
                yield f"reads all of {node['Relation Name']}: {_told(node)}"

    def _other_indexes(self) -> Iterator[str]:
        if self.case.is_function:
            return
        named, walked = indexes_named(self.case.statement.name), self.indexes()
        if walked - named:
            yield f"walks {sorted(walked - named)}, of which its header says nothing"
        if named - walked and self.planned == "generic":
            yield f"does not walk {sorted(named - walked)}, though its header says so"

    def _too_much(self) -> Iterator[str]:
        for node in self.nodes():
            if (seen := rows_seen(node)) > self.case.rows:
                yield f"looks at {seen:.0f} rows, and not {self.case.rows} at most: {_told(node)}"
        most = self.case.pages
        if self.server_version < 170_000:
            most = self.case.pages_before_17 or most
        if self.pages > most:
            yield f"reads {self.pages} pages, and not {most} at most"


def indexes_named(statement: str) -> set[str]:
    """Return the indexes of large tables that a statement's header names."""
    [line] = re.findall(r"^-- index:(.*)", source(statement), re.MULTILINE)
    return {name for name in re.findall(r"\w+", line.split(":")[0]) if name.startswith(LARGE)}


def pages_of(node: Mapping[str, Any]) -> int:
    """Return how many pages a step of a plan, with all below it, has read or found in memory."""
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


def rows_seen(node: Mapping[str, Any]) -> float:
    """Return how many rows a step of a plan has looked at in all its rounds."""
    passed_over = [node.get(f"Rows Removed by {what}", 0) for what in ("Filter", "Join Filter")]
    return float((node["Actual Rows"] + sum(passed_over)) * node["Actual Loops"])


class Large:
    """A large database, and sessions that ask it for plans."""

    def __init__(
        self,
        dsn: str,
        cases: Sequence[Case],
        *,
        statistics: Statistics,
        stack: ExitStack,
        load: str = LOAD,
    ) -> None:
        self._cases = cases
        loader = Session(dsn)
        self._sessions: dict[Planned, Session] = {
            "generic": Session(dsn, plan_cache_mode="force_generic_plan"),
            "custom": Session(dsn, plan_cache_mode="force_custom_plan"),
            "caller's": Session(dsn, plan_cache_mode="force_custom_plan"),
        }
        for [option] in loader.rows("select name from pg_settings where name like 'enable\\_%'"):
            self._sessions["caller's"].rows(f"set {option} = on")
        for session in (loader, *self._sessions.values()):
            stack.callback(session.close)
        for [table] in loader.rows(
            "select relname from pg_class where relnamespace = 'wherry'::regnamespace"
            " and relkind = 'r'"
        ):
            loader.rows(f"alter table wherry.{table} set (autovacuum_enabled = false)")
        for session in self._sessions.values():
            self._prepare(session)
        loader.rows(load)
        if statistics == "analyzed":
            loader.rows("analyze")

    def complaints(self, case: Case, planned: Planned) -> list[str]:
        """Say what a case's plan must not do, by the better of two looks, of its pages by five.

        Where other sessions change catalogs, PostgreSQL has to forget what it knew of them; what it
        reads to learn it anew is counted among the statement's pages, and is no other fault.
        """
        complaints: list[str] = []
        for look in range(5):
            complaints = self.plan(case, planned).complaints()
            is_of_pages = all(
                complaint.startswith("reads ") and "pages" in complaint for complaint in complaints
            )
            if not complaints or (look > 0 and not is_of_pages):
                break
        return complaints

    def plan(self, case: Case, planned: Planned) -> Plan:
        """Return the plan of a case as it ran; what it wrote is taken back."""
        session = self._sessions[planned]
        session.begin()
        try:
            if case.first:
                session.rows(case.first)
            query = sql.SQL("explain (analyze, buffers, timing off, format json) ")
            [[plans]] = session.connection.execute(query + self._execute(case)).fetchall()
        finally:
            session.rollback()
        version = session.connection.info.server_version
        return Plan(case, planned, plans[0]["Plan"], server_version=version)

    def _prepare(self, session: Session) -> None:
        """Have plans made on empty tables, as a worker has that starts before the first task."""
        for number, case in enumerate(self._cases):
            text = render(case.statement.name, "wherry", "dollar").text
            session.rows(f"prepare p{number} as {text}")
            session.begin()
            session.connection.execute(self._execute(case))
            session.rollback()

    def _execute(self, case: Case) -> sql.Composed:
        statement = case.statement
        names = render(statement.name, "wherry", "dollar").names
        name = sql.Identifier(f"p{self._cases.index(case)}")
        if not names:
            return sql.SQL("execute {}").format(name)
        values = sql.SQL(", ").join(sql.Literal(statement.params[each]) for each in names)
        return sql.SQL("execute {}({})").format(name, values)


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _told(node: Mapping[str, Any]) -> str:
    """Name a step of a plan, as EXPLAIN does for people."""
    parts = [node["Node Type"]]
    if "Index Name" in node:
        parts.append(f"using {node['Index Name']}")
    if "Relation Name" in node:
        parts.append(f"on {node['Relation Name']}")
    if "CTE Name" in node:
        parts.append(f"of {node['CTE Name']}")
    conditions = (f"{key}: {node[key]}" for key in node if key.endswith(("Cond", "Filter", "Key")))
    return " ".join(parts) + "".join(f"; {each}" for each in conditions)
