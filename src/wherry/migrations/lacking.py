"""Finds the roles that were granted their rights before an upgrade, and lack what is new.

A migration grants nothing. A role's kind is told by what it holds; what its kind holds now is found
by granting it in a transaction that is rolled back, so that it stands in `roles.py` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from psycopg import errors as pg
from psycopg import sql

from wherry.config import DEFAULT_SCHEMA
from wherry.domain.names import check_schema
from wherry.migrations import session
from wherry.migrations.records import encoded, rows
from wherry.migrations.roles import grants

Kind = Literal["worker", "server", "enqueuer", "reader"]

# Each kind by a right that no other has. A server is a worker that judges tokens, too.
_KINDS: Final = """\
with held as (
    select acl.grantee, c.relname, acl.privilege_type
      from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = %(schema)s
     cross join lateral pg_catalog.aclexplode(c.relacl) acl
     where acl.grantee not in (0, c.relowner)
     union all
    select acl.grantee, c.relname, acl.privilege_type || ' of columns'
      from pg_catalog.pg_attribute a
      join pg_catalog.pg_class c on c.oid = a.attrelid
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = %(schema)s
     cross join lateral pg_catalog.aclexplode(a.attacl) acl
     where acl.grantee not in (0, c.relowner)
),
told as (
    select held.grantee,
           bool_or(held.relname = 'token' and held.privilege_type = 'UPDATE of columns') as serves,
           bool_or(held.relname = 'live' and held.privilege_type = 'DELETE') as works,
           bool_or(held.relname = 'live' and held.privilege_type = 'INSERT of columns') as enqueues,
           bool_or(held.relname = 'token' and held.privilege_type = 'SELECT of columns') as reads
      from held
     group by held.grantee
)
select kind.name, r.rolname
  from told
  join pg_catalog.pg_roles r on r.oid = told.grantee
 cross join lateral (
       values ('server', told.serves), ('worker', told.works and not told.serves),
              ('enqueuer', told.enqueues), ('reader', told.reads)
 ) as kind (name, is_it)
 where kind.is_it
 order by 1, 2
"""

_HELD: Final = """\
select 'table' as kind, c.oid::bigint, 0 as attnum, acl.privilege_type
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = %(schema)s
 cross join lateral pg_catalog.aclexplode(c.relacl) acl
 where acl.grantee = %(role)s::regrole and c.relkind <> 'S'
 union all
select 'sequence', c.oid::bigint, 0, acl.privilege_type
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = %(schema)s
 cross join lateral pg_catalog.aclexplode(c.relacl) acl
 where acl.grantee = %(role)s::regrole and c.relkind = 'S'
 union all
select 'column', c.oid::bigint, a.attnum, acl.privilege_type
  from pg_catalog.pg_attribute a
  join pg_catalog.pg_class c on c.oid = a.attrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = %(schema)s
 cross join lateral pg_catalog.aclexplode(a.attacl) acl
 where acl.grantee = %(role)s::regrole
 union all
select 'function', p.oid::bigint, 0, acl.privilege_type
  from pg_catalog.pg_proc p
  join pg_catalog.pg_namespace n on n.oid = p.pronamespace and n.nspname = %(schema)s
 cross join lateral pg_catalog.aclexplode(p.proacl) acl
 where acl.grantee = %(role)s::regrole
"""

_LACKS: Final = """\
select exists (
    select
      from unnest(%(kinds)s::text[], %(ids)s::bigint[], %(columns)s::smallint[], %(rights)s::text[])
           as held (kind, id, nth, name)
     cross join (select %(role)s::regrole::oid as id) as r
     where not case held.kind
                   when 'table' then has_table_privilege(r.id, held.id::oid, held.name)
                   when 'sequence' then has_sequence_privilege(r.id, held.id::oid, held.name)
                   when 'column' then has_column_privilege(r.id, held.id::oid, held.nth, held.name)
                   else has_function_privilege(r.id, held.id::oid, held.name)
               end
)
"""


@dataclass(frozen=True, slots=True)
class Lacking:
    """A role that lacks something of what its kind is granted now."""

    kind: Kind
    role: str


def lacking(where: str | session.Connection, *, schema: str = DEFAULT_SCHEMA) -> list[Lacking]:
    """Return the roles whose owner has to run `grants` again, as after an upgrade.

    Nothing is changed. Only the owner of the schema can find out: to others none is told, nor while
    somebody else is granting. Raises as `migrate` does for a database out of reach.
    """
    check_schema(schema)
    with session.connected(where) as conn:
        found = rows(conn, _KINDS, {"schema": schema})
        try:
            return [Lacking(kind, role) for kind, role in found if _lacks(conn, schema, kind, role)]
        except (pg.InsufficientPrivilege, pg.InternalError_, pg.ReadOnlySqlTransaction):
            return []


def _lacks(conn: session.Connection, schema: str, kind: Kind, role: str) -> bool:
    # `regrole` reads its text as an identifier.
    quoted = sql.Identifier(role).as_string(conn)
    statements = grants(schema=schema, **{kind: [role]})
    with conn.transaction(force_rollback=True):
        conn.execute(encoded(conn, statements.removeprefix("begin;\n").removesuffix("commit;\n")))
        wanted = rows(conn, _HELD, {"schema": schema, "role": quoted})
    kinds, ids, columns, rights = (list(column) for column in zip(*wanted, strict=True))
    asked = {"role": quoted, "kinds": kinds, "ids": ids, "columns": columns, "rights": rights}
    [[answer]] = rows(conn, _LACKS, asked)
    return bool(answer)
