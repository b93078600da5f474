"""What a caller may do: a right, on the queues that the globs of their token match."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.domain.token import check_globs, check_rights
from wherry.errors import InvalidOption, PermissionDenied
from wherry.server.caller import ANYBODY, Caller, Right

# Few letters, so that names and globs meet; and all that globs could stumble over.
LETTERS = st.sampled_from("ab.A@-[]!*?\\\n\u00e9/")
TEXTS = st.text(LETTERS, min_size=1, max_size=8)


def caller(*globs: str, rights: frozenset[Right] = frozenset(Right)) -> Caller:
    return Caller("c", rights, globs)


@pytest.mark.parametrize(
    ("glob", "queue", "matches"),
    [
        ("mail", "mail", True),
        ("mail", "Mail", False),
        ("mail", "mails", False),
        ("mail", "a mail", False),
        ("a@b.com", "a@b.com", True),
        ("a@b.com", "a@b.com.evil", False),
        ("a@b.com", "a@bxcom", False),
        ("a@b.com", "a@b.com\n", False),
        ("mail.*", "mail.out", True),
        ("mail.*", "mail.", True),
        ("mail.*", "mail", False),
        ("mail.*", "xmail.out", False),
        ("mail.*", "mail.a\nb", True),
        ("*.out", "mail.out", True),
        ("mail?", "mail1", True),
        ("mail?", "mail", False),
        ("mail?", "mail12", False),
        ("mail[12]", "mail1", True),
        ("mail[12]", "mail3", False),
        ("mail[!12]", "mail3", True),
        ("mail[*]", "mail*", True),
        ("mail[*]", "mailx", False),
        ("mail[", "mail[", True),
        ("a.b", "a-b", False),
        ("*", "anything at all", True),
    ],
)
def test_a_glob_matches_a_whole_name_or_not_at_all(glob: str, queue: str, matches: bool) -> None:
    assert caller(glob).may(Right.WORK, queue) is matches


@given(globs=st.lists(TEXTS, min_size=1, max_size=3), queue=TEXTS)
def test_globs_are_those_of_the_standard_library(globs: list[str], queue: str) -> None:
    expected = "*" in globs or (queue != "*" and any(fnmatchcase(queue, g) for g in globs))

    assert caller(*globs).may(Right.READ, queue) is expected


@given(queue=st.text(st.sampled_from("ab.@-/:"), min_size=1, max_size=8), more=TEXTS)
def test_a_name_without_signs_matches_itself_and_nothing_longer(queue: str, more: str) -> None:
    assert caller(queue).may(Right.WORK, queue)
    assert not caller(queue).may(Right.WORK, queue + more)
    assert not caller(queue).may(Right.WORK, more + queue)


@pytest.mark.parametrize("asked", [None, "*"])
@pytest.mark.parametrize("globs", [("?",), ("[*]",), ("?*",), ("mail", "a*"), ()])
def test_all_queues_at_once_need_the_star_itself(asked: str | None, globs: tuple[str, ...]) -> None:
    assert not caller(*globs).may(Right.READ, asked)
    assert caller(*globs, "*").may(Right.READ, asked)


@pytest.mark.parametrize("right", list(Right))
def test_a_right_says_nothing_of_another(right: Right) -> None:
    only = caller("*", rights=frozenset({right}))

    assert [other for other in Right if only.may(other, "q")] == [right]
    assert [other for other in Right if only.may(other, None)] == [right]


def test_without_authentication_anybody_may_do_all() -> None:
    assert all(ANYBODY.may(right, queue) for right in Right for queue in ("q", None, "*"))


def test_a_refusal_names_right_and_queue_and_what_to_ask_for() -> None:
    reader = caller("mail", rights=frozenset({Right.READ}))

    reader.require(Right.READ, "mail")
    with pytest.raises(PermissionDenied, match="the right work on queue 'mail'"):
        reader.require(Right.WORK, "mail")
    with pytest.raises(PermissionDenied, match=r"the right read on all queues \('\*'\)"):
        reader.require(Right.READ, None)


def test_a_refusal_of_a_huge_name_is_not_huge_itself() -> None:
    with pytest.raises(PermissionDenied) as refused:
        caller("mail").require(Right.WORK, "x" * 1_000_000)

    assert len(str(refused.value)) < 200


def test_a_glob_that_would_drive_other_matchers_mad_is_answered_at_once() -> None:
    assert not caller("*a" * 100 + "b").may(Right.WORK, "a" * 255)


def test_globs_and_rights_are_checked_before_they_are_stored() -> None:
    assert check_globs(["a", "**", "a", "*"]) == ("a", "*")
    assert check_rights(["admin", "work", "admin"]) == ("work", "admin")
    for bad in (
        [],
        ["x" * 256],
        ["a\nb"],
        [""],
        [7],
        "abc",
        ["\ud800"],
        list(map(str, range(101))),
    ):
        with pytest.raises(InvalidOption):
            check_globs(bad)
    for bad in ([], ["root"], ["Work"], "work", [7]):
        with pytest.raises(InvalidOption):
            check_rights(bad)
