"""Tokens in the database: one live token a name, ended by the database's clock."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.pg.support import OpenSession, Session
from wherry.commands.tokens import (
    CreateToken,
    FindTokens,
    ListTokens,
    NoteTokenUse,
    RevokeToken,
)
from wherry.domain.token import Token, TokenFound, TokenInfo, draw_token
from wherry.testing import Clock


def creating(name: str = "shop", *, token: Token | None = None, **fields: Any) -> CreateToken:
    token = token or draw_token()
    given: dict[str, Any] = {"rights": ("work",), "queues": ("*",), "created_by": "me", **fields}
    return CreateToken(id=token.id, name=name, hash=token.hash, **given)


def create(session: Session, name: str = "shop", **fields: Any) -> TokenInfo:
    info = session.call(creating(name, **fields))
    assert info is not None
    return info


def find(session: Session, id: str) -> TokenFound:
    [found] = session.call(FindTokens((id,)))
    return found


def test_a_token_is_found_by_its_id_with_what_it_allows(session: Session) -> None:
    token = draw_token()
    create(session, token=token, rights=("enqueue", "work"), queues=("a.*", "b"))

    found = find(session, token.id)

    assert (found.id, found.name, found.hash) == (token.id, "shop", token.hash)
    assert (found.rights, found.queues) == (("enqueue", "work"), ("a.*", "b"))
    assert found.is_live
    assert found.remaining_seconds is None


def test_unknown_ids_are_left_out_of_the_answer(session: Session) -> None:
    first, second = create(session, "a"), create(session, "b")

    found = session.call(FindTokens((second.id, "nobody", first.id, second.id)))

    assert {each.id for each in found} == {first.id, second.id}
    assert len(found) == 2


def test_a_token_ends_at_its_moment_by_the_clock_of_the_database(
    session: Session, clock: Clock
) -> None:
    info = create(session, lasts_seconds=60.0)

    clock.advance(seconds=50)
    before = find(session, info.id)
    clock.advance(seconds=10)
    after = find(session, info.id)

    assert before.is_live
    assert before.remaining_seconds is not None
    assert 0 < before.remaining_seconds <= 10
    assert not after.is_live
    assert after.remaining_seconds is not None
    assert after.remaining_seconds <= 0


def test_a_revoked_token_is_found_dead_and_stays(session: Session) -> None:
    info = create(session)

    revoked = session.call(RevokeToken(info.id))

    assert revoked is not None
    assert (revoked.now, revoked.token.state) == (True, "revoked")
    assert not find(session, info.id).is_live
    assert session.value("select count(*) from wherry.token") == 1


def test_revoking_again_leaves_the_moment_as_it_was(session: Session, clock: Clock) -> None:
    info = create(session)
    first = session.call(RevokeToken("shop"))
    clock.advance(hours=1)

    again = session.call(RevokeToken("shop"))

    assert first is not None
    assert again is not None
    assert (again.now, again.token.id) == (False, info.id)
    assert again.token.revoked_at == first.token.revoked_at


def test_revoking_what_never_was_is_none(session: Session) -> None:
    assert session.call(RevokeToken("shop")) is None


def test_a_live_name_is_taken_once(session: Session) -> None:
    first = create(session)

    assert session.call(creating()) is None

    assert [each.id for each in session.call(ListTokens())] == [first.id]


def test_an_expired_token_keeps_its_name_and_a_revoked_one_frees_it(
    session: Session, clock: Clock
) -> None:
    create(session, lasts_seconds=1.0)
    clock.advance(minutes=1)
    expired = session.call(creating())
    session.call(RevokeToken("shop"))

    second = create(session)

    assert expired is None
    assert session.call(RevokeToken("shop")) is not None
    # By its name, the last one counts.
    again = session.call(RevokeToken("shop"))
    assert again is not None
    assert again.token.id == second.id


def test_a_create_that_is_sent_again_answers_as_the_first(session: Session) -> None:
    command = creating()

    first, second = session.call(command), session.call(command)

    assert first is not None
    assert first == second
    assert session.value("select count(*) from wherry.token") == 1


def test_two_who_take_one_name_at_once_get_one_token(
    session: Session, other: Session, start: Any, until_blocked: Any
) -> None:
    session.begin()
    first = create(session)
    waiting = start(other.call, creating())
    until_blocked(other, session)

    session.commit()

    assert waiting.result(10) is None
    assert [each.id for each in session.call(ListTokens())] == [first.id]


def test_an_id_goes_before_a_name_that_looks_like_it(session: Session) -> None:
    victim = create(session, "victim")
    mimic = create(session, victim.id)

    revoked = session.call(RevokeToken(victim.id))

    assert revoked is not None
    assert revoked.token.id == victim.id
    assert [each.id for each in session.call(ListTokens())] == [mimic.id]


def test_uses_are_noted_once_a_minute(session: Session, clock: Clock) -> None:
    info = create(session)
    assert find(session, info.id).note_use

    noted = [session.call(NoteTokenUse((info.id, "nobody"))) for _ in range(2)]
    fresh = find(session, info.id)
    clock.advance(seconds=61)

    assert noted == [1, 0]
    assert not fresh.note_use
    assert find(session, info.id).note_use
    assert session.call(NoteTokenUse((info.id,))) == 1
    [listed] = session.call(ListTokens())
    assert listed.last_used_at is not None


def test_a_note_waits_for_nobody(session: Session, other: Session) -> None:
    info = create(session)
    session.begin()
    session.rows("select 1 from wherry.token for update")

    assert other.call(NoteTokenUse((info.id,))) == 0

    session.commit()


def test_tokens_are_listed_newest_first_up_to_a_limit(session: Session, clock: Clock) -> None:
    made: list[str] = []
    for name in "abc":
        made.append(create(session, name).id)
        clock.advance(seconds=1)

    assert [each.id for each in session.call(ListTokens(limit=2))] == [made[2], made[1]]


def test_no_command_and_no_answer_shows_secret_or_hash(session: Session) -> None:
    token = draw_token()
    secret = token.reveal().rpartition("_")[2]
    command = creating(token=token)
    info = session.call(command)

    shown = repr([token, command, info, find(session, token.id)])

    assert secret not in shown
    assert repr(token.hash) not in shown
    assert str(token) == repr(token)


@pytest.mark.parametrize(
    "bad",
    [
        "'x', 'n', '\\x00', '{work}', '{*}'",
        "'x', 'n', sha256(''), '{}', '{*}'",
        "'x', 'n', sha256(''), '{root}', '{*}'",
        "'x', 'n', sha256(''), '{work}', '{}'",
        "'x', '', sha256(''), '{work}', '{*}'",
    ],
)
def test_the_table_refuses_what_no_server_could_judge(session: Session, bad: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        session.rows(
            "insert into wherry.token (id, name, hash, rights, queues, created_at, created_by)"
            f" values ({bad}, now(), 'me')"
        )


def test_a_find_reads_by_index_however_many_tokens_there_are(open_session: OpenSession) -> None:
    session = open_session()
    session.rows(
        "insert into wherry.token (id, name, hash, rights, queues, created_at, created_by)"
        " select 'id' || n, 'n' || n, sha256(n::text::bytea), '{work}', '{*}', now(), 'me'"
        "   from generate_series(1, 10000) as n"
    )
    session.rows("analyze wherry.token")

    plan = session.rows("explain select hash from wherry.token where id = any ('{id7,id9}')")

    assert "token_pkey" in str(plan)
