"""The witness inside the database: every row version of a task, with who wrote it and when.

Triggers write it in the same transaction, while the row is locked, so the entries of one task are
in the order in which they happened, whatever the code under test believes; and what was rolled
back, or lost with a crash, has no entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

SCHEMA: LiteralString = """
create schema audit;
create table audit.entry (
    n bigserial primary key,
    at timestamptz not null,
    said_at timestamptz not null,
    transaction bigint not null,
    application text not null,
    place text not null,
    old jsonb,
    new jsonb
);
create function audit.note() returns trigger language plpgsql as $$
declare
    after jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
begin
    -- A large payload stands apart; the first entry of a task has it all the same.
    if tg_op = 'INSERT' and tg_argv[0] = 'live' and after -> 'payload' = 'null' then
        after := after || jsonb_build_object('payload', (
            select convert_from(string_agg(p.piece, ''::bytea order by p.nth), 'UTF8')::jsonb
              from wherry.payload p
             where p.task_id = new.id and p.queue = new.queue));
    end if;
    insert into audit.entry (at, said_at, transaction, application, place, old, new)
    values (clock_timestamp(), statement_timestamp(), pg_current_xact_id()::text::bigint,
            current_setting('application_name'), tg_argv[0],
            case when tg_op <> 'INSERT' then to_jsonb(old) end,
            after);
    return null;
end
$$;
-- A bulk has a witness of its own (see bulk_audit.py).
do $$
declare
    place text;
begin
    foreach place in array array['live', 'finished', 'lease', 'attempt'] loop
        execute format(
            'create trigger came after insert or update on wherry.%1$I for each row'
            ' when (new.queue <> ''bulk'') execute function audit.note(%1$L);'
            'create trigger went after delete on wherry.%1$I for each row'
            ' when (old.queue <> ''bulk'') execute function audit.note(%1$L)', place);
    end loop;
end
$$;
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One row version: `old` is None for an insert, `new` for a delete.

    `said_at` is the database's now of the statement, `at` the moment of the entry, in seconds of
    the epoch.
    """

    n: int
    at: float
    said_at: float
    transaction: int
    application: str
    place: str
    old: dict[str, Any] | None
    new: dict[str, Any] | None

    @property
    def row(self) -> dict[str, Any]:
        """The row as it is after this, or as it was before it went."""
        row = self.new if self.new is not None else self.old
        assert row is not None
        return row


def install(connection: psycopg.Connection[Any]) -> None:
    """Make the audit's table, and its triggers on Wherry's."""
    connection.execute(SCHEMA)


def read(connection: psycopg.Connection[Any]) -> Iterator[Entry]:
    """Return every entry in the order in which they were written."""
    rows = connection.execute(
        "select n, extract(epoch from at)::float8, extract(epoch from said_at)::float8,"
        "       transaction, application, place, old, new"
        "  from audit.entry order by n"
    )
    for row in rows:
        yield Entry(*row)
