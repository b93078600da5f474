"""What `tasks`, `dead` and `queues` show: all of it, exactly, and harmless to the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Answer
from wherry import App

Cli = Callable[..., Answer]
EVIL = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202e[bold red]x[/] :boom: \r\n"


def fail(app: App, *, error: BaseException | str = "boom", retry: bool = True) -> None:
    [lease] = app.lease(worker="box-1", queues=["*"])
    app.fail(lease, error, retry=retry)


def test_tasks_are_listed_newest_first_and_page_by_page(cli: Cli, app: App) -> None:
    ids = [app.enqueue("shop.mail", {"n": n}).id for n in range(5)]

    first = cli("tasks", "list", "--limit", "2", "--json").json
    second = cli("tasks", "list", "--limit", "2", "--after", str(first["after"]), "--json").json
    last = cli("tasks", "list", "--limit", "2", "--after", str(second["after"]), "--json").json

    pages = [[task["id"] for task in page["tasks"]] for page in (first, second, last)]
    assert pages == [[ids[4], ids[3]], [ids[2], ids[1]], [ids[0]]]
    assert last["after"] is None


def test_a_page_says_on_stderr_how_to_go_on(cli: Cli, app: App) -> None:
    ids = [app.enqueue("shop.mail").id for _ in range(3)]

    answer = cli("tasks", "list", "--limit", "2")

    assert f"--after {ids[1]}" in answer.err
    assert [line.split()[0] for line in answer.out.splitlines()] == ["id", str(ids[2]), str(ids[1])]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--queue", "a%"], {"percent"}),
        (["--queue", "a_"], {"underscore"}),
        (["--type", "x'; drop table wherry.live; --"], {"quote"}),
        (["--type", "back\\slash"], {"backslash"}),
        (["--tag", "%"], set()),
        (["--tag", "t"], {"percent", "tagged"}),
        (["--state", "queued", "--queue", "default"], {"quote", "backslash", "tagged"}),
        (["--state", "dead"], set()),
        (["--error", "%"], set()),
        (["--older-than", "1h"], set()),
    ],
)
def test_filters_match_exactly_whatever_is_in_a_name(
    cli: Cli, app: App, options: list[str], expected: set[str]
) -> None:
    """MIG-07: a name is data, never SQL and never a pattern."""
    ids = {
        app.enqueue("t", queue="a%", tags=["t"]).id: "percent",
        app.enqueue("t", queue="a_").id: "underscore",
        app.enqueue("x'; drop table wherry.live; --").id: "quote",
        app.enqueue("back\\slash").id: "backslash",
        app.enqueue("t", tags=["t"]).id: "tagged",
    }

    answer = cli("tasks", "list", *options, "--json")

    assert {ids[task["id"]] for task in answer.json["tasks"]} == expected
    assert len(app.list_tasks().tasks) == len(ids)


def test_dead_tasks_are_listed_each_with_its_reason_and_error(cli: Cli, app: App) -> None:
    app.enqueue("a", max_attempts=1)
    fail(app, error=ValueError("no such\naddress"))
    app.enqueue("b")
    fail(app, retry=False)
    app.enqueue("c")

    answer = cli("dead", "list")

    rows = answer.out.splitlines()
    assert len(rows) == 3
    assert re.search(
        r"failed +default +b +1/20 .*its handler said: do not retry +Error: boom", rows[1]
    )
    assert re.search(
        r"dead +default +a +1/1 .*attempts ran out \(1 of 1\) +ValueError: no such$", rows[2]
    )


def test_dead_show_gives_every_attempt_then_the_payload(cli: Cli, app: App) -> None:
    id = app.enqueue("a", {"n": 10**30, "to": "ä"}, max_attempts=2, retry=None).id
    for text in ("first time", "second time"):
        try:
            raise ValueError(text)
        except ValueError as error:
            [lease] = app.lease(worker="box-1")
            app.fail(lease, error, after=0)

    shown = cli("dead", "show", str(id)).out
    given = cli("dead", "show", str(id), "--json").json

    assert shown.startswith(f"task {id}: dead, attempts ran out (2 of 2)\n")
    for attempt, text in ((1, "first time"), (2, "second time")):
        assert f"attempt {attempt} failed by box-1, " in shown
        assert f"    ValueError: {text}\n    Traceback (most recent call last):\n" in shown
    assert shown.rstrip().endswith('payload\n  {"n":' + str(10**30) + ',"to":"ä"}')
    assert given["reason"] == "attempts ran out (2 of 2)"
    assert given["payload"] == {"n": 10**30, "to": "ä"}
    assert [(a["attempt"], a["outcome"], a["worker"]) for a in given["history"]] == [
        (1, "failed", "box-1"),
        (2, "failed", "box-1"),
    ]
    assert "second time" in given["history"][1]["traceback"]


def test_dead_show_of_another_task_says_where_to_look(cli: Cli, app: App) -> None:
    id = app.enqueue("a").id

    answer = cli("dead", "show", str(id))

    assert (answer.code, answer.out) == (1, "")
    assert f"task {id} is queued, not dead: wherry tasks show {id}" in answer.err


def test_an_id_that_names_no_task_is_an_error(cli: Cli) -> None:
    for verb in ("tasks", "dead"):
        answer = cli(verb, "show", "4711")

        assert answer.code == 1
        assert answer.err == "Error: task 4711 is not in the database\n"


@pytest.mark.parametrize("id", ["0", "-3", "9223372036854775808", "x"])
def test_what_cannot_be_an_id_is_refused(cli: Cli, id: str) -> None:
    assert cli("tasks", "show", "--", id).code == 2


def test_a_leased_task_names_its_worker(cli: Cli, app: App) -> None:
    id = app.enqueue("a").id
    app.lease(worker="box-1")

    assert "with box-1" in cli("tasks", "list").out
    shown = cli("tasks", "show", str(id), "--json").json
    assert (shown["state"], shown["worker"]) == ("leased", "box-1")
    assert shown["lease_expires_at"].endswith("Z")


def test_a_result_is_shown_as_it_is_stored(cli: Cli, app: App) -> None:
    id = app.enqueue("a").id
    [lease] = app.lease(worker="box-1")
    app.complete(lease, result={"big": 2**80})

    assert cli("tasks", "show", str(id), "--json").json["result"] == {"big": 2**80}
    assert f'result\n  {{"big":{2**80}}}' in cli("tasks", "show", str(id)).out


def test_a_payload_that_no_worker_can_read_is_still_shown(
    cli: Cli, app: App, sql: Callable[..., list[Any]]
) -> None:
    """LOST-14: what is stored can be exported, whatever it is."""
    id = app.enqueue("a").id
    sql("update wherry.live set payload = '[1e9999, 2]'")

    assert '"payload": [1e9999, 2]' in cli("tasks", "show", str(id), "--json").out
    assert "  [1e9999, 2]\n" in cli("tasks", "show", str(id)).out


@pytest.mark.parametrize("id", [2_147_483_650, 9_007_199_254_740_993])
def test_a_large_id_is_shown_and_acted_on(
    cli: Cli, app: App, sql: Callable[..., list[Any]], id: int
) -> None:
    """SCL-02: the command line's part."""
    sql("select setval('wherry.task_id', %(id)s, false)", id=id)
    assert app.enqueue("a").id == id

    listed = cli("tasks", "list", "--json").json["tasks"]
    canceled = cli("tasks", "cancel", str(id))
    back = cli("tasks", "requeue", str(id))

    assert [task["id"] for task in listed] == [id]
    assert (canceled.code, back.code) == (0, 0)
    shown = cli("tasks", "show", str(id))
    assert f"task {id}: queued" in shown.out


def test_queues_are_counted_by_what_their_tasks_wait_for(cli: Cli, app: App) -> None:
    app.enqueue("a", queue="mail")
    app.enqueue("a", queue="mail", delay=60)
    app.enqueue("a", queue="other")
    app.lease(worker="w", queues=["other"])

    given = cli("queues", "list", "--json").json["queues"]
    shown = cli("queues", "list").out

    assert [(q["queue"], q["ready"], q["delayed"], q["leased"]) for q in given] == [
        ("mail", 1, 1, 0),
        ("other", 0, 0, 1),
    ]
    assert re.search(r"^mail +1 +1 +0 +0 +\d", shown, re.MULTILINE)


def test_an_empty_listing_says_so_on_stderr_only(cli: Cli) -> None:
    assert cli("tasks", "list") == Answer(0, "", "no tasks\n")
    assert cli("dead", "list", "-q") == Answer(0, "", "")
    assert cli("queues", "list").out == ""
    assert cli("dead", "list", "--json").json == {"tasks": [], "after": None, "before": None}


def test_data_cannot_drive_the_terminal(cli: Cli, app: App, sql: Callable[..., list[Any]]) -> None:
    """SEC-01: not by type, queue, schedule, key, tag, header, payload, worker, error or reason."""
    visible = "[bold]x[/bold]\u202e:boom:"
    id = app.enqueue(
        visible, {visible: EVIL}, queue=visible, key=EVIL, tags=[visible],
        headers={visible: EVIL}, max_attempts=1,
    ).id  # fmt: skip
    [lease] = app.lease(worker=visible, queues=[visible])
    app.fail(lease, ValueError(EVIL))
    waiting = app.enqueue(visible, {visible: EVIL}, queue=visible, key="k").id
    assert cli("queues", "pause", visible, "--reason", EVIL).code == 0
    assert cli("types", "pause", visible, "--queue", visible, "--reason", EVIL).code == 0
    app.add_schedule(visible, "0 3 * * *", visible, payload={visible: EVIL}, queue=visible)
    app.run_schedule(visible, reason=EVIL)
    sql(
        "insert into wherry.worker (instance, name, host, pid, queues, types, started_at, beat_at,"
        " expires_at, directive, directed_by, directive_reason, slots, version)"
        " select gen_random_uuid(), evil, evil, 1, array[evil], array[evil], now(), now(),"
        " now() + interval '1 hour', 'drain', evil, evil, 5, evil"
        " from (values (%(evil)s)) as e (evil)",
        evil=EVIL,
    )
    listings = (
        ["tasks", "list"],
        ["tasks", "show", str(id)],
        ["tasks", "why", str(waiting)],
        ["dead", "list"],
        ["dead", "groups"],
        ["dead", "show", str(id)],
        ["queues", "list"],
        ["types", "list"],
        ["workers", "list"],
        ["cron", "list"],
        ["cron", "show", visible],
        ["cron", "history", visible],
        ["audit", "list"],
    )

    for args in listings:
        answers = cli(*args), cli(*args, "--json")
        assert [answer.code for answer in answers] == [0, 0], args
        shown = "".join(answer.out for answer in answers)
        assert "x" in shown, args
        assert not re.search(r"[^\x20-\x7e\n]", shown), args
    shown = cli("dead", "show", str(id)).out
    assert r"[bold]x[/bold]\u202e:boom:" in shown
    assert r"ValueError: \x1b[31mred" in shown


def test_colours_come_to_a_terminal_only(cli: Cli, app: App) -> None:
    app.enqueue("a")

    assert "\x1b[" not in cli("tasks", "list").out
    assert "\x1b[" in cli("tasks", "list", FORCE_COLOR="1", TERM="xterm").out
    assert "\x1b[3" not in cli("tasks", "list", FORCE_COLOR="1", TERM="xterm", NO_COLOR="1").out


def test_a_pipe_gets_whole_lines_and_a_narrow_terminal_gets_blocks(cli: Cli, app: App) -> None:
    app.enqueue("t" * 200, queue="q" * 200, key="k" * 300)

    piped = cli("tasks", "list").out
    narrow = cli("tasks", "list", FORCE_COLOR="1", NO_COLOR="1", COLUMNS="30", TERM="xterm").out

    assert len(piped.splitlines()) == 2
    assert "t" * 200 in piped
    assert "key       " + "k" * 300 in narrow


def test_json_is_one_document_and_the_rest_goes_to_stderr(cli: Cli, app: App) -> None:
    app.enqueue("a")
    app.enqueue("a")

    answer = cli("tasks", "list", "--limit", "1", "--json", "-v")

    assert len(json.loads(answer.out)["tasks"]) == 1
