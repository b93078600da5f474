"""Owner, worker, enqueuer and reader: each can do its job, and nothing beyond it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import InsufficientPrivilege

from tests.migrations.support import Server, user_dsn, value
from wherry import migrations
from wherry.commands.audit import Actor, Audited, PruneAudit
from wherry.commands.leases import CompleteTasks, LeaseTasks
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks
from wherry.domain.lease import Reported
from wherry.domain.names import quote_identifier, render_schema
from wherry.domain.options import Options
from wherry.domain.outcome import Completed
from wherry.errors import MigrationFailed
from wherry.transport import base
from wherry.transport.render import source

SCHEMA = "wherry"
ROOT = Path(__file__).resolve().parents[2]
STATEMENTS = ROOT / "src" / "wherry" / "sql"
NAMES = sorted(
    str(path.relative_to(STATEMENTS).with_suffix(""))
    for path in STATEMENTS.rglob("*.sql")
    if path.parent.name != "parts"
)
ENQUEUERS = {
    "doctor/read_ids",
    "maintenance/catch_up_ids",
    "maintenance/draw_horizon_position",
    "schedules/limit_hold",
    "tasks/draw_task_ids",
    *(f"tasks/enqueue_{form}" for form in ("alike", "one", "tasks", "without_keys")),
    "tasks/find_task_by_key",
    "tasks/settle_resent",
    "tasks/limit_time",
    "tasks/list_known_ids",
    "tasks/queues_of",
    "tasks/read_now",
    "tasks/resolve_keys",
    "workers/draw_horizon",
    "workers/get_channel",
    "workers/transactions_ended",
}
# PostgreSQL tells everybody what is in its catalog.
OF_THE_CATALOG = {
    name
    for name in NAMES
    if name.startswith("doctor/") and not re.search(r"\b(from|join) wherry\.", source(name))
} | {"queues/guess_live"}
# Who runs tasks adds to the audit; tokens are not for it.
FOREIGN_TO_WORKERS = {name for name in NAMES if name.startswith("tokens/")} | {"audit/list_audit"}
# Who judges tokens makes none.
FOREIGN_TO_SERVERS = {"tokens/create_token", "tokens/revoke_token"}
WRITES = re.compile(
    r"\b(insert|update|delete|nextval|make_days|drop_past_days|settle_resent|put_apart|catch_up_ids"
    r"|prune_audit|recount)\b"
)


# What a role of each kind may hold at most, on any table or any of its columns.
MOST = {
    "worker": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "server": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "enqueuer": {"SELECT", "INSERT", "UPDATE"},
    "reader": {"SELECT"},
    "nobody": set[str](),
}
RIGHTS = """
select c.relname, r.name
  from pg_class c
 cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) as r (name)
 where c.relnamespace = 'wherry'::regnamespace
   and c.relkind in ('r', 'p', 'v')
   and has_any_column_privilege(%(role)s, c.oid, r.name)
 union all
select c.relname, r.name
  from pg_class c
 cross join unnest(array['DELETE', 'TRUNCATE', 'TRIGGER']) as r (name)
 where c.relnamespace = 'wherry'::regnamespace
   and c.relkind in ('r', 'p', 'v')
   and has_table_privilege(%(role)s, c.oid, r.name)
"""
FUNCTIONS = """
select p.proname
  from pg_proc p
 where p.pronamespace = 'wherry'::regnamespace
   and has_function_privilege(%s, p.oid, 'EXECUTE')
"""
LOOSE_FUNCTIONS = """
select p.proname
  from pg_proc p
 where p.pronamespace = 'wherry'::regnamespace
   and 'search_path=pg_catalog, pg_temp' <> all (coalesce(p.proconfig, '{}'))
"""

FOREIGN_TO_ENQUEUERS: tuple[LiteralString, ...] = (
    "select payload from wherry.live",
    "select id from wherry.tasks",
    "select result from wherry.finished",
    "update wherry.live set state = 'leased'",
    "delete from wherry.live",
    "delete from wherry.key",
    "insert into wherry.live (lease_id) values (gen_random_uuid())",
    "insert into wherry.finished (id) values (1)",
    "insert into wherry.lease (lease_id) values (gen_random_uuid())",
    "update wherry.settings set keep_failed = '0'",
    "select setval('wherry.task_id', 1)",
    "select wherry.make_days()",
    "truncate wherry.live",
)


@dataclass
class Cast:
    """A migrated database and the DSNs of its five kinds of role."""

    owner: str
    worker: str
    server: str
    enqueuer: str
    reader: str
    nobody: str

    def roles(self) -> dict[str, str]:
        return {kind: str(conninfo_to_dict(dsn)["user"]) for kind, dsn in vars(self).items()}


@pytest.fixture
def cast(server: Server) -> Cast:
    """MIG-09: the owner has a ready schema, and no right on the database but to connect."""
    dsn = server.make_database()
    roles = {kind: server.make_role() for kind in Cast.__annotations__}
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("revoke all on schema public from public; create schema hidden")
        admin.execute(f'create schema {SCHEMA} authorization "{roles["owner"]}"'.encode())
    dsns = {kind: user_dsn(dsn, role) for kind, role in roles.items()}
    migrations.migrate(dsns["owner"], schema=SCHEMA)
    granted = migrations.grants(
        schema=SCHEMA,
        worker=[roles["worker"]],
        server=[roles["server"]],
        enqueuer=[roles["enqueuer"]],
        reader=[roles["reader"]],
    )
    with psycopg.connect(dsns["owner"], autocommit=True) as owner:
        owner.execute(granted.encode())
    return Cast(**dsns)


def allowed(dsn: str) -> set[str]:
    """Return the statements of the library that this role may run; planning checks its rights."""
    found: set[str] = set()
    with psycopg.connect(dsn, autocommit=True) as conn:
        for name in NAMES:
            statement = render_schema(source(name), SCHEMA)
            planned = re.sub(r"(?<!:):([a-z_]+)", "null", statement)
            try:
                conn.execute(f"explain {planned}".encode())
            except InsufficientPrivilege:
                continue
            found.add(name)
    return found


def test_a_worker_may_run_every_statement_but_those_of_tokens(cast: Cast) -> None:
    """MIG-09: planning a statement checks all its rights, and needs no data."""
    assert allowed(cast.worker) == set(NAMES) - FOREIGN_TO_WORKERS


def test_a_server_may_do_everything_but_make_and_revoke_tokens(cast: Cast) -> None:
    assert allowed(cast.server) == set(NAMES) - FOREIGN_TO_SERVERS


@pytest.mark.parametrize("kind", ["worker", "server"])
def test_who_adds_to_the_audit_can_take_nothing_back(cast: Cast, kind: str) -> None:
    with psycopg.connect(getattr(cast, kind), autocommit=True) as conn:
        note = Audited(
            inner=PruneAudit(), actor=Actor("me"), action="nothing", target={}, count=lambda _: 0
        )
        base.run(conn, note, schema=SCHEMA)
        for statement in ("delete from wherry.audit", "update wherry.audit set actor = 'you'"):
            with pytest.raises(InsufficientPrivilege):
                conn.execute(statement.encode())

        # What is not old by the owner's own setting stays.
        assert value(conn, "select wherry.prune_audit(10)") is False
    with psycopg.connect(cast.owner) as owner:
        assert value(owner, "select count(*) from wherry.audit where actor = 'me'") == 1


def test_nobody_but_the_server_and_the_owner_sees_the_hash_of_a_token(cast: Cast) -> None:
    for kind, dsn in vars(cast).items():
        with psycopg.connect(dsn, autocommit=True) as conn:
            if kind in ("owner", "server"):
                conn.execute("select hash from wherry.token")
            else:
                with pytest.raises(InsufficientPrivilege):
                    conn.execute("select hash from wherry.token")


def test_an_enqueuer_may_run_what_enqueuing_needs_and_nothing_else(cast: Cast) -> None:
    """MIG-09: what the library sends for an enqueue, and which ids and keys are taken."""
    assert allowed(cast.enqueuer) == ENQUEUERS | OF_THE_CATALOG


def test_a_reader_may_run_what_changes_nothing(cast: Cast) -> None:
    """MIG-09: every listing, and no id or position is used up."""
    reading = {name for name in NAMES if not WRITES.search(source(name))}

    # What judges a token reads its hash.
    drawing = {"tasks/draw_task_ids", "maintenance/draw_horizon_position"}
    assert allowed(cast.reader) - drawing == reading - {"tokens/find_tokens"}
    with psycopg.connect(cast.reader) as conn, pytest.raises(InsufficientPrivilege):
        conn.execute("select nextval('wherry.task_id')")


def test_a_task_goes_from_enqueuer_to_worker_to_done(cast: Cast) -> None:
    """MIG-09: the jobs themselves, with the commands that the library sends."""
    with (
        psycopg.connect(cast.enqueuer, autocommit=True) as shop,
        psycopg.connect(cast.worker, autocommit=True) as worker,
        psycopg.connect(cast.reader, autocommit=True) as board,
    ):
        ids = base.run(shop, DrawTaskIds(2), schema=SCHEMA)
        specs = (
            Options(queue="mail", key="once").spec("shop.send", "{}"),
            Options(queue="mail").spec("shop.send", "{}"),
        )
        base.run(shop, EnqueueTasks(specs, ids=tuple(ids)), schema=SCHEMA)
        from_sql = value(shop, "select id from wherry.enqueue('mail', 'shop.send', key => 'k')")

        leases = base.run(worker, LeaseTasks(queue="mail", worker="w", limit=10), schema=SCHEMA)
        reported = base.run(
            worker, CompleteTasks(tuple(Completed(lease) for lease in leases)), schema=SCHEMA
        )

        assert sorted(lease.id for lease in leases) == sorted([*ids, from_sql])
        assert set(reported) == {Reported.DONE}
        assert value(board, "select count(*) from wherry.tasks where state = 'succeeded'") == 3
        # The key still names the finished task, and the enqueuer may look that far.
        [again] = base.run(shop, EnqueueTasks(specs[:1]), schema=SCHEMA)
        assert (again.id, again.created) == (ids[0], False)


def test_a_worker_makes_and_drops_days_without_owning_the_tables(cast: Cast) -> None:
    """MIG-09: the one piece of DDL runs as the owner, in functions that can do nothing else."""
    with psycopg.connect(cast.worker, autocommit=True) as worker:
        assert value(worker, "select wherry.make_days()") == 0
        assert value(worker, "select wherry.drop_past_days(10)") is False
        with pytest.raises(InsufficientPrivilege, match="must be owner"):
            worker.execute("alter table wherry.live add column mine text")
        with pytest.raises(InsufficientPrivilege):
            worker.execute("create table wherry.mine (id integer)")


def test_an_enqueuer_neither_reads_nor_changes_what_others_stored(cast: Cast) -> None:
    """MIG-09: the rights on columns hold for hand-written SQL too."""
    with psycopg.connect(cast.enqueuer, autocommit=True) as shop:
        for statement in FOREIGN_TO_ENQUEUERS:
            with pytest.raises(InsufficientPrivilege):
                shop.execute(statement)


def test_no_role_can_do_more_than_its_kind(cast: Cast) -> None:
    """MIG-09: the audit of every object, asked of PostgreSQL itself."""
    roles = cast.roles()
    owner = roles.pop("owner")
    with psycopg.connect(cast.owner, autocommit=True) as conn:
        for kind, role in roles.items():
            held = conn.execute(RIGHTS, {"role": role}).fetchall()
            changeable = {name for name, right in held if right != "SELECT"}

            assert {right for _, right in held} <= MOST[kind], kind
            assert not changeable & {"migration", "settings", "tasks"}, kind
            # Of a token a server notes that it was used.
            assert "token" not in changeable or kind == "server", kind
            assert not any(name.startswith("finished_") for name, _ in held), kind
            on_schema = "select has_schema_privilege(%s, 'wherry', 'CREATE')"
            assert value(conn, on_schema, role) is False
            on_database = "select has_database_privilege(%s, current_database(), 'CREATE')"
            assert value(conn, on_database, role) is False

        functions = {
            kind: {name for (name,) in conn.execute(FUNCTIONS, [role])}
            for kind, role in [*roles.items(), ("owner", owner)]
        }
    assert functions["nobody"] == set()
    merging = {"merge_payload", "merge_patch"}
    assert functions["reader"] == {"now", "credit", "running_in", "is_full"} | merging
    assert functions["enqueuer"] == {
        "now",
        "enqueue",
        "check_task",
        "settle_resent",
        "put_apart",
        "catch_up_ids",
    }
    # What only code of before needs, it was granted before.
    functions["owner"].discard("forget_resent")
    # What is called by others alone, which run as the owner.
    functions["owner"].discard("count_past_days")
    assert functions["worker"] == functions["server"] == functions["owner"]


def test_functions_that_run_as_their_owner_have_a_fixed_search_path(cast: Cast) -> None:
    """MIG-09, MIG-10: whoever calls one cannot slip an object of his own under it."""
    with psycopg.connect(cast.owner) as conn:
        loose = [name for (name,) in conn.execute(LOOSE_FUNCTIONS)]

    # Without a SET clause it inlines; its body names the schema of everything it uses.
    assert loose == ["credit", "now"]


def test_an_owner_without_a_schema_is_told_what_to_ask_for(server: Server) -> None:
    """MIG-09: a clear error where a right is missing, with the statement that gives it."""
    role = server.make_role()
    dsn = user_dsn(server.make_database(), role)

    with pytest.raises(MigrationFailed) as refused:
        migrations.migrate(dsn)

    assert refused.value.sqlstate == "42501"
    assert f'create schema "wherry" authorization "{role}"' in str(refused.value)


def test_the_owner_of_a_database_makes_the_schema_himself(server: Server) -> None:
    role = server.make_role()
    dsn = user_dsn(server.make_database(owner=role), role)

    assert migrations.migrate(dsn)
    assert migrations.check(dsn) > 0


def test_who_does_not_own_the_schema_cannot_migrate_it(cast: Cast) -> None:
    with psycopg.connect(cast.owner) as conn:
        conn.execute("delete from wherry.migration where version > 1")

    with pytest.raises(MigrationFailed, match="as the role that owns the schema") as refused:
        migrations.migrate(cast.worker)

    assert refused.value.sqlstate == "42501"


@pytest.mark.parametrize("kind", ["worker", "server", "enqueuer", "reader"])
def test_every_role_can_check_the_version_when_it_starts(cast: Cast, kind: str) -> None:
    assert migrations.check(getattr(cast, kind)) > 0


def test_grants_are_rendered_for_any_schema_and_any_role(server: Server) -> None:
    schema, role = 'it\'s "{role}" $$', server.make_role()
    odd = 'a "quoted"; -- %s'
    dsn = server.make_database()
    migrations.migrate(dsn, schema=schema)
    with psycopg.connect(dsn) as conn:
        conn.execute(f"create role {quote_identifier(odd)}".encode())

        conn.execute(migrations.grants(schema=schema, worker=[role, odd], reader=[odd]).encode())

        found = "select has_schema_privilege(%s, %s, 'usage')"
        assert value(conn, found, odd, schema) is True
        conn.execute(f"drop owned by {quote_identifier(odd)}".encode())
        conn.execute(f"drop role {quote_identifier(odd)}".encode())


def test_grants_to_nobody_grant_nothing() -> None:
    assert migrations.grants() == "-- No role was named: nothing to grant.\n"


def test_the_guide_shows_the_grants_as_they_are() -> None:
    guide = (ROOT / "docs" / "guides" / "roles.md").read_text()

    printed = migrations.grants(
        worker=["app_worker"], enqueuer=["app_web"], reader=["app_dashboard"]
    )

    assert f"```sql\n{printed}```" in guide


def test_nobody_may_run_anything(cast: Cast) -> None:
    """MIG-09: nothing is granted to PUBLIC."""
    of_any_role = {
        "schedules/limit_hold",
        "tasks/limit_time",
        "workers/draw_horizon",
        "workers/transactions_ended",
    }

    assert allowed(cast.nobody) <= of_any_role | OF_THE_CATALOG
