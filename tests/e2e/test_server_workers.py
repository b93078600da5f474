"""Remote workers that are asked to end, or to drain: by a signal, and through their server."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner

import wherry
from tests.e2e.servers import Fleet, Notes, ServerProcess
from tests.facts import wait_for
from wherry.cli import main
from wherry.domain.task import Task

Cli = Callable[..., str]
# A server hears within 18 s of what somebody has asked through the database.
HEARD_WITHIN = 25.0


@pytest.fixture
def server(fleet: Fleet, dsn: str) -> ServerProcess:
    return fleet.server(dsn)


@pytest.fixture
def remote(server: ServerProcess) -> Iterator[wherry.App]:
    """An App that has only the server."""
    with wherry.App(server.address) as app:
        yield app


@pytest.fixture
def cli(server: ServerProcess) -> Cli:
    """Run the command line on the server; gives what it has said."""

    def run(*args: str) -> str:
        result = CliRunner().invoke(main, [*args, "--dsn", server.address])
        assert result.exit_code == 0, result.output
        return result.output

    return run


def alive(app: wherry.App) -> list[str]:
    return [worker.name for worker in app.list_workers() if worker.alive]


def found(app: wherry.App, id_: int) -> Task:
    task = app.get_task(id_)
    assert task is not None
    return task


def test_a_signal_lets_a_remote_worker_finish_say_goodbye_and_end_with_0(
    fleet: Fleet, server: ServerProcess, remote: wherry.App, notes: Notes
) -> None:
    """What runs is finished and told, the rest is left to others, and it is listed no more."""
    worker = fleet.worker(server.address, notes=notes.dsn, options="--concurrency 2")
    running = [remote.enqueue("effect", {"n": n, "seconds": 2}).id for n in range(2)]
    wait_for(lambda: notes.count() == 2, seconds=20)
    waiting = [remote.enqueue("effect", {"n": n}).id for n in range(3)]
    wait_for(lambda: alive(remote) == ["w1"], seconds=20)

    worker.send(signal.SIGTERM)

    assert worker.ended(within=15) == 0, worker.log
    assert [found(remote, id_).state for id_ in running] == ["succeeded"] * 2
    assert [found(remote, id_).state for id_ in waiting] == ["queued"] * 3
    assert [found(remote, id_).attempts for id_ in waiting] == [0] * 3
    assert alive(remote) == []


def test_an_idle_remote_worker_ends_at_once(
    fleet: Fleet, server: ServerProcess, remote: wherry.App, notes: Notes
) -> None:
    """Although the answer to its long poll is not due for half a minute."""
    worker = fleet.worker(server.address, notes=notes.dsn)
    wait_for(lambda: notes.waiting() == 1 and alive(remote) == ["w1"], seconds=20)

    worker.send(signal.SIGTERM)

    assert worker.ended(within=25) == 0, worker.log
    assert alive(remote) == []
    id_ = remote.enqueue("effect", {"n": 1}).id
    assert found(remote, id_).state == "queued"


def test_remote_workers_drain_and_stop_as_they_are_asked(
    fleet: Fleet, server: ServerProcess, remote: wherry.App, notes: Notes, cli: Cli
) -> None:
    """By `wherry workers drain` and `stop`: who drains stays, and leaves the tasks to others."""
    first = fleet.worker(server.address, notes=notes.dsn, name="first")
    wait_for(lambda: alive(remote) == ["first"], seconds=20)

    assert "1 worker asked to drain" in cli("workers", "drain", "first", "--reason", "test")
    first.says("worker first was told to drain", seconds=HEARD_WITHIN)
    second = fleet.worker(server.address, notes=notes.dsn, name="second")
    for n in range(20):
        remote.enqueue("effect", {"n": n})
    notes.wait_until_done(20, seconds=20)
    assert {note.worker for note in notes.all()} == {str(second.process.pid)}

    wait_for(lambda: alive(remote) == ["first", "second"], seconds=20)
    cli("workers", "stop", "second")
    assert second.ended(within=HEARD_WITHIN) == 0, second.log
    last = remote.enqueue("effect", {"n": 0}).id
    assert first.runs
    assert found(remote, last).state == "queued"
    wait_for(lambda: alive(remote) == ["first"], seconds=20)


def test_a_stop_asked_for_in_the_database_reaches_a_remote_worker_that_works(
    fleet: Fleet, server: ServerProcess, dsn: str, notes: Notes
) -> None:
    """What it runs is finished first."""
    worker = fleet.worker(server.address, notes=notes.dsn)
    with wherry.App(dsn) as database:
        id_ = database.enqueue("effect", {"n": 1, "seconds": 3}).id
        wait_for(lambda: notes.of(id_) and alive(database), seconds=20)

        assert database.direct_workers(["w1"], "stop") == 1

        assert worker.ended(within=HEARD_WITHIN + 5) == 0, worker.log
        assert "worker w1 was told to stop" in worker.log
        assert found(database, id_).state == "succeeded"


def test_a_killed_worker_that_was_idle_takes_no_task_with_it(
    fleet: Fleet, server: ServerProcess, remote: wherry.App, notes: Notes
) -> None:
    """Its poll is gone with its connection: the next task goes to who is there."""
    first = fleet.worker(server.address, notes=notes.dsn, name="first")
    second = fleet.worker(server.address, notes=notes.dsn, name="second")
    wait_for(lambda: alive(remote) == ["first", "second"], seconds=20)

    first.kill()
    ids = [remote.enqueue("effect", {"n": n}).id for n in range(4)]
    notes.wait_until_done(4, seconds=20)

    assert [found(remote, id_).attempts for id_ in ids] == [1] * 4
    assert sorted(note.task for note in notes.all()) == sorted(ids)
    assert {note.worker for note in notes.all()} == {str(second.process.pid)}


def test_a_worker_that_was_frozen_while_it_waited_begins_nothing_that_went_to_another(
    fleet: Fleet, server: ServerProcess, remote: wherry.App, notes: Notes
) -> None:
    """API-04, DBL-06: what it was sent lies in its socket; unconfirmed, it has gone back."""
    first = fleet.worker(server.address, notes=notes.dsn, name="first")
    wait_for(lambda: alive(remote) == ["first"], seconds=20)
    wait_for(lambda: notes.waiting() == 1, seconds=20)
    first.send(signal.SIGSTOP)
    id_ = remote.enqueue("effect", {"n": 1}).id
    server.says("given back if unconfirmed: 1 tasks", seconds=20)
    second = fleet.worker(server.address, notes=notes.dsn, name="second")
    notes.wait_until_done(1, seconds=20)

    first.send(signal.SIGCONT)
    # It is well again, and has looked at all that came while it slept.
    second.send(signal.SIGTERM)
    assert second.ended(within=15) == 0
    later = remote.enqueue("effect", {"n": 2}).id
    wait_for(lambda: notes.of(later), seconds=20)

    assert [note.worker for note in notes.of(id_)] == [str(second.process.pid)]
    assert found(remote, id_).attempts == 1
