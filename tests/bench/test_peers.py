"""The benchmark of peers uses our own product as a user would, and counts what anybody runs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers import install, measures, sheets, stores, verb
from bench.peers.measures import Ground
from bench.peers.programs.marks import RECORD, SLOTS, Marks
from bench.peers.roster import PEERS
from wherry.dsn import read_dsn
from wherry.errors import ConfigError

WHERRY = PEERS["wherry"]


@pytest.fixture
def ground(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    # Databases are made on a server that other tests use at the same time.
    monkeypatch.setattr(stores, "PREFIX", f"{read_dsn(dsn)['dbname']}_peers_")
    postgres = stores.Postgres(dsn)
    # Our own program needs no environment but this one.
    yield Ground(
        postgres, None, {"wherry": [sys.executable, "-m", "bench.peers.programs.use_wherry"]}
    )
    postgres.leave()


@pytest.fixture
def marks() -> Iterator[Marks]:
    with Marks.made(10) as made:
        yield made


@pytest.mark.parametrize("name", PEERS)
def test_what_is_installed_for_a_peer_is_an_exact_version_from_nowhere_in_particular(
    name: str,
) -> None:
    text = install.pins(PEERS[name]).read_text()

    if PEERS[name].on_node:
        assert all(re.fullmatch(r"[\d.]+", v) for v in json.loads(text)["dependencies"].values())
    else:
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in text.splitlines())
    assert install.version(PEERS[name])


def test_each_measure_is_predicted_compared_and_drawn() -> None:
    measured = set(verb.kinds(scale=1.0, seconds=60.0))

    assert set(sheets.PREDICTIONS) == set(sheets.TELLING) == set(sheets.CHARTS) == measured


def test_ratios_are_kept_and_drawn_best_peer_first(
    ground: Ground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = sheets.Sheets({"wherry": "this tree"}, ground.postgres.connection)
    for peer, rate in (("wherry", 300.0), ("oban", 100.0), ("pgqueuer", 150.0)):
        kept.add("drain", "tuned x1", peer, {"tasks/s": rate})

    kept.show({"celery": "there is no redis-server"})
    kept.draw(tmp_path)
    kept.write(tmp_path / "all.json", {})

    assert "best first: pgqueuer 2.00, oban 3.00" in capsys.readouterr().out
    assert (tmp_path / "drain.png").stat().st_size > 1000
    told = json.loads((tmp_path / "all.json").read_text())
    assert told["measures"]["drain"]["ratios"] == {
        "tuned x1: wherry / pgqueuer, tasks/s": 2.0,
        "tuned x1: wherry / oban, tasks/s": 3.0,
    }


@pytest.mark.parametrize("tuned", [True, False])
def test_our_program_is_drained_by_two_workers_and_counted_once(
    ground: Ground, tuned: bool
) -> None:
    figures = measures.drain(ground, WHERRY, tuned=tuned, processes=2, scale=0.005)

    assert figures["not once"] == figures["unfinished"] == 0
    assert figures["tasks/s"] > 0


def test_our_program_is_timed_in_a_transaction_and_beside_a_held_snapshot(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures, "WINDOW_SECONDS", 0.3)

    waits = measures.latency(ground, WHERRY, seconds=0.4, open_seconds=0.01)
    held = measures.held(ground, WHERRY, snapshot=True, seconds=1.0)

    assert waits["not once"] == held["not once"] == 0
    assert 0 < waits["p50"] <= waits["p99"]
    assert held["tasks"] > 0


def test_a_second_benchmark_on_the_same_server_is_refused(ground: Ground) -> None:
    with pytest.raises(ConfigError, match="another benchmark"):
        stores.Postgres(ground.postgres.dsn)


def test_a_task_that_ran_twice_is_a_fault_by_either_count(marks: Marks) -> None:
    for task in (0, 1, 2, 2):
        marks.hit(task)

    assert marks.absorb() == 4
    assert marks.faults(2) == 2
    assert marks.faults(4) == 2


def test_what_a_journal_says_is_taken_in_once_and_only_if_it_is_whole(marks: Marks) -> None:
    journal = marks.path.with_name(f"journal.{os.getpid() + SLOTS}")
    whole = RECORD.pack(3, 1.5) + RECORD.pack(4, 2.5)

    journal.write_bytes(whole[:-1])
    assert marks.absorb() == 1
    journal.write_bytes(whole)
    assert marks.absorb() == 2

    assert marks.faults(10) == 8
    assert marks.times(10) == [1.5, 2.5]
