"""The rights of those who use the schema without owning it, as GRANT statements for its owner.

A migration grants nothing to anybody (0008 alone extends rights that are there), and nothing is
granted to PUBLIC. The statements only add, so they are run again after an upgrade: a new version
may bring tables of its own. Rights on partitions are not needed: they are reached through the
table that they are a part of.
"""

from __future__ import annotations

from collections.abc import Iterable

from wherry.config import DEFAULT_SCHEMA
from wherry.domain.names import check_schema, quote_identifier, render_schema

# Enqueues, leases, reports, keeps the queue in order, cancels and requeues; no DDL. It adds to the
# audit, and can neither read nor change what stands there.
WORKER = """\
grant select on wherry.migration, wherry.settings, wherry.tasks to {role};
grant select, insert, update, delete
   on wherry.live, wherry.finished, wherry.payload, wherry.attempt, wherry.lease, wherry.key,
      wherry.worker, wherry.waiting, wherry.paused, wherry.paused_type, wherry.limited,
      wherry.front, wherry.flow, wherry.pair, wherry.tally, wherry.chore, wherry.schedule,
      wherry.tick, wherry.declaration
   to {role};
grant insert on wherry.audit to {role};
grant usage on sequence wherry.task_id, wherry.position to {role};
grant execute
   on function wherry.now(), wherry.enqueue, wherry.check_task, wherry.settle_resent,
      wherry.put_apart, wherry.catch_up_ids, wherry.make_days, wherry.drop_past_days,
      wherry.prune_audit, wherry.recount, wherry.payload_bytes, wherry.credit,
      wherry.running_in, wherry.is_full, wherry.room_in, wherry.note_starts,
      wherry.merge_payload, wherry.merge_patch, wherry.payload_hash
   to {role};
"""

# All that a worker does, and judges tokens. It makes and revokes none: that is for the owner.
SERVER = f"""\
{WORKER}\
grant select, update (last_used_at) on wherry.token to {{role}};
grant select on wherry.audit to {{role}};
"""

# Stores tasks and keys, and sees of other tasks only whether they exist.
ENQUEUER = """\
grant select on wherry.migration to {role};
grant select (channel) on wherry.settings to {role};
grant select (queue, expires_at) on wherry.waiting to {role};
grant select (id, queue, run_after),
      insert (id, position, token, created_at, run_after, discard_at, timeout_seconds, ttl_seconds,
              key_ttl_seconds, max_attempts, priority, state, queue, type, key, tags, headers,
              retry, payload)
   on wherry.live to {role};
grant select (id, queue, key_until, keep_until) on wherry.finished to {role};
grant select, insert, update (task_id, stamp, seen_stamp, payload_hash)
   on wherry.key to {role};
grant insert on wherry.flow to {role};
grant usage on sequence wherry.task_id, wherry.position to {role};
grant execute
   on function wherry.now(), wherry.enqueue, wherry.check_task, wherry.settle_resent,
      wherry.put_apart, wherry.catch_up_ids
   to {role};
"""

# Looks at everything, payloads included, but the hashes of tokens; changes nothing.
READER = """\
grant select
   on wherry.migration, wherry.settings, wherry.tasks, wherry.live, wherry.finished,
      wherry.payload, wherry.attempt, wherry.lease, wherry.key, wherry.worker, wherry.waiting,
      wherry.paused, wherry.paused_type, wherry.limited, wherry.front, wherry.flow,
      wherry.pair, wherry.tally,
      wherry.chore, wherry.schedule, wherry.tick, wherry.declaration, wherry.audit
   to {role};
grant select on sequence wherry.task_id to {role};
grant select (id, name, rights, queues, created_at, created_by, expires_at, revoked_at,
              last_used_at)
   on wherry.token
   to {role};
grant execute
   on function wherry.now(), wherry.credit, wherry.running_in, wherry.is_full,
      wherry.merge_payload, wherry.merge_patch
   to {role};
"""


def grants(
    *,
    schema: str = DEFAULT_SCHEMA,
    worker: Iterable[str] = (),
    enqueuer: Iterable[str] = (),
    reader: Iterable[str] = (),
    server: Iterable[str] = (),
) -> str:
    """Return the statements that give these roles what they need in *schema*, and no more.

    The roles have to exist. The owner of the schema runs the statements once it is migrated, and
    again after each upgrade.
    """
    check_schema(schema)
    asked = [(WORKER, worker), (SERVER, server), (ENQUEUER, enqueuer), (READER, reader)]
    parts = [
        _grants_to(quote_identifier(role), schema, template)
        for template, roles in asked
        for role in roles
    ]
    if not parts:
        return "-- No role was named: nothing to grant.\n"
    return "begin;\n" + "".join(parts) + "commit;\n"


def _grants_to(role: str, schema: str, template: str) -> str:
    # Parted first: the names of schema and role may hold anything, the mark for a role included.
    parts = [render_schema(part, schema) for part in template.split("{role}")]
    usage = f"grant usage on schema {quote_identifier(schema)} to {role};\n"
    return usage + role.join(parts)
