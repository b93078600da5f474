"""Both doors refuse the same things, each in its own words, and store nothing of them.

What only one of them can be given at all (text that is no number, a policy as JSON) is at the end.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.pg.doors import DOORS, Door, plain_sql
from tests.pg.support import OpenSession, Session
from wherry.domain.options import EARLIEST, LATEST
from wherry.errors import InvalidTask

CENTURY = timedelta(days=36_525)


def nested(levels: int) -> dict[str, Any]:
    payload: dict[str, Any] = {}
    for _ in range(levels - 1):
        payload = {"a": payload}
    return payload


def listed(levels: int) -> dict[str, Any]:
    value: list[Any] = []
    for _ in range(levels - 2):
        value = [value]
    return {"a": value}


REFUSED: list[dict[str, Any]] = [
    {"queue": ""},
    {"queue": "*"},
    {"queue": "q" * 256},
    {"queue": "\u00e9" * 128},
    {"queue": "a\nb"},
    {"queue": "a\x7fb"},
    {"queue": "a\x85b"},
    {"type": ""},
    {"type": "t" * 256},
    {"type": "a\tb"},
    {"type": "a\x9fb"},
    {"key": ""},
    {"key": "k" * 513},
    {"key": "\U0001f600" * 129},
    {"priority": -101},
    {"priority": 101},
    {"priority": 2**31 - 1},
    {"max_attempts": 0},
    {"max_attempts": -1},
    {"max_attempts": 32_768},
    {"max_attempts": 2**31 - 1},
    {"delay": -1},
    {"delay": timedelta(microseconds=-1)},
    {"delay": CENTURY + timedelta(seconds=1)},
    {"timeout": 0},
    {"timeout": -1},
    {"timeout": CENTURY + timedelta(seconds=1)},
    {"ttl": 0},
    {"ttl": -0.5},
    {"ttl": CENTURY + timedelta(seconds=1)},
    {"key_ttl": -1, "key": "k"},
    {"key_ttl": CENTURY + timedelta(seconds=1), "key": "k"},
    {"tags": [""]},
    {"tags": ["t" * 256]},
    {"tags": ["a\nb"]},
    {"tags": [str(n) for n in range(33)]},
    {"headers": {"": "a"}},
    {"headers": {"a\n": "a"}},
    {"headers": {"a": "b" * 8192}},
    {"headers": {"a": 1}},
    {"headers": {"a": None}},
    {"headers": {"a": {"b": "c"}}},
    {"payload": {"a": 10**1000}},
    {"payload": {"a": -(10**1000)}},
    {"payload": {"a": [{"b": 10**1000}]}},
    {"payload": nested(65)},
    {"payload": listed(65)},
    {"payload": {"a": "x" * 1024 * 1024}},
]

TAKEN: list[dict[str, Any]] = [
    {"queue": "q" * 255},
    {"queue": "a:b/%2F..?#\u202e \u00e9"},
    {"type": "\u00e9" * 127},
    {"type": "*"},
    {"key": "k" * 512},
    {"key": "\U0001f600" * 128},
    {"key": "a\nb\t:/%2F..?#\u202e "},
    {"priority": -100},
    {"priority": 100},
    {"max_attempts": 1},
    {"max_attempts": 32_767},
    {"delay": 0},
    {"delay": CENTURY},
    {"timeout": 0.001},
    {"timeout": CENTURY},
    {"ttl": CENTURY},
    {"key_ttl": 0, "key": "k"},
    {"key_ttl": CENTURY, "key": "k"},
    {"tags": [str(n) for n in range(32)]},
    {"tags": ["t" * 255] * 50},
    {"tags": []},
    {"headers": {"a": "b" * 8191}},
    {"headers": {"a": "\n\t"}},
    {"headers": {}},
    {"payload": {"a": 10**999, "b": -(10**999), "c": 0.1, "d": 5e-324}},
    {"payload": {"": "", "a b": "\u2028\ufffe\U0010ffff"}},
    {"payload": nested(64)},
    {"payload": listed(64)},
]


def named(options: dict[str, Any]) -> str:
    return ascii(options)[1:40]


@pytest.fixture(params=DOORS, ids=lambda door: str(door.__name__))
def door(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("options", REFUSED, ids=named)
def test_both_doors_refuse(session: Session, door: Door, options: dict[str, Any]) -> None:
    """RET-07, PAY-16."""
    before = session.dump()
    kinds = (InvalidTask, psycopg.errors.InvalidParameterValue)

    with pytest.raises(kinds) as caught:
        door(session, **options)

    # The library names the path in the payload: `$` is where it begins.
    said = str(caught.value).replace("$", "payload")
    assert next(iter(options)) in said
    assert session.dump() == before


@pytest.mark.parametrize("options", TAKEN, ids=named)
def test_both_doors_take(session: Session, door: Door, options: dict[str, Any]) -> None:
    answer = door(session, **options)

    task = session.task(answer.id)
    for name in ("queue", "type", "key", "priority", "max_attempts", "headers", "payload"):
        if name in options:
            assert getattr(task, name) == options[name]
    if "tags" in options:
        assert task.tags == tuple(dict.fromkeys(options["tags"]))
    if not session.value("select state = 'delayed' from wherry.live"):
        lease = session.lease_one(queue=task.queue)
        session.complete(lease)
        assert session.task(answer.id).state == "succeeded"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run_after", "infinity"),
        ("run_after", "-infinity"),
        ("run_after", "10000-01-01 00:00+00"),
        ("run_after", "9999-12-31 23:59+00"),
        ("run_after", "0044-03-15 00:00+00 BC"),
        ("delay", "290000 years"),
        ("key_ttl", "290000 years"),
        ("ttl", "290000 years"),
        ("timeout", "290000 years"),
        ("tags", "{{a,b},{c,d}}"),
        ("tags", "{a,NULL}"),
        ("headers", "[]"),
        ("headers", '"a"'),
        ("payload", "[]"),
        ("payload", '"a"'),
        ("payload", "null"),
        ("payload", None),
        ("payload", '{"a": 1' + "0" * 400 + ".5}"),
        ("payload", '{"a": 1e-2000}'),
        ("queue", None),
        ("type", None),
        ("priority", None),
        ("max_attempts", None),
        ("retry", "[]"),
        ("retry", "{}"),
        ("retry", '{"kind": "fixed"}'),
        ("retry", '{"kind": "fixed", "delay": "1"}'),
        ("retry", '{"kind": "fixed", "delay": -1}'),
        ("retry", '{"kind": "fixed", "delay": 1e10}'),
        ("retry", '{"kind": "full_jitter", "base": 1}'),
        ("retry", '{"kind": "additive", "base": 1, "cap": 1}'),
        ("retry", '{"kind": "newer", "delay": 1}'),
    ],
)
def test_plain_sql_refuses_what_no_library_could_send(
    session: Session, name: str, value: str | None
) -> None:
    options: dict[str, Any] = {"key": "k", name: value}

    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"wherry.enqueue: {name}"):
        plain_sql(session, **options)

    assert session.value("select count(*) from wherry.live") == 0


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_the_first_and_last_moments_that_are_taken_can_be_read_everywhere(
    session: Session, open_session: OpenSession, door: Door, zone: str
) -> None:
    moments = [EARLIEST, LATEST]
    ids = [door(session, run_after=moment).id for moment in moments]
    there = open_session(timezone=zone)

    assert [there.task(id_).run_after for id_ in ids] == moments


@pytest.mark.parametrize("moment", [EARLIEST - timedelta(seconds=1), LATEST + timedelta(seconds=1)])
def test_moments_nearer_to_the_ends_of_time_are_refused(
    session: Session, door: Door, moment: datetime
) -> None:
    with pytest.raises(
        (InvalidTask, psycopg.errors.InvalidParameterValue), match="years 1 to 9999"
    ):
        door(session, run_after=moment)


def test_plain_sql_refuses_two_moments(session: Session) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="delay and run_after"):
        plain_sql(session, delay="1 day", run_after="2040-01-01")


@pytest.mark.parametrize(
    "policy",
    [
        '{"kind": "fixed", "delay": 0}',
        '{"kind": "full_jitter", "base": 0.000001, "cap": 3155760000}',
        '{"kind": "additive", "base": 1.5, "jitter": 2, "cap": 60}',
    ],
)
def test_plain_sql_takes_the_policies_that_the_library_stores(
    session: Session, policy: str
) -> None:
    id_ = plain_sql(session, retry=policy).id

    assert session.task(id_).retry is not None


def test_plain_sql_takes_numbers_up_to_the_end_of_a_float(session: Session) -> None:
    most = "17976931348623157" + "0" * 292

    task = session.task(plain_sql(session, payload=f'{{"a": {most}.5, "b": -{most}.25}}').id)

    assert task.payload == {"a": 1.7976931348623157e308, "b": -1.7976931348623157e308}


def test_an_error_of_plain_sql_says_what_to_do(session: Session) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        plain_sql(session, max_attempts=0)

    assert str(caught.value).splitlines()[0] == "wherry.enqueue: max_attempts: 1 to 32767"


def test_the_table_is_the_last_guard_behind_both_doors(session: Session) -> None:
    """RET-07."""
    session.enqueue()
    for column, value in [
        ("priority", "101"),
        ("max_attempts", "0"),
        ("max_attempts", "32768"),
        ("queue", "''"),
        ("type", "repeat('t', 256)"),
        ("state", "'running'"),
    ]:
        with pytest.raises(psycopg.errors.CheckViolation):
            session.rows(f"update wherry.live set {column} = {value}")
