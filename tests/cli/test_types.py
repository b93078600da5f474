"""`wherry types`: what is said of a pause that stays, and of a name that nobody knows."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.conftest import Answer
from wherry import App

Cli = Callable[..., Answer]


def test_what_still_holds_is_told(cli: Cli, app: App) -> None:
    app.pause_type("mail")
    app.pause_type("mail", queue="a b")
    app.pause_type("other", queue="q")

    missed = cli("types", "resume", "mail", "--queue", "q2")
    resumed = cli("types", "resume", "mail")
    last = cli("types", "resume", "mail", "--queue", "a b")

    assert missed.out == (
        "mail was not paused there\nit is still paused in all queues and in a b\n"
    )
    assert missed.err == "to go on: wherry types resume mail\n"
    assert resumed.out == "resumed mail\nit is still paused in a b\n"
    assert resumed.err == "to go on: wherry types resume --queue='a b' mail\n"
    assert (last.out, last.err) == ("resumed mail\n", "")


def test_what_still_holds_is_told_to_programs(cli: Cli, app: App) -> None:
    for queue in (None, "a", "b"):
        app.pause_type("mail", queue=queue)

    first = cli("types", "resume", "mail", "--queue", "a", "--json").json
    cli("types", "resume", "mail", "--queue", "b")
    last = cli("types", "resume", "mail", "--json").json

    assert first == {"type": "mail", "queue": "a", "changed": True, "still_paused": [None, "b"]}
    assert last == {"type": "mail", "queue": None, "changed": True}


def test_who_resumes_a_type_is_told_that_its_queue_is_paused(cli: Cli, app: App) -> None:
    app.pause_queue("a b")
    app.pause_type("mail", queue="a b")

    told = cli("types", "resume", "mail", "--queue", "a b")
    again = cli("types", "resume", "mail", "--queue", "a b", "--json").json

    assert told.out == "resumed mail\nthe queue a b is itself paused\n"
    assert told.err == "to go on: wherry queues resume 'a b'\n"
    assert again == {"type": "mail", "queue": "a b", "changed": False, "queue_paused": True}
    assert "paused" not in cli("types", "resume", "mail", "--json").out


def test_an_empty_queue_is_not_taken_for_all_of_them(cli: Cli, app: App) -> None:
    for verb in ("pause", "resume"):
        refused = cli("types", verb, "mail", "--queue", "")

        assert refused.code == 2
        assert "is empty: leave it out for all queues" in refused.err
    assert app.list_paused_types() == []


def test_a_resumed_queue_tells_which_types_stay_paused_in_it(cli: Cli, app: App) -> None:
    app.pause_queue("q")
    for type, queue in (("mail", "q"), ("mail", None), ("a b", "q"), ("other", "q2")):
        app.pause_type(type, queue=queue)

    resumed = cli("queues", "resume", "q")
    told = cli("queues", "resume", "q", "--json").json

    assert resumed.out == "resumed q\nstill paused in it: a b, mail\n"
    assert resumed.err == "to go on: wherry types resume --queue=q 'a b'\n"
    assert told == {"queue": "q", "changed": False, "still_paused": ["a b", "mail"]}
    assert cli("queues", "resume", "q3").err == "to go on: wherry types resume mail\n"


def test_many_places_are_counted(cli: Cli, app: App) -> None:
    for n in range(5):
        app.pause_type("mail", queue=f"q{n}")

    assert "still paused in q0, in q1, in q2 and in 2 more\n" in cli("types", "resume", "mail").out


def test_a_type_that_nobody_knows_is_paused_and_that_is_told(cli: Cli, app: App) -> None:
    app.enqueue("here", queue="q")

    unknown = cli("types", "pause", "heer")
    known = cli("types", "pause", "here")

    assert (unknown.code, unknown.out) == (0, "paused heer\n")
    assert "no task of it is here now" in unknown.err
    assert (known.code, known.err) == (0, "")
