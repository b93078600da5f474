"""The witness of a bulk: triggers for whole statements, and a judgment that is made by SQL alone.

What the row-wise audit tells of a hundred tasks this tells of a million, for a few microseconds
each: which rows came, changed and went, in which order, and by which lease. The processes' tallies
are copied into the database and compared there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from tests.nemesis import tally

SCHEMA: LiteralString = """
create table audit.bulk (
    n bigserial,
    kind "char" not null,
    transaction bigint not null,
    id bigint not null,
    was text,
    state text,
    token bigint not null,
    token_before bigint,
    lease_id uuid
);
create function audit.note_born() returns trigger language plpgsql as $$
begin
    insert into audit.bulk (kind, transaction, id, state, token)
    select 'b', pg_current_xact_id()::text::bigint, f.id, f.state, f.token
      from fresh f where f.queue = 'bulk';
    return null;
end $$;
create function audit.note_moved() returns trigger language plpgsql as $$
begin
    insert into audit.bulk (kind, transaction, id, was, state, token, token_before, lease_id)
    select 'm', pg_current_xact_id()::text::bigint,
           f.id, g.state, f.state, f.token, g.token, f.lease_id
      from fresh f join gone g using (id) where f.queue = 'bulk' and g.queue = 'bulk';
    return null;
end $$;
create function audit.note_gone() returns trigger language plpgsql as $$
begin
    insert into audit.bulk (kind, transaction, id, was, token)
    select 'g', pg_current_xact_id()::text::bigint, g.id, g.state, g.token
      from gone g where g.queue = 'bulk';
    return null;
end $$;
create function audit.note_ended() returns trigger language plpgsql as $$
begin
    insert into audit.bulk (kind, transaction, id, state, token, lease_id)
    select 'e', pg_current_xact_id()::text::bigint, f.id, f.state, f.token, f.lease_id
      from fresh f where f.queue = 'bulk';
    return null;
end $$;
create trigger bulk_born after insert on wherry.live referencing new table as fresh
    for each statement execute function audit.note_born();
create trigger bulk_moved after update on wherry.live
    referencing new table as fresh old table as gone
    for each statement execute function audit.note_moved();
create trigger bulk_gone after delete on wherry.live referencing old table as gone
    for each statement execute function audit.note_gone();
create trigger bulk_ended after insert on wherry.finished referencing new table as fresh
    for each statement execute function audit.note_ended();
"""

_LOAD: LiteralString = """
create temp table asked (who text, first integer, count integer);
create temp table told (who text, id bigint, n text);
create temp table began (who text, id bigint, token bigint, lease_id uuid, n text);
create temp table answered (who text, id bigint, token bigint, lease_id uuid, answer text);
create temp table stored as
    select id, payload ->> 'n' as n, state from wherry.tasks where queue = 'bulk';
"""
_COLUMNS: dict[str, LiteralString] = {
    "asked": "copy asked from stdin",
    "told": "copy told from stdin",
    "began": "copy began from stdin",
    "answered": "copy answered from stdin",
}
# An enqueue that was sent again, of what had ended: stored and taken back in one transaction.
_PREPARE: LiteralString = """
create temp table step as
    select n, kind, transaction, id, was, state, token, token_before, lease_id,
           lag(coalesce(state, 'gone')) over (partition by id order by n) as before
      from audit.bulk
     where not exists (
               select from audit.bulk as other
                where other.id = bulk.id
                  and other.transaction = bulk.transaction
                  and other.kind in ('b', 'g')
                  and bulk.kind in ('b', 'g')
                  and other.kind <> bulk.kind
           );
create temp table wanted as
    select who || '-' || n as n
      from asked cross join lateral generate_series(first, first + count - 1) as n;
create index on told (id);
create index on stored (id);
create index on step (id, token);
analyze;
"""
LOST = "W1 bulk: acknowledged is there"
ILLEGAL = "C2 bulk: only known transitions"
DOUBLE = "C1 bulk: settled once"
# Each yields one text for each complaint.
_PROMISES: dict[str, LiteralString] = {
    LOST: """
        select format('%s was told for %s to %s, and is %s', told.id, told.n, told.who, stored.n)
          from told left join stored on stored.id = told.id
         where stored.n is distinct from told.n
    """,
    "W4 bulk: no phantoms": """
        select format('%s (%s) was never asked for', stored.id, stored.n)
          from stored left join wanted on wanted.n = stored.n
         where wanted.n is null
    """,
    "W5 bulk: one wish is one task": """
        select format('%s is %s tasks', stored.n, count(*))
          from stored group by stored.n having count(*) > 1
    """,
    "O2 bulk: all succeed": """
        select format('%s is %s', stored.id, stored.state)
          from stored where stored.state <> 'succeeded'
    """,
    ILLEGAL: """
        select format('%s: %s from %s (before: %s) to %s', id, kind, was, before, state)
          from step
         where case kind
                    when 'b' then before is not null or state not in ('ready', 'delayed')
                    when 'm' then before is distinct from was
                               or (was, state) not in (('ready', 'leased'), ('leased', 'ready'),
                                                       ('leased', 'delayed'), ('delayed', 'ready'),
                                                       ('ready', 'parked'), ('parked', 'ready'),
                                                       ('leased', 'leased'))
                    when 'g' then was <> 'leased' or before not in ('leased', 'succeeded')
                    when 'e' then state <> 'succeeded' or before not in ('leased', 'gone')
                    end
    """,
    "L1 bulk: tokens grow by one": """
        select format('%s: %s to %s from %s to %s', id, token_before, token, was, state)
          from step
         where kind = 'm'
           and token - token_before
               <> case when state = 'leased' and was <> 'leased' then 1 else 0 end
    """,
    DOUBLE: """
        select format('%s: %s ends, %s goings', id, count(*) filter (where kind = 'e'),
                      count(*) filter (where kind = 'g'))
          from step
         group by id
        having count(*) filter (where kind = 'e') > 1 or count(*) filter (where kind = 'g') > 1
         union all
        select format('the lease %s of %s was accepted %s times', lease_id, id, count(*))
          from answered where answer = 'done' group by id, token, lease_id having count(*) > 1
    """,
    "W2 bulk: what was told is so": """
        select format('%s was told to %s for %s of token %s', answer, who, id, token)
          from answered
         where answer in ('done', 'already_done')
           and not exists (
               select from step
                where step.id = answered.id and step.token = answered.token and step.kind = 'e'
                  and step.lease_id = answered.lease_id
               )
    """,
    "L6 bulk: leases are given once": """
        select format('%s began %s times by the lease %s', id, count(*), lease_id)
          from began group by id, token, lease_id having count(*) > 1
    """,
    "W4 bulk: it ran what was stored": """
        select format('%s ran %s as %s, stored is %s', began.who, began.id, began.n, stored.n)
          from began left join stored on stored.id = began.id
         where stored.n is distinct from began.n
    """,
}  # fmt: skip
_FIGURES: LiteralString = """
select (select count(*) from stored),
       (select count(*) from began),
       (select count(*) - count(distinct id) from began),
       (select count(*) from step where kind = 'm' and was = 'leased')
"""


def install(connection: psycopg.Connection[Any]) -> None:
    """Make the table of a bulk, and its triggers."""
    connection.execute(SCHEMA)


def judge(
    connection: psycopg.Connection[Any], folder: Path
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Return the complaints about each promise that was broken, and what was counted."""
    connection.execute(_LOAD)
    for kind, copy in _COLUMNS.items():
        with connection.cursor().copy(copy) as into:
            for lines in tally.read(folder, kind):
                into.write(lines)
    connection.execute(_PREPARE)
    broken = {name: list(_complaints(connection, asked)) for name, asked in _PROMISES.items()}
    row = connection.execute(_FIGURES).fetchone()
    assert row is not None
    tasks, executions, again, lost = row
    counted = {
        "bulk: tasks": tasks,
        "bulk: executions": executions,
        "bulk: executions of a task that had begun before": again,
        "bulk: lease lost and reaped": lost,
    }
    return {name: found for name, found in broken.items() if found}, counted


def _complaints(connection: psycopg.Connection[Any], asked: LiteralString) -> Iterator[str]:
    for (text,) in connection.execute(asked):
        yield str(text)
