"""`wherry cron`: what it shows of schedules, what it changes, and what it says of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer
from wherry import App
from wherry.cli.text import moment

Cli = Callable[..., Answer]


@pytest.fixture
def nightly(app: App) -> str:
    """A schedule that is there whoever is alive."""
    app.add_schedule("nightly", "30 3 * * *", "report", {"a": 1}, tz="Asia/Kolkata", tags=["x"])
    return "nightly"


def test_schedules_are_listed_with_their_next_time_in_both_zones(cli: Cli, nightly: str) -> None:
    """CRON-06: and the zone is said, UTC too."""
    assert cli("cron", "add", "plain", "0 3 * * *", "t").out == "added plain\n"

    answer = cli("cron", "list")
    told = cli("cron", "list", "--json").json["schedules"]

    header, kolkata, utc = answer.out.splitlines()
    assert header.split()[:4] == ["schedule", "state", "cron", "zone"]
    assert "30 3 * * *  Asia/Kolkata" in kolkata
    assert "03:30:00+05:30" in kolkata
    assert "22:00:00" in kolkata
    assert "0 3 * * *   UTC" in utc
    assert utc.count("03:00:00") == 2
    assert [(each["name"], each["state"], each["tz"]) for each in told] == [
        ("nightly", "active", "Asia/Kolkata"),
        ("plain", "active", "UTC"),
    ]
    assert told[0]["next_at"].endswith("T22:00:00Z")
    assert told[0]["next_local"].endswith("T03:30:00+05:30")
    assert (told[0]["payload"], told[0]["tags"], told[0]["by_hand"]) == ({"a": 1}, ["x"], True)


def test_without_schedules_the_list_says_so(cli: Cli) -> None:
    answer = cli("cron", "list")

    assert (answer.code, answer.out) == (0, "")
    assert "@app.schedule" in answer.err


def test_one_schedule_is_shown_in_full(cli: Cli, nightly: str) -> None:
    cli("cron", "pause", nightly, "--reason", "a \x1b[31mflood")

    shown = cli("cron", "show", nightly)

    assert shown.out.startswith("nightly: paused\n")
    assert r"a \x1b[31mflood" in shown.out
    for text in ("30 3 * * * (Asia/Kolkata)", "report", '{"a": 1}', "by hand", "0 fired"):
        assert text in shown.out.replace('{"a":1}', '{"a": 1}')
    assert cli("cron", "show", nightly, "--json").json["state"] == "paused"


def test_a_schedule_is_paused_and_resumed(cli: Cli, nightly: str) -> None:
    assert cli("cron", "pause", nightly).out == "paused nightly\n"
    assert cli("cron", "pause", nightly, "--json").json == {
        "schedule": "nightly", "changed": False,
    }  # fmt: skip
    assert cli("cron", "resume", nightly).out == "resumed nightly\n"
    assert cli("cron", "resume", nightly).out == "nightly was not paused\n"


def test_a_run_by_hand_is_told_with_its_task_and_stands_in_the_history(
    cli: Cli, app: App, nightly: str
) -> None:
    assert cli("cron", "history", nightly).err == "none of its times has come yet\n"

    ran = cli("cron", "run", nightly, "--reason", "to see", "--json")

    id_ = ran.json["id"]
    task = app.get_task(id_)
    assert task is not None
    assert task.headers == {"wherry-schedule": "nightly"}
    history = cli("cron", "history", nightly)
    assert "by_hand" in history.out
    assert "to see" in history.out
    told = cli("cron", "history", nightly, "--limit", "1", "--json").json
    [tick] = told["ticks"]
    assert (tick["outcome"], tick["task_id"], tick["state"]) == ("by_hand", id_, "queued")
    more = cli("cron", "history", nightly, "--before", told["before"], "--json")
    assert more.json == {"ticks": [], "before": None}


def test_the_next_page_of_a_history_is_what_the_note_says(cli: Cli, nightly: str) -> None:
    ids = [cli("cron", "run", nightly, "--json").json["id"] for _ in range(3)]

    pages = [cli("cron", "history", nightly, "--limit", "1")]
    for _ in ids:
        *_, option, instant = pages[-1].err.split()
        pages.append(cli("cron", "history", nightly, "--limit", "1", option, instant))

    told = [re.findall(r"by_hand +(\d+)", page.out) for page in pages]
    assert told == [*([str(id_)] for id_ in reversed(ids)), []]


def test_moments_are_in_the_readers_own_zone_and_say_so(cli: Cli, app: App, nightly: str) -> None:
    """As everywhere; the next time alone is in its schedule's zone and in UTC, as it says."""
    app.run_schedule(nightly)
    app.pause_schedule(nightly)
    app.pause_type("t")
    [tick], [paused] = app.list_ticks(nightly), app.list_paused_types()
    seen = app.get_schedule(nightly)

    history, shown = cli("cron", "history", nightly).out, cli("cron", "show", nightly).out

    assert seen is not None
    assert moment(tick.planned_at) in history
    for at in (seen.created_at, seen.changed_at, seen.paused_at):
        assert moment(at) in shown
    assert moment(paused.paused_at) in cli("types", "list").out


def test_a_schedule_is_added_once_and_deleted(cli: Cli, nightly: str) -> None:
    again = cli("cron", "add", nightly, "* * * * *", "t")

    assert again.out == "nightly is there already, and stays as it is\n"
    assert cli("cron", "delete", nightly).out == "deleted nightly\n"
    assert cli("cron", "delete", nightly).code == 1


def test_what_a_live_worker_declares_is_not_deleted(cli: Cli, app: App) -> None:
    from tests.pg.schedules import schedule
    from wherry.commands.declaring import DeclareSchedules
    from wherry.commands.workers import BeatWorker

    instance = "00000000-0000-0000-0000-000000000001"
    app.carry(BeatWorker(instance=instance, name="w", host="h", pid=1, queues=None, types=("t",)))
    app.carry(DeclareSchedules((schedule("coded"),), instance))

    answer = cli("cron", "delete", "coded")

    assert answer.code == 1
    assert "live workers declare coded" in answer.err


@pytest.mark.parametrize("verb", ["show", "history", "run", "pause", "resume", "delete"])
def test_an_unknown_name_is_an_error(cli: Cli, verb: str) -> None:
    answer = cli("cron", verb, "none")

    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "Error: a schedule called 'none' is not in the database\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("61 * * * *", "t"), "its minutes are none of 0 to 59"),
        (("0 0 30 2 *", "t"), "none that its months have"),
        (("* * * * *", "t", "[]"), "an array"),
        (("* * * * *", "t", "--tz", "Europe/Berln"), "did you mean Europe/Berlin"),
        (("* * * * *", "t", "--priority", "200"), "between"),
    ],
)
def test_what_cannot_be_added_is_refused(cli: Cli, args: tuple[str, ...], says: str) -> None:
    answer = cli("cron", "add", "s", *args)

    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err


def test_a_worker_whose_code_names_an_unknown_zone_ends_with_2(cli: Cli, tmp_path: Path) -> None:
    """CRON-06."""
    (tmp_path / "zones.py").write_text(
        "import wherry\n\napp = wherry.App()\n\n"
        "@app.schedule('* * * * *', tz='Mars/Olympus')\n@app.task\ndef t(): pass\n"
    )

    answer = cli("worker", "zones:app", "--until-empty")

    assert answer.code == 2
    assert "Mars/Olympus" in answer.err
