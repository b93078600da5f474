"""A merge patch (RFC 7396) changes payloads while they are put back, and nothing else of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.pg.large import LARGE
from tests.pg.support import Session
from tests.pg.test_requeue_tasks import dead
from wherry.commands.tasks import RequeueTasks

# Those of RFC 7396's appendix, of two objects, and what they give.
OF_THE_RFC = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ({"a": "b"}, {}, {"a": "b"}),
]


def merge(session: Session, patch: Any, *ids: int, **asked: Any) -> list[str]:
    text = patch if isinstance(patch, str) else json.dumps(patch)
    answers = session.call(RequeueTasks(ids, merge_payload=text, **asked))
    return [str(each.answer) for each in answers]


def stored(session: Session, id_: int, text: str) -> None:
    """Store a payload as it is, where no door looks at it."""
    session.rows("update wherry.finished set payload = %s where id = %s returning 1", text, id_)


def text_of(session: Session, id_: int) -> str:
    text: str = session.value("select payload::text from wherry.live where id = %s", id_)
    return text


@pytest.mark.parametrize(("payload", "patch", "merged"), OF_THE_RFC)
def test_a_patch_is_merged_as_the_rfc_says(
    session: Session, payload: Any, patch: Any, merged: Any
) -> None:
    id_ = dead(session, payload=payload)

    assert merge(session, patch, id_) == ["queued"]

    assert session.lease_one().payload == merged


def test_what_the_patch_does_not_name_stays_letter_by_letter(session: Session) -> None:
    id_ = dead(session)
    rest = '"big":9223372036854775809,"far":1e400,"fee":0.10,"é":"\\u00e9\\/ \\t"'
    stored(
        session, id_,
        '{"z": [1, 2.50 , {"x":1.0}], "in":{"old":1 ,"fee":1.10},' + rest + ',"z2":"last"}',
    )  # fmt: skip

    assert merge(session, '{"in":{"old":null,"new":18446744073709551617},"a":2}', id_) == ["queued"]

    assert text_of(session, id_) == (
        '{"z":[1, 2.50 , {"x":1.0}],"in":{"fee":1.10,"new":18446744073709551617},'
        + rest
        + ',"z2":"last","a":2}'
    )


def test_of_a_member_that_stands_twice_the_last_counts_if_it_is_named(session: Session) -> None:
    id_ = dead(session)
    stored(session, id_, '{"a":{"x":1},"b":1,"a":{"y":2},"b":2}')

    merge(session, {"a": {"z": 3}}, id_)

    assert text_of(session, id_) == '{"b":1,"a":{"y":2,"z":3},"b":2}'


def test_a_payload_that_takes_no_patch_harms_no_neighbour(session: Session) -> None:
    texts = ["[1]", '"text"', "null", "7", '{"\\u0000":1}', '{"a":"\\u0000"}']
    bad = [dead(session, key=f"k{n}") for n in range(len(texts))]
    for id_, text in zip(bad, texts, strict=True):
        stored(session, id_, text)
    full = dead(session, payload={"text": "x" * (1024 * 1024 - 100)}, key="full")
    good = dead(session, payload={"n": 1}, key="good")
    patch = {"region": "y" * 200}

    answers = merge(session, patch, *bad, full, good)

    assert answers == ["no_object"] * len(bad) + ["too_large", "queued"]
    assert session.rows("select id from wherry.live") == [(good,)]
    # They are what they were: dead, with their keys, and can be put back as they are.
    assert [session.task(id_).state for id_ in (bad[0], full)] == ["dead", "dead"]
    assert session.value("select count(*) from wherry.key") == len(bad) + 2
    assert [each.answer for each in session.requeue(bad[0], full)] == ["queued"] * 2


def test_a_number_beyond_jsonb_is_merged_into_and_keeps_its_key(session: Session) -> None:
    far, good = dead(session, key="far"), dead(session, key="good")
    stored(session, far, '{"n":1e200000}')

    assert merge(session, {"r": 1}, far, good) == ["queued"] * 2

    assert text_of(session, far) == '{"n":1e200000,"r":1}'
    named = session.rows("select key, task_id from wherry.key order by key")
    assert named == [("far", far), ("good", good)]


def test_what_jsonb_does_not_hold_is_put_back_under_a_key_that_was_free(session: Session) -> None:
    values = ["1e200000", '"\\u0000"', '"\\ud800"', "1"]
    ids = [dead(session, key=f"k{n}") for n in range(len(values))]
    for id_, value in zip(ids, values, strict=True):
        stored(session, id_, f'{{"n":{value}}}')
    # Only then is a key named anew without a patch.
    session.rows("delete from wherry.key returning 1")

    answers = [each.answer for each in session.requeue(*ids)]

    assert answers == ["queued"] * len(ids)
    assert [text_of(session, id_) for id_ in ids] == [f'{{"n":{value}}}' for value in values]
    assert session.rows("select task_id from wherry.key order by key") == [(id_,) for id_ in ids]


@pytest.mark.parametrize("patch", ["[1]", '"text"', "null", "7", None])
def test_a_patch_that_is_no_object_is_merged_into_nothing(
    session: Session, patch: str | None
) -> None:
    # No door lets one in: in a payload's place it would be damage.
    merged = session.value("select wherry.merge_payload('{\"n\":1}', %s::json)::text", patch)

    assert merged is None


@pytest.mark.parametrize("to_queue", [None, "aside"])
@pytest.mark.parametrize(
    ("payload", "patch", "pieces"),
    [
        (LARGE, {"more": "y" * 9000}, True),
        (LARGE, dict.fromkeys(LARGE) | {"n": 1}, False),
        ({"n": 1}, {"more": "é" * 9000}, True),
        ({"n": 1}, {"m": 2}, False),
    ],
)
def test_payloads_stand_apart_as_large_ones_do(
    session: Session, payload: dict[str, Any], patch: Any, pieces: bool, to_queue: str | None
) -> None:
    id_, other = dead(session, payload=payload), dead(session, payload=LARGE)
    kept = session.rows("select nth, piece from wherry.payload where task_id = %s", other)

    assert merge(session, patch, id_, to_queue=to_queue) == ["queued"]

    merged = {name: value for name, value in {**payload, **patch}.items() if value is not None}
    queue = to_queue or "default"
    assert session.lease_one(queue=queue).payload == merged
    assert session.task(id_).payload == merged
    left = session.rows("select distinct queue from wherry.payload where task_id = %s", id_)
    assert left == ([(queue,)] if pieces else [])
    assert session.rows("select nth, piece from wherry.payload where task_id = %s", other) == kept


def test_a_payload_that_may_not_stand_apart_stays_with_its_task(session: Session) -> None:
    id_ = dead(session, payload=LARGE)
    session.rows("update wherry.settings set payloads_apart = false returning 1")

    assert merge(session, {"n": 1}, id_) == ["queued"]

    assert session.value("select count(*) from wherry.payload") == 0
    assert session.lease_one().payload == {**LARGE, "n": 1}


@pytest.mark.parametrize("payload", [{"n": 1}, LARGE])
def test_a_key_names_the_payload_that_its_task_has_then(
    session: Session, payload: dict[str, Any]
) -> None:
    id_ = dead(session, payload=payload, key="k")

    merge(session, {"region": "eu"}, id_)

    assert session.task(id_).key == "k"
    same = session.enqueued(payload={**payload, "region": "eu"}, key="k")
    was = session.enqueued(payload=payload, key="k")
    assert (same.id, same.payload_matches) == (id_, True)
    assert (was.id, was.payload_matches) == (id_, False)


def test_all_else_of_a_requeue_goes_with_a_patch(session: Session) -> None:
    ids = [dead(session, payload={"n": n}) for n in range(3)]
    session.rows("delete from wherry.flow returning 1")

    answers = merge(session, {"r": 1}, *ids[:2], delay_seconds=60, per_second=0.1, to_queue="aside")

    assert answers == ["queued"] * 2
    assert session.rows(
        "select queue, state, payload::text from wherry.live order by run_after"
    ) == [("aside", "delayed", f'{{"n":{n},"r":1}}') for n in (0, 1)]
    assert session.task(ids[2]).state == "dead"
    counted = session.rows("select kind, n from wherry.flow order by kind")
    assert counted == [("delayed", 2), ("left_dead", 2), ("requeued", 2)]


@pytest.mark.parametrize("commits", [True, False])
def test_of_two_that_patch_a_task_one_is_told_that_it_did_not(
    session: Session, other: Session, commits: bool
) -> None:
    id_ = dead(session, payload={"n": 1})
    other.begin()
    merge(other, {"a": 1}, id_)

    assert merge(session, {"b": 1}, id_) == ["not_final"]

    other.rows("commit" if commits else "rollback")
    assert merge(session, {"b": 1}, id_) == ["not_final" if commits else "queued"]
    merged = "a" if commits else "b"
    assert text_of(session, id_) == f'{{"n":1,"{merged}":1}}'
