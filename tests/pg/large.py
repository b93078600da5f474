"""What the tests of large payloads share: one, each way to store it, and where its pieces are."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.pg.support import Session, spec
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks, new_token

# Characters of one to four bytes, on both sides of each border between two pieces.
TEXT = "".join(random.Random(7).choices('ab"\\ä€𐍈', k=9_000))
LARGE = {"text": TEXT, "n": 1e22, "deep": [{}]}

WITHOUT_TASK = """
select p.task_id from wherry.payload p
 where not exists (select from wherry.live l
                    where l.id = p.task_id and l.queue = p.queue and l.payload is null)
   and not exists (select from wherry.finished f
                    where f.id = p.task_id and f.queue = p.queue and f.payload is null)
"""


def alone(session: Session) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the payloads without a task, and the tasks without a payload."""
    without_payload = "select id from wherry.tasks where payload is null"
    return session.rows(WITHOUT_TASK), session.rows(without_payload)


def pieces(session: Session) -> list[tuple[Any, ...]]:
    """Return where each piece lies: what is written again lies elsewhere."""
    return session.rows("select task_id, nth, ctid::text from wherry.payload order by 1, 2")


def ids_apart(session: Session) -> set[int]:
    return {id_ for (id_,) in session.rows("select distinct task_id from wherry.payload")}


def one(session: Session, **options: Any) -> int:
    return session.enqueue(payload=LARGE, **options)


def one_of_many(session: Session, **options: Any) -> int:
    found = session.enqueue_many(
        spec(queue="else"), spec(payload=LARGE, **options), spec(payload=LARGE, queue="else")
    )
    return found[1].id


def with_a_key(session: Session, **options: Any) -> int:
    return session.enqueue(payload=LARGE, **{"key": "k", **options})


def drawn_ahead(session: Session, **options: Any) -> int:
    ids = tuple(session.call(DrawTaskIds(1)))
    specs = (spec(payload=LARGE, **options),)
    return session.call(EnqueueTasks(specs, ids, new_token()))[0].id


def in_sql(session: Session, **options: Any) -> int:
    named = "".join(f", {name} => {value!r}" for name, value in options.items())
    return int(
        session.value(
            f"select id from wherry.enqueue('default', 't', %s::jsonb{named})", json.dumps(LARGE)
        )
    )


DOORS = [one, one_of_many, with_a_key, drawn_ahead, in_sql]
